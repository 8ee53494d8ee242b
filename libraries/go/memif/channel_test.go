package memif

import (
	"errors"
	"net"
	"os"
	"path/filepath"
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
		closeForeign(fd)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("closing it lingers")
	}
}

// Who may write to the directory can put another file where the socket was made: its mode and owner stay as they are.
func TestOnlyASocketOfOursIsSettled(t *testing.T) {
	directory := t.TempDir()
	at := func(name string) string { return filepath.Join(directory, name) }
	private, link, socket := at("private"), at("link"), at("socket")
	if err := os.WriteFile(private, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(private, link); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(socket, ListenConfig{FileMode: 0o640}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mode := func(path string, wanted os.FileMode) {
		t.Helper()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != wanted {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	mode(socket, 0o640)
	open := ListenConfig{FileMode: 0o666}
	for _, path := range []string{private, link} {
		if err := settle(path, open); !errors.Is(err, Replaced) {
			t.Errorf("%s: %v", path, err)
		}
	}
	mode(private, 0o600)
	if err := settle(socket, open); err != nil {
		t.Error(err)
	}
	mode(socket, 0o666)
	// Another process's socket, under a second name.
	if err := os.Link(socket, at("second")); err != nil {
		t.Fatal(err)
	}
	if err := settle(at("second"), ListenConfig{FileMode: 0o600}); !errors.Is(err, Replaced) {
		t.Error(err)
	}
	mode(socket, 0o666)
}
