package memif

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// lingering is a TCP socket whose last close takes a day, or until end is closed.
func lingering(t *testing.T) (fd int, end net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if end, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = conn.Write(make([]byte, 1<<16))
	}
	raw, _ := conn.(*net.TCPConn).SyscallConn()
	_ = raw.Control(func(own uintptr) {
		_ = unix.SetsockoptLinger(int(own), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 86400})
		fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // not the last
	return fd, end
}

// unclosable is a socket in whose queue such a one waits, so that nobody tells it not to linger.
func unclosable(t *testing.T) (fd int, end net.Conn) {
	t.Helper()
	inner, end := lingering(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(inner), nil, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, _ = unix.Close(inner), unix.Close(pair[1]) // neither is the last
	return pair[0], end
}

// hand sends a message with a descriptor that can't be closed, whose last holder is who receives it: nobody takes it meanwhile.
func hand(t *testing.T, all *closers, socket *net.UnixConn, message []byte, files int) (end net.Conn) {
	t.Helper()
	bad, end := unclosable(t)
	all.mu.Lock()
	defer all.mu.Unlock()
	fds := append([]int{bad}, make([]int, files-1)...) // the rest is our input
	if _, _, err := socket.WriteMsgUnix(message, unix.UnixRights(fds...), nil); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(bad)
	return end
}

// greeted is a connection, and what the server says first.
func greeted(t *testing.T, address string) (channel, *message) {
	t.Helper()
	ctl, err := dialChannel(within(t), address, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = ctl.socket.SetDeadline(time.Now().Add(patience))
	first, _, err := ctl.receive(false)
	if err != nil {
		t.Fatal(err)
	}
	return ctl, first
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

// Descriptors whose close hangs count from the moment on that they are there, each of them: their sender is turned away, at once, and is
// let in again once they are closed. Who is connected, and who else comes, notices nothing.
func TestFilesThatCannotBeClosed(t *testing.T) {
	for _, c := range []struct {
		name  string
		files int // of each connection
		most  int // connections before one is refused
	}{{"one message", 100, 1}, {"sockets that nobody reads", 0, mostShare}} {
		t.Run(c.name, func(t *testing.T) {
			var refused atomic.Int32
			config := ListenConfig{Refused: func(who Refusal) {
				if errors.Is(who.Reason, HangingDescriptors) {
					refused.Add(1)
				}
			}}
			l, err := Listen(abstract(), config, ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			defer bystander(t, l)()
			table := readTable(t)
			var ends []net.Conn
			sent := 0
			for refused.Load() == 0 {
				if sent > c.most {
					t.Fatal("let in for ever")
				}
				ctl, m := greeted(t, l.address)
				var err error
				if m.kind == msgHello && c.files > 0 {
					_, _, err = ctl.socket.WriteMsgUnix(table.message(t, "init"), nil, nil)
					_, _, acked := ctl.receive(false)
					if err = errors.Join(err, acked); err == nil {
						ends = append(ends, hand(t, &l.closers, ctl.socket, table.message(t, "region"), c.files))
					}
				} else if m.kind == msgHello && sent == 0 {
					ends = append(ends, hand(t, &l.closers, ctl.socket, table.message(t, "init"), 1))
				} else if m.kind == msgHello {
					_, _, err = ctl.socket.WriteMsgUnix(table.message(t, "init"), unix.UnixRights(0), nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				if m.kind == msgHello {
					sent++
					m, _, err = ctl.receive(false)
					if err != nil || !strings.HasPrefix(m.reason, string(FileDescriptors)) {
						t.Fatal(m, err)
					}
					eventually(t, "it counts", func() bool { held, _ := l.closers.state(); return held >= sent })
				} else {
					eventually(t, "told", func() bool { return refused.Load() > 0 })
					if m.reason != string(HangingDescriptors) {
						t.Error(m.reason)
					}
				}
				_ = ctl.socket.Close()
			}
			if sent != c.most {
				t.Error("refused after", sent)
			}
			if _, running := l.closers.state(); running != 1 {
				t.Error(running, "goroutines")
			}
			anotherIsServed(t, l.address)
			_ = ends[0].Close()
			eventually(t, "all are closed", func() bool { held, running := l.closers.state(); return held == 0 && running == 0 })
			conn, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages})
			if err != nil {
				t.Fatal("accepted no more:", err)
			}
			_ = conn.Close()
		})
	}
}

// anotherIsServed has another process shake hands.
func anotherIsServed(t *testing.T, address string) {
	t.Helper()
	startSlowClient(t, address).isServed(t)
}

// Connections that are refused bring files as well. Where the kernel can keep them out none is left, from the moment on that somebody is to be
// refused.
func TestRefusedConnectionsLeaveNothing(t *testing.T) {
	if probe, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0); err != nil {
		t.Fatal(err)
	} else {
		_, err = unix.GetsockoptInt(probe, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
		_ = unix.Close(probe)
		if err != nil {
			t.Skip("Linux before 6.16:", err)
		}
	}
	var refused atomic.Int32
	l, err := Listen(abstract(), ListenConfig{Refused: func(Refusal) { refused.Add(1) }}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	hang := make(chan struct{})
	closing{&l.closers, origin{process: int32(os.Getpid())}}.close(mostShare, func() { <-hang })
	init := readTable(t).message(t, "init")
	for range 300 {
		ctl, err := dialChannel(within(t), l.address, "")
		if err != nil {
			t.Fatal(err)
		}
		_, _, _ = ctl.socket.WriteMsgUnix(init, unix.UnixRights(0), nil) // EPERM
		_ = ctl.socket.SetDeadline(time.Now().Add(patience))
		_, _ = ctl.socket.Read(make([]byte, messageSize))
		_ = ctl.socket.Close()
	}
	eventually(t, "all are refused", func() bool { return refused.Load() == 300 })
	if held, _ := l.closers.state(); held > mostShare {
		t.Error(held, "are left")
	}
	close(hang)
	eventually(t, "all are closed", func() bool { held, _ := l.closers.state(); return held == 0 })
}

// A server that sends what hangs, whenever we come.
func TestServerWhoseFilesCannotBeClosed(t *testing.T) {
	address := abstract()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done, ends := make(chan struct{}), make(chan net.Conn, 1)
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			socket := conn.(*net.UnixConn)
			if len(ends) == 0 {
				ends <- hand(t, &servers, socket, make([]byte, messageSize), 1)
			} else {
				_, _, _ = socket.WriteMsgUnix(make([]byte, messageSize), unix.UnixRights(0), nil)
			}
			_, _ = conn.Read(make([]byte, 1)) // until it has gone
			_ = conn.Close()
		}
	}()
	attempts := 0
	for ; ; attempts++ {
		_, err := Dial(within(t), address, ClientConfig{HugePages: NoHugePages})
		if errors.Is(err, HangingFiles) && errors.Is(err, Unreachable) {
			break
		}
		if attempts > mostShare {
			t.Fatal("tried for ever:", err)
		}
	}
	if attempts != mostShare {
		t.Error("given up after", attempts)
	}
	_ = l.Close()
	<-done
	_ = (<-ends).Close()
	here := closing{&servers, serverAt(address, "")}
	eventually(t, "all are closed", func() bool { return !here.beyondShare() })
}
