package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MaxRegion is the size in bytes of the largest region: what a descriptor's 32-bit offset can reach.
const MaxRegion = 1 << 32

// Why a region can't be had.
var (
	// ErrSize: no bytes, or more than offsets can reach.
	ErrSize = errors.New("region size is not in 1..=2^32")
	// ErrNotMemory: the descriptor is not a file of shared memory.
	ErrNotMemory = errors.New("region is not a memfd")
	// ErrUnsealed: the peer could take pages away.
	ErrUnsealed = errors.New("region is not sealed against shrinking")
	// ErrUnwritable: somebody has sealed it against being written, as we do with a region that we have mapped. Who announces a file more than
	// once, as zero-copy clients do, is for servers that take SharedMemory.
	ErrUnwritable = errors.New("the region's file is sealed against writing: a file can be announced once")
	// ErrUnsealable: the peer has sealed it against seals, so that it could free pages. Pools of zero-copy clients and trust groups are for
	// servers that take SharedMemory.
	ErrUnsealable = errors.New("the region's file can't be sealed against freeing its pages: leave out F_SEAL_SEAL")
	// ErrTruncated: the file is shorter than announced.
	ErrTruncated = errors.New("region is shorter than announced")
)

// HugePages says whether a region should stand on huge pages.
type HugePages int

const (
	// TryHugePages takes them if enough are free and allowed, ordinary ones otherwise.
	TryHugePages HugePages = iota
	// NoHugePages takes ordinary pages.
	NoHugePages
	// RequireHugePages takes huge pages or fails.
	RequireHugePages
)

// PeerMemory says which memory of a peer is taken, by what its owner can still do to it once we have mapped it.
type PeerMemory int

const (
	// SealedMemory is memory of which no page can be taken away: only regions with F_SEAL_SHRINK, which we then seal against growing and
	// future writing, so that their pages can't be freed. A file can be announced once so.
	SealedMemory PeerMemory = iota
	// SharedMemory is memory that its owner shares with others, too, as trust groups have their pool, and zero-copy clients of VPP theirs on
	// ordinary pages: only regions with F_SEAL_SHRINK, which we leave as they are, so that the next can map them as well. The owner can't
	// truncate one, but can free its pages: who touches one just then sleeps until all that is freed with it is, tens of milliseconds a
	// GiB, and the region is lost (ErrLost), if it had all its pages and the process may have a userfaultfd.
	SharedMemory
	// AnyMemory is any, also what is not sealed at all, as DPDK's zero-copy=yes has it: its owner can truncate it as well, and then it is
	// lost in the midst of an access.
	AnyMemory
)

// Region is one mapped memfd.
type Region struct {
	file  *os.File
	bytes []byte // all that is mapped: size rounded up to whole pages
	size  uint64
	// account is where its holes are accounted for; nil if it has none.
	account *Account
}

// keepsPages are the seals with which nobody can free a page of a file any more: neither by punching holes nor by MADV_REMOVE. A thread that
// touches a page in the range of a punch sleeps until all of it is freed, for tens of milliseconds for each GiB, and can't be woken. What is
// mapped already goes on being written.
const keepsPages = unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE

// CreateRegion makes a region, allocates all its pages and seals it against growing and shrinking, so that neither side can fault on it
// later. The seals that are missing are the server's to add, and ours once it has mapped the region: see KeepPages. Huge pages are probed by
// allocating every one of them: a container may see free ones that its cgroup doesn't allow, and would otherwise be killed at the first touch.
func CreateRegion(name string, size uint64, huge HugePages) (*Region, error) {
	if size == 0 || size > MaxRegion {
		return nil, fmt.Errorf("%w: %d", ErrSize, size)
	}
	if huge != NoHugePages {
		region, err := create(name, size, unix.MFD_HUGETLB)
		if err == nil || huge == RequireHugePages {
			return region, err
		}
	}
	return create(name, size, 0)
}

func create(name string, size uint64, flags int) (*Region, error) {
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	region, err := allocate(file, size)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return region, nil
}

func allocate(file *os.File, size uint64) (*Region, error) {
	fd := int(file.Fd())
	page, err := pageSize(fd)
	if err != nil {
		return nil, err
	}
	size = roundUp(size, page)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	region, err := mapFile(file, size, page)
	if err != nil {
		return nil, err
	}
	err = unix.Madvise(region.bytes, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.14
		err = unix.Fallocate(fd, 0, 0, int64(size))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("allocating %d bytes: %w", size, err), unix.Munmap(region.bytes))
	}
	return region, nil
}

