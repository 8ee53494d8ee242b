package shm

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"golang.org/x/sys/unix"
)

// ErrNotEvent says that a peer sent something else than an eventfd.
var ErrNotEvent = errors.New("ring interrupt is not an eventfd")

// Event is an eventfd that both sides hold. Neither signalling nor clearing ever waits, whatever the peer does to it.
type Event struct {
	file    *os.File
	fd      int
	signals *signaller // nil until the first Signal
	request request
	writer  *Writer // who signals where the kernel doesn't; nil: nobody
	due     bool    // what follows is under the writer's lock: the writer has yet to signal
	closed  bool    // by whoever closes it while the writer is at it, which then closes the file
}

// NewEvent makes one that is not signalled.
func NewEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err := readsWithoutWaiting(fd); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	ofProcess() // as early as that can be: others can use contexts up
	return &Event{file: os.NewFile(uintptr(fd), "eventfd"), fd: fd}, nil
}

// PeerEvent takes one over that came from a peer; on an error it is still the caller's. A semaphore is none: signalled once with a large number it
// stays readable for as many looks. Before Linux 6.7, which tells, it is taken all the same, so whoever waits must not go by that.
func PeerEvent(file *os.File) (*Event, error) {
	fd := int(file.Fd())
	// The kernel tells what a descriptor is by its link's name only.
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || name != "anon_inode:[eventfd]" {
		return nil, errors.Join(ErrNotEvent, err)
	}
	facts, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err == nil && regexp.MustCompile(`(?m)^eventfd-semaphore:\s*1$`).Match(facts) {
		return nil, fmt.Errorf("%w: it is a semaphore", ErrNotEvent)
	}
	if err := readsWithoutWaiting(fd); err != nil {
		return nil, err
	}
	ofProcess()
	return &Event{file: file, fd: fd}, nil
}

// readsWithoutWaiting is an error where a read can't be told not to wait: before Linux 5.8. A byte has no room for the counter, so
// that nothing is taken.
func readsWithoutWaiting(fd int) error {
	var short [1]byte
	_, err := unix.Preadv2(fd, [][]byte{short[:]}, -1, unix.RWF_NOWAIT)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.New("eventfd: Linux 5.8 or later is needed")
	}
	return nil
}

// File is the descriptor, readable while signalled.
func (e *Event) File() *os.File { return e.file }

// Clear takes the signal back; says whether there was one. Of a semaphore it takes one of as many.
func (e *Event) Clear() bool {
	var counter [8]byte
	// Not to wait is said with the call: O_NONBLOCK belongs to the peer as well. An offset of -1 is none.
	n, err := unix.Preadv2(e.fd, [][]byte{counter[:]}, -1, unix.RWF_NOWAIT)
	return err == nil && n == len(counter)
}

// SignalBy has this writer signal where the kernel can't. Before the first Signal.
func (e *Event) SignalBy(writer *Writer) { e.writer = writer }

// Signal wakes whoever waits. Not by several goroutines at once.
func (e *Event) Signal() {
	if e.signals == nil {
		e.signals = ofProcess()
	}
	if e.signals.signal(e.fd, &e.request) {
		return
	}
	// Without asynchronous I/O (a sandbox, or fs.aio-max-nr used up) somebody has to write, and may be made to wait by the peer.
	if e.writer != nil {
		e.writer.signal(e)
	}
}

// Close closes it. Nobody may use it any more.
func (e *Event) Close() error {
	if e.writer != nil && e.writer.leave(e) {
		return nil
	}
	return e.file.Close()
}
