package shm

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Threads that writers of ended connections may keep, in all of the process: a peer that has one wait gets no other.
const mostHeld = 64

var held atomic.Int32

// writer signals an eventfd by write, where the kernel can't: from a goroutine of its own, which alone waits if the peer has it wait.
type writer struct{ wake chan struct{} }

// newWriter gives nil where too many wait already, or no descriptor is to be had.
func newWriter(event int) *writer {
	if held.Load() >= mostHeld {
		return nil
	}
	// Its own: it may be at it when the event is closed.
	own, err := unix.FcntlInt(uintptr(event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	w := &writer{wake: make(chan struct{}, 1)}
	go w.run(own)
	return w
}

func (w *writer) run(event int) {
	for range w.wake {
		// A full counter means that it has been signalled often enough. The peer may take the flag back between the two calls.
		if err := unix.SetNonblock(event, true); err == nil {
			_, _ = unix.Write(event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		}
	}
	_ = unix.Close(event)
	held.Add(-1)
}

// signal never waits: one signal that is still to be given stands for all.
func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close lets it go as soon as it has nothing to do.
func (w *writer) close() {
	held.Add(1)
	close(w.wake)
}
