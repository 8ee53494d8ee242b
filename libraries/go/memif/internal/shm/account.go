package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrHoles says that a region has pages that nobody has touched yet, and that we would pay for: with those of earlier ones too many.
var ErrHoles = errors.New("region with holes: fallocate it before connecting, raise the limit or re-create the interface")

// watchedMost are the most files of an account that peers may keep and that are watched until they are gone. Those beyond stay on it for
// good.
const watchedMost = 256

// Account is the bytes that regions of one interface's peers may have been charged to us.
//
// A page of shared memory is charged to the control group of whoever touches it first, and stays so until it is freed, whoever has the
// memory by then. A region with holes is therefore a bill that we may have to pay: as long as it is mapped all of its bytes are on the
// account, afterwards those that its file has, until the file is gone: closed and unmapped by everybody. Where that can't be noticed (a
// file that isn't a memfd; no inotify) they stay there.
type Account struct {
	mu      sync.Mutex
	bytes   uint64
	watched int
}

// Bytes are those on the account.
func (a *Account) Bytes() uint64 {
	collect()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
}

// Close is for when nobody asks any more.
func (a *Account) Close() { forget(a) }

// enter adds a region of size bytes with holes, if no more than most are on the account then.
func (a *Account) enter(size, most uint64) error {
	collect()
	a.mu.Lock()
	defer a.mu.Unlock()
	if sum := a.bytes + size; sum < size || sum > most {
		return fmt.Errorf("%w: %d bytes, %d of %d are on its account", ErrHoles, size, a.bytes, most)
	}
	a.bytes += size
	return nil
}

// settle is for when nothing of ours writes to the region any more: what its file has stays, until that is gone.
func (a *Account) settle(size uint64, file *os.File) {
	left := size
	var stat unix.Stat_t
	if unix.Fstat(int(file.Fd()), &stat) == nil {
		left = min(size, allocated(&stat))
	}
	a.mu.Lock()
	a.bytes -= size - left
	watch := left > 0 && a.watched < watchedMost
	if watch {
		a.watched++
	}
	a.mu.Unlock()
	if watch && !leave(file, &stat, claim{a, left}) {
		a.mu.Lock()
		a.watched--
		a.mu.Unlock()
	}
}

// gone is for when a file that was watched is gone, with so many bytes.
func (a *Account) gone(bytes uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= bytes
	a.watched--
}

// allocated are the bytes of a file that have memory, of the 512 that a block has.
func allocated(stat *unix.Stat_t) uint64 { return uint64(max(stat.Blocks, 0)) * 512 }

// hasHoles says whether some of the first size bytes of a file of such pages may have no memory yet.
func hasHoles(fd int, stat *unix.Stat_t, size, page uint64) bool {
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
