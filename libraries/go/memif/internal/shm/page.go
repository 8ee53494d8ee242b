package shm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pageSize is the size of the pages that a file of shared memory is made of: the unit in which it is mapped, allocated and charged. fstat
// doesn't tell: its st_blksize is 2 MiB for every memfd where shared memory may have transparent huge pages (shmem_enabled "always"), although
// the file is made, and paid for, by ordinary ones.
func pageSize(fd int) (uint64, error) {
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return 0, fmt.Errorf("fstatfs: %w", err)
	}
	if uint32(system.Type) == unix.HUGETLBFS_MAGIC {
		return uint64(system.Bsize), nil
	}
	return uint64(os.Getpagesize()), nil
}
