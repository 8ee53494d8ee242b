package shm

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

const huge = 2 << 20

// memory is a sealed memfd of so many bytes.
func memory(t *testing.T, size int64, flags int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if flags&unix.MFD_HUGETLB != 0 && err != nil {
		t.Skip("no file system of huge pages:", err)
	}
	if err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func stated(t *testing.T, file *os.File) *unix.Stat_t {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	return &stat
}

func hasPagesOf(t *testing.T, file *os.File, want int) {
	t.Helper()
	if page, err := pageSize(int(file.Fd())); page != uint64(want) || err != nil {
		t.Errorf("pages of %d bytes, %v, expected %d", page, err, want)
	}
}

// What fstat says is a unit for reads and writes: 2 MiB where shared memory may have transparent huge pages, as is said here by hand.
func TestPagesOfMemory(t *testing.T) {
	file := memory(t, 64<<10, 0)
	hasPagesOf(t, file, os.Getpagesize())
	if err := unix.Fallocate(int(file.Fd()), 0, 0, 64<<10); err != nil {
		t.Fatal(err)
	}
	stat := stated(t, file)
	stat.Blksize = huge
	if hasHoles(int(file.Fd()), stat, 64<<10, uint64(os.Getpagesize())) {
		t.Error("all of it is allocated")
	}
	if !isNameless(int(file.Fd()), stat) {
		t.Error("a memfd has no name")
	}
}

func TestPagesOfHugeMemory(t *testing.T) {
	file := memory(t, huge, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	hasPagesOf(t, file, huge)
	if !isNameless(int(file.Fd()), stated(t, file)) {
		t.Error("a memfd has no name")
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, huge); err != nil {
		t.Skip("no huge pages:", err)
	}
	region, err := MapRegion(file, 4096, SealedMemory, new(Account), 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(region.bytes) != huge {
		t.Errorf("%d bytes are mapped", len(region.bytes))
	}
	_ = region.Close()
}

// What isn't allocated of huge pages costs us nothing, also where nobody bounds that: it is the end of the region.
func TestHoleAmongHugePagesIsNotFilled(t *testing.T) {
	if err := NoticesPunchedHoles(); err != nil {
		t.Skip("no userfaultfd:", err)
	}
	file := memory(t, 2*huge, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err := unix.Fallocate(int(file.Fd()), 0, 0, huge); err != nil {
		t.Skip("no huge pages:", err)
	}
	region, err := MapRegion(file, 2*huge, SealedMemory, new(Account), 0)
	if errors.Is(err, unix.ENOMEM) {
		t.Skip("two huge pages can't be mapped:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	before := stated(t, file).Blocks
	write := func(at int) error {
		return NewTable([]*Region{region}).Guard(func() error { region.bytes[at] = 1; return nil })
	}
	if err := write(0); err != nil {
		t.Error("a page that is there:", err)
	}
	if err := write(huge); !errors.Is(err, ErrLost) {
		t.Errorf("%v, expected that the region is lost", err)
	}
	if after := stated(t, file).Blocks; after != before {
		t.Errorf("a page was made: %d blocks, and %d before", after, before)
	}
}

// hugeFile is a file of ordinary pages in a file system that may have huge ones from now on. Nobody else sees it: it is mounted nowhere.
func hugeFile(t *testing.T, size, allocated int64) *os.File {
	t.Helper()
	system, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skip("no file system can be made:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(system)
	if err := unix.FsconfigCreate(system); err != nil {
		t.Fatal(err)
	}
	root, err := unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, "memory", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if err == nil && allocated > 0 {
		err = unix.Fallocate(fd, 0, 0, allocated)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "memory")
	t.Cleanup(func() { _ = file.Close() })
	if err = unix.FsconfigSetString(system, "huge", "always"); err == nil {
		err = unix.FsconfigReconfigure(system)
	}
	if stat := stated(t, file); err != nil || stat.Blksize != huge {
		t.Skip("no huge pages of shared memory:", stat.Blksize, err)
	}
	return file
}

// A region that its owner has allocated has no holes, and one that has some is on the account with its own pages, not with huge ones.
func TestRegionWhereSharedMemoryMayHaveHugePages(t *testing.T) {
	const size = 64 << 10
	for _, c := range []struct {
		allocated  int64
		accounted  uint64
		afterwards uint64
	}{{size, 0, 0}, {4096, size, 4096}} {
		file, account := hugeFile(t, size, c.allocated), new(Account)
		hasPagesOf(t, file, os.Getpagesize())
		region, err := MapRegion(file, size, AnyMemory, account, size)
		if err != nil {
			t.Fatal(err)
		}
		if account.Bytes() != c.accounted || len(region.bytes) != size {
			t.Errorf("%d bytes are on the account and %d mapped, expected %d and %d", account.Bytes(), len(region.bytes), c.accounted, size)
		}
		if err := region.Close(); err != nil {
			t.Error(err)
		}
		if account.Bytes() != c.afterwards {
			t.Errorf("%d bytes stay on the account, expected %d", account.Bytes(), c.afterwards)
		}
	}
}
