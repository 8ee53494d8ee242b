package shm

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrHoles says that a region has pages that nobody has touched yet, and that we would pay for: with those of earlier ones too many.
var ErrHoles = errors.New("region with holes: fallocate it before connecting, raise the limit or re-create the interface")

// Account is the bytes that regions of one interface's peers may have been charged to us.
//
// A page of shared memory is charged to the control group of whoever touches it first, and stays so until it is freed, whoever has the
// memory by then. A region with holes is therefore a bill that we may have to pay: as long as it is mapped all of its bytes are on the
// account, afterwards those that its file has. They stay there: nobody tells whether the peer has given the memory back.
type Account struct {
	mu    sync.Mutex
	bytes uint64
}

// Bytes are those on the account.
func (a *Account) Bytes() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
}

// enter adds a region of size bytes with holes, if no more than most are on the account then.
func (a *Account) enter(size, most uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sum := a.bytes + size; sum < size || sum > most {
		return fmt.Errorf("%w: %d bytes, %d of %d are on its account", ErrHoles, size, a.bytes, most)
	}
	a.bytes += size
	return nil
}

// settle is for when nothing writes to the region any more, whose file has so many bytes.
func (a *Account) settle(size, allocated uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= size - min(size, allocated)
}

// allocated are the bytes of a file that have memory, of the 512 that a block has.
func allocated(stat *unix.Stat_t) uint64 { return uint64(max(stat.Blocks, 0)) * 512 }

// hasHoles says whether some of the first size bytes of a file may have no memory yet.
func hasHoles(fd int, stat *unix.Stat_t, size uint64) bool {
	page := uint64(stat.Blksize)
	if allocated(stat) >= roundUp(uint64(max(stat.Size, 0)), page) {
		return false
	}
	// What comes after them may have none. Huge pages don't say where: there a hole is anywhere.
	if page > uint64(unix.Getpagesize()) {
		return true
	}
	hole, err := unix.Seek(fd, 0, unix.SEEK_HOLE)
	return err != nil || uint64(hole) < size
}
