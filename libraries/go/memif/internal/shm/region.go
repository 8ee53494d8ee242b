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

// Region is one mapped memfd.
type Region struct {
	file  *os.File
	bytes []byte // all that is mapped: size rounded up to whole pages
	size  uint64
	// account is where its holes are accounted for; nil if it has none.
	account *Account
}

// CreateRegion makes a region, allocates all its pages and seals it against growing, shrinking and unsealing, so that neither
// side can fault on it later. Huge pages are probed by allocating every one of them: a container may see free ones that its
// cgroup doesn't allow, and would otherwise be killed at the first touch.
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
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("allocating %d bytes: %w", size, err), unix.Munmap(region.bytes))
	}
	return region, nil
}

// MapRegion maps a region that a peer sent, of the size it announced, after checking kind, seals and size of the file. Holes go on an
// account that may have up to most bytes, in whole pages; a region without holes gets none later, and one of huge pages is lost when one
// is touched: see forbidHoles. Takes the descriptor over; on an error it is still the caller's.
func MapRegion(file *os.File, claimed uint64, allowUnsealed bool, account *Account, most uint64) (*Region, error) {
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
	if seals&unix.F_SEAL_SHRINK == 0 && !allowUnsealed {
		return nil, ErrUnsealed
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
	holes := hasHoles(int(fd), &stat, claimed, page)
	region, err := mapFile(file, claimed, page)
	if err != nil {
		return nil, err
	}
	// Who has huge pages allocates them before use, so that nobody needs to touch a hole among them: made by us, again and again, two
	// megabytes would have to be cleared for a packet. Without holes, all is the peer's and stays so. Where that can't be had, what the
	// peer frees is made anew by us.
	isHuge := page > uint64(os.Getpagesize())
	noHoles := (!holes || isHuge) && forbidHoles(region.bytes) == nil
	if holes && !noHoles {
		if err := account.enter(roundUp(claimed, page), max(roundUp(most, page), most)); err != nil {
			return nil, errors.Join(err, unix.Munmap(region.bytes))
		}
		region.account = account
	}
	return region, nil
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