// KeepPages has no page of a region be freed from now on, when whoever shall write it has mapped it.
func (r *Region) KeepPages() error {
	_, err := unix.FcntlInt(r.file.Fd(), unix.F_ADD_SEALS, keepsPages)
	if err == nil {
		return nil
	}
	// Somebody else may have been quicker, with these as well.
	if seals, _ := unix.FcntlInt(r.file.Fd(), unix.F_GET_SEALS, 0); seals&keepsPages == keepsPages {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnsealable, err)
}

// MapRegion maps a region that a peer sent, of the size it announced, after checking kind, seals and size of the file, and seals it so that
// its pages stay, where only such memory is taken. Holes go on an account that may have up to most bytes, in whole pages;
// a region without holes gets none later, sealed or not, and one of huge pages is lost when one is touched: see forbidHoles. Takes the descriptor
// over; on an error it is still the caller's.
func MapRegion(file *os.File, claimed uint64, which PeerMemory, account *Account, most uint64) (*Region, error) {
	if claimed == 0 || claimed > MaxRegion {
		return nil, fmt.Errorf("%w: %d", ErrSize, claimed)
	}
	fd := file.Fd()
	// Only files of shared memory and of hugetlbfs have seals; one of a network or FUSE file system, whose pages could take for
	// ever to come, has none.
	seals, err := unix.FcntlInt(fd, unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotMemory, err)
	}
	switch {
	case which != AnyMemory && seals&unix.F_SEAL_SHRINK == 0:
		return nil, ErrUnsealed
	case seals&(unix.F_SEAL_WRITE|unix.F_SEAL_FUTURE_WRITE) != 0:
		return nil, ErrUnwritable
	}
	// Seals before size: once sealed, the size seen now can't get smaller any more.
	var stat unix.Stat_t
	if err := unix.Fstat(int(fd), &stat); err != nil {
		return nil, fmt.Errorf("fstat: %w", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, ErrNotMemory
	}
	if uint64(max(stat.Size, 0)) < claimed {
		return nil, fmt.Errorf("%w: %d bytes announced, the file has %d", ErrTruncated, claimed, stat.Size)
	}
	page, err := pageSize(int(fd))
	if err != nil {
		return nil, err
	}
	region, err := mapFile(file, claimed, page)
	if err != nil {
		return nil, err
	}
	if err := region.settleHoles(which == SealedMemory, page, account, most); err != nil {
		return nil, errors.Join(err, unix.Munmap(region.bytes))
	}
	return region, nil
}

// settleHoles sees to it that a peer's region has no holes, and gets none, that we would pay for beyond what is on the account.
func (r *Region) settleHoles(keep bool, page uint64, account *Account, most uint64) error {
	fd, counts := int(r.file.Fd()), true
	if keep {
		if err := r.KeepPages(); err != nil {
			return err
		}
		counts = dropBehindEnd(fd) == nil
	}
	// Seals before holes: what is there now stays.
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("fstat: %w", err)
	}
	holes, isHuge := !counts || hasHoles(fd, &stat, r.size, page), page > uint64(os.Getpagesize())
	// Who has huge pages allocates them before use, so that nobody needs to touch a hole among them: made by us, again and again, two
	// megabytes would have to be cleared for a packet. Without holes, all is the peer's and stays so; if that can't be had, what the peer
	// frees is made anew by us, but for what is sealed.
	if (isHuge || !holes) && forbidHoles(r.bytes) == nil || !holes {
		return nil
	}
	if err := account.enter(roundUp(r.size, page), max(roundUp(most, page), most)); err != nil {
		return err
	}
	r.account = account
	return nil
}

// dropBehindEnd frees what a file has behind its end, which would be counted in the place of holes. Where it is sealed against growing, nothing
// comes there again, and the size that it has is one that it may be given.
func dropBehindEnd(fd int) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	return unix.Ftruncate(fd, stat.Size)
}

func mapFile(file *os.File, size, page uint64) (*Region, error) {
	bytes, err := unix.Mmap(int(file.Fd()), 0, int(roundUp(size, page)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	return &Region{file: file, bytes: bytes, size: size}, nil
}

// Size is what was announced, in bytes.
func (r *Region) Size() uint64 { return r.size }

// File is the memfd, to be sent to a peer.
func (r *Region) File() *os.File { return r.file }

// Close unmaps the region and closes its file. Nobody may use its bytes any more.
func (r *Region) Close() error {
	mapped := uint64(len(r.bytes))
	unmapped := unix.Munmap(r.bytes)
	if r.account != nil {
		r.account.settle(mapped, r.file)
	}
	return errors.Join(unmapped, r.file.Close())
}

func roundUp(size, page uint64) uint64 {
	page = max(page, 1)
	return (size + page - 1) / page * page
}
