package shm

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNotEvent says that a peer sent something else than an eventfd.
var ErrNotEvent = errors.New("ring interrupt is not an eventfd")

// Event is an eventfd that both sides hold. Neither signalling nor clearing ever waits, whatever the peer does to it.
type Event struct {
	file    *os.File
	fd      int
	signals *signaller // nil until the first Signal
	writer  *writer    // nil until the kernel has failed to signal
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
	return &Event{file: os.NewFile(uintptr(fd), "eventfd"), fd: fd}, nil
}

// PeerEvent takes one over that came from a peer; on an error it is still the caller's. A semaphore is none: signalled once with a large number it
// stays readable for as many looks, and whoever waits for it is kept awake.
func PeerEvent(file *os.File) (*Event, error) {
	fd := int(file.Fd())
	// The kernel tells what a descriptor is by its link's name only.
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || name != "anon_inode:[eventfd]" {
		return nil, errors.Join(ErrNotEvent, err)
	}
	// Told from Linux 6.7 on.
	facts, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err == nil && regexp.MustCompile(`(?m)^eventfd-semaphore:\s*1$`).Match(facts) {
		return nil, fmt.Errorf("%w: it is a semaphore", ErrNotEvent)
	}
	if err := readsWithoutWaiting(fd); err != nil {
		return nil, err
	}
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

// Clear takes the signal back; says whether there was one.
func (e *Event) Clear() bool {
	var counter [8]byte
	// Not to wait is said with the call: O_NONBLOCK belongs to the peer as well. An offset of -1 is none.
	n, err := unix.Preadv2(e.fd, [][]byte{counter[:]}, -1, unix.RWF_NOWAIT)
	return err == nil && n == len(counter)
}

// Signal wakes whoever waits.
func (e *Event) Signal() {
	if e.signals == nil {
		e.signals = newSignaller()
	}
	if e.signals.signal(e.fd) {
		return
	}
	// Without asynchronous I/O (a sandbox, or fs.aio-max-nr used up) somebody has to write, and may be made to wait by the peer.
	if e.writer == nil {
		e.writer = newWriter(e.fd)
	}
	if e.writer != nil {
		e.writer.signal()
	}
}

// Close closes it. Nobody may use it any more.
func (e *Event) Close() error {
	if e.writer != nil {
		e.writer.close()
	}
	return errors.Join(e.signals.close(), e.file.Close())
}

// signaller signals eventfds without write, which would let a peer stop us: the file description, and O_NONBLOCK with it, is
// shared, so that it can clear the flag, fill the counter and have the writer sleep for ever. The kernel itself signals without
// waiting when an asynchronous read is done; so nothing is read from an empty file.
type signaller struct {
	context uintptr
	empty   int
	request iocb
	list    [1]*iocb
	done    [completions]ioEvent
}

const completions = 64 // that the context holds before they are collected

// iocb is struct iocb of linux/aio_abi.h, little-endian.
type iocb struct {
	_      [2]uint64 // data, key, rw_flags
	opcode uint16
	_      int16 // priority
	file   uint32
	_      [4]uint64 // buffer, bytes, offset, reserved
	flags  uint32
	event  uint32
}

// ioEvent is struct io_event of linux/aio_abi.h: nothing in it is of interest.
type ioEvent struct{ _ [4]uint64 }

// newSignaller gives one that can't signal where there is no asynchronous I/O.
func newSignaller() *signaller {
	s := &signaller{empty: -1}
	empty, err := unix.MemfdCreate("memif-signal", unix.MFD_CLOEXEC)
	if err != nil {
		return s
	}
	s.empty = empty
	// io_setup writes the new context's number into context, which is zero as it must be.
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, completions, uintptr(unsafe.Pointer(&s.context)), 0); errno != 0 {
		s.context = 0
	}
	return s
}

func (s *signaller) signal(event int) bool {
	if s.context == 0 {
		return false
	}
	const pread, resultToEvent = 0, 1
	s.request = iocb{opcode: pread, file: uint32(s.empty), flags: resultToEvent, event: uint32(event)}
	s.list[0] = &s.request
	for range 2 {
		// The list and the request are in the heap with s. The kernel has copied them when the call returns (a read from a
		// memfd completes within it) and keeps no reference to them.
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, s.context, 1, uintptr(unsafe.Pointer(&s.list)))
		if errno != unix.EAGAIN {
			return n == 1 && errno == 0
		}
		// Full: throw completions away. At most as many as done holds are written; with a minimum of 0 it doesn't wait.
		_, _, _ = unix.Syscall6(unix.SYS_IO_GETEVENTS, s.context, 0, completions, uintptr(unsafe.Pointer(&s.done)), 0, 0)
	}
	return false
}

func (s *signaller) close() error {
	if s == nil || s.empty < 0 {
		return nil
	}
	if s.context != 0 {
		_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, s.context, 0, 0)
	}
	return unix.Close(s.empty)
}
