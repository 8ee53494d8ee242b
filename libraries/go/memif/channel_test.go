package memif

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A socket with unread data whose owner says that it is to linger for a day: closing it would take as long.
func TestSocketOfAPeerDoesNotLinger(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	neverRead, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer neverRead.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	for err == nil {
		_, err = conn.Write(make([]byte, 1<<16))
	}
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	// A duplicate, blocking as those of peers are, and the only one.
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	linger := &unix.Linger{Onoff: 1, Linger: 86400}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, linger); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The last of the three.
		_ = file.Close()
		_ = conn.Close()
		closeFiles([]*os.File{os.NewFile(uintptr(fd), "socket")})
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("closing it lingers")
	}
}
