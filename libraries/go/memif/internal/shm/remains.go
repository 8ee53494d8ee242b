package shm

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// remains are files of regions that are mapped no more, and that peers may still have. inotify tells when a file is gone for good: when
// nobody has it open, mapped or on its way any more, and its memory is free. Watching keeps the file from none of it. There is one
// instance for the process, asked whenever an account is.
type remains struct {
	inotify int
	mu      sync.Mutex
	claims  map[int32][]claim // by watch: a file that was mapped twice has one watch and two claims
}

// claim is what is on an account for a file.
type claim struct {
	account *Account
	bytes   uint64
}

// theRemains is nil where the process may have no instance. Then nothing is noticed, and accounts stay as they are.
var theRemains = sync.OnceValue(func() *remains {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	return &remains{inotify: fd, claims: map[int32][]claim{}}
})

// leave leaves bytes on an account until the file is gone; false: for good, because that can't be noticed.
func leave(file *os.File, stat *unix.Stat_t, one claim) bool {
	all := theRemains()
	if all == nil || !isNameless(int(file.Fd()), stat) {
		return false
	}
	// Held, so that nobody hears that the file is gone before it is known whose it was.
	all.mu.Lock()
	defer all.mu.Unlock()
	watch, err := unix.InotifyAddWatch(all.inotify, fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.IN_DELETE_SELF)
	if err != nil {
		return false
	}
	all.claims[int32(watch)] = append(all.claims[int32(watch)], one)
	return true
}

// collect takes what is gone off the accounts.
func collect() {
	all := theRemains()
	if all == nil {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	var buffer [4096]byte
	for {
		n, err := unix.Read(all.inotify, buffer[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			// More than a queue of events takes (16384) were gone at once: those that weren't told stay where they are.
			return
		}
		for event := buffer[:n]; len(event) >= unix.SizeofInotifyEvent; {
			watch, mask := int32(binary.NativeEndian.Uint32(event)), binary.NativeEndian.Uint32(event[4:])
			if mask&unix.IN_DELETE_SELF != 0 {
				for _, one := range all.claims[watch] {
					one.account.gone(one.bytes)
				}
				delete(all.claims, watch)
			}
			event = event[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(event[12:])):]
		}
	}
}

// forget forgets what an account claimed.
func forget(account *Account) {
	all := theRemains()
	if all == nil {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for watch, claims := range all.claims {
		claims = slices.DeleteFunc(claims, func(one claim) bool { return one.account == account })
		all.claims[watch] = claims
		if len(claims) == 0 {
			delete(all.claims, watch)
			// Fails where the file is gone, which nobody has heard yet.
			_, _ = unix.InotifyRmWatch(all.inotify, uint32(watch))
		}
	}
}

// isNameless says whether the file can't be given a name: a memfd, whose file system nobody can mount. Of others the kernel says that they
// are gone when their last name is, though they may be open.
func isNameless(file int, stat *unix.Stat_t) bool {
	page, err := pageSize(file)
	if err != nil {
		return false
	}
	flags := unix.MFD_CLOEXEC
	if page > uint64(unix.Getpagesize()) {
		// The size of its pages, as a power of two, is in the upper bits.
		flags |= unix.MFD_HUGETLB | (bits.Len64(page)-1)<<26
	}
	fd, err := unix.MemfdCreate("quiver-probe", flags)
	if err != nil {
		return false
	}
	var ours unix.Stat_t
	err = unix.Fstat(fd, &ours)
	_ = unix.Close(fd)
	return err == nil && ours.Dev == stat.Dev
}
