package memif

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

// waiter sleeps until one of several events is signalled, by the runtime's poller, so that no thread is held. The events are behind
// an epoll descriptor of our own: what a peer does to the description that it shares doesn't matter.
type waiter struct {
	file *os.File
	raw  syscall.RawConn
}

func newWaiter(events ...*shm.Event) (*waiter, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	for _, event := range events {
		fd := int(event.File().Fd())
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
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
	return &waiter{file: file, raw: raw}, nil
}

// wait sleeps until signalled says so, until the time has come, or until the waiter is closed.
func (w *waiter) wait(until time.Time, signalled func() bool) {
	_ = w.file.SetReadDeadline(until)
	_ = w.raw.Read(func(uintptr) bool { return signalled() })
}

func (w *waiter) close() error {
	if w == nil {
		return nil
	}
	return w.file.Close()
}
