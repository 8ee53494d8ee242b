package shm

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signaller signals eventfds without write, which would let a peer stop us: the file description, and O_NONBLOCK with it, is
// shared, so that it can clear the flag, fill the counter and have the writer sleep for ever. The kernel itself signals without
// waiting when an asynchronous read is done; so nothing is read from an empty file.
//
// There is one for the process: how many contexts there may be is one figure for the host (fs.aio-max-nr), and each has a descriptor and
// pages of memory. Neither is to grow with what peers announce.
type signaller struct {
	context    uintptr // 0: none
	empty      int
	collecting sync.Mutex
	done       [completions]ioEvent
}

const completions = 64 // that the context holds before they are collected

// attempts to submit: other threads can take the room that one has made.
const attempts = 16

// request is what one submits, in the heap with its event.
type request struct {
	iocb iocb
	list [1]*iocb
}

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

// shared is the process's signaller, once there is one, which stays.
var shared struct {
	mu sync.Mutex
	it *signaller
}

// ofProcess is the signaller of all; where there can be none (yet), one that can't signal. Each event asks anew: contexts are given back.
func ofProcess() *signaller {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.it == nil {
		one := newSignaller()
		if one.context == 0 {
			return one
		}
		shared.it = one
	}
	return shared.it
}

// newSignaller gives one that can't signal where there is no asynchronous I/O.
func newSignaller() *signaller {
	empty, err := unix.MemfdCreate("memif-signal", unix.MFD_CLOEXEC)
	if err != nil {
		return &signaller{}
	}
	s := &signaller{empty: empty}
	// io_setup writes the new context's number into context, which is zero as it must be.
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, completions, uintptr(unsafe.Pointer(&s.context)), 0); errno != 0 {
		_ = unix.Close(empty)
		return &signaller{}
	}
	return s
}

func (s *signaller) signal(event int, r *request) bool {
	if s.context == 0 {
		return false
	}
	const pread, resultToEvent = 0, 1
	r.iocb = iocb{opcode: pread, file: uint32(s.empty), flags: resultToEvent, event: uint32(event)}
	r.list[0] = &r.iocb
	for range attempts {
		// The list and the request are in the heap with the event. The kernel has copied them when the call returns (a read from a
		// memfd completes within it) and keeps no reference to them.
		n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, s.context, 1, uintptr(unsafe.Pointer(&r.list)))
		if errno != unix.EAGAIN {
			return n == 1 && errno == 0
		}
		s.collect()
	}
	return false
}

// collect throws completions away. At most as many as done holds are written; with a minimum of 0 it doesn't wait.
func (s *signaller) collect() {
	s.collecting.Lock()
	defer s.collecting.Unlock()
	_, _, _ = unix.Syscall6(unix.SYS_IO_GETEVENTS, s.context, 0, completions, uintptr(unsafe.Pointer(&s.done)), 0, 0)
}
