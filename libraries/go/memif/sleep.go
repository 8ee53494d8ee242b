package memif

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

// sleeper is a reader that waits for packets. It enters all queues that it waits for; a queue asks for signals as long as one is there.
type sleeper struct {
	woken chan struct{} // one element if it is to look again
	timer *time.Timer
}

var sleepers = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &sleeper{woken: make(chan struct{}, 1), timer: timer}
}}

func (s *sleeper) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// free gives a sleeper back that is in no queue any more.
func (s *sleeper) free() {
	select {
	case <-s.woken:
	default:
	}
	sleepers.Put(s)
}

// waker waits for what the peer signals, by the runtime's poller, so that no thread is held. One sleeper watches for all others of the
// connection: a signal that one reader takes wakes whoever sleeps on that queue. The events are behind an epoll descriptor of our own:
// what a peer does to the description that it shares doesn't matter. It is told of signals as they come, not of events that are readable: a
// semaphore, which nobody can tell from an eventfd before Linux 6.7, stays so for as many looks as the peer likes.
type waker struct {
	file   *os.File
	raw    syscall.RawConn
	queues []*RxQueue
	free   chan struct{} // one element while nobody watches
	ready  []unix.EpollEvent
}

// newEpoll fails in tests.
var newEpoll = unix.EpollCreate1

func newWaker(queues []*RxQueue, events []*shm.Event) (*waker, error) {
	epoll, err := newEpoll(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	for i, event := range events {
		fd := int(event.File().Fd())
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(i)})
		if err != nil {
			break
		}
	}
	if err == nil {
		err = unix.SetNonblock(epoll, true) // what makes the runtime poll it
	}
	if err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	file := os.NewFile(uintptr(epoll), "memif-events")
	raw, err := file.SyscallConn()
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("epoll: %w", err)
	}
	w := &waker{file, raw, queues, make(chan struct{}, 1), make([]unix.EpollEvent, len(queues))}
	w.free <- struct{}{}
	return w, nil
}

// sleep waits until the sleeper is woken or the time has come; if another one watches, also until one of these is over.
func (w *waker) sleep(me *sleeper, until time.Time, cancelled, ended <-chan struct{}) {
	select {
	case <-w.free:
	default:
		me.timer.Reset(time.Until(until))
		defer me.timer.Stop()
		select {
		case <-w.free:
		case <-me.woken:
			return
		case <-me.timer.C:
			return
		case <-cancelled:
			return
		case <-ended:
			return
		}
	}
	_ = w.file.SetReadDeadline(until)
	_ = w.raw.Read(func(fd uintptr) bool {
		w.look(int(fd))
		return len(me.woken) > 0
	})
	w.free <- struct{}{}
}

// look tells the queues that were signalled.
func (w *waker) look(epoll int) {
	n, err := unix.EpollWait(epoll, w.ready, 0)
	for err == unix.EINTR {
		n, err = unix.EpollWait(epoll, w.ready, 0)
	}
	for i := range n {
		w.queues[w.ready[i].Fd].signalled()
	}
}

func (w *waker) close() {
	if w != nil {
		_ = w.file.Close()
	}
}
