package memif

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWhyALinkIsNotUp: whoever asks is told, at any time and on both sides, and each refusal is an event.
func TestWhyALinkIsNotUp(t *testing.T) {
	address := abstract()
	told, tell := events()
	client, err := OpenClient(address, ClientConfig{Secret: "quivet", HugePages: NoHugePages}, tell)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	named := func(of *Port, causes ...error) {
		t.Helper()
		own := new(Error)
		eventually(t, "it says why", func() bool {
			err := of.Err()
			for _, cause := range causes {
				if !errors.Is(err, cause) {
					return false
				}
			}
			return errors.As(err, &own) && own.Interface == address+" id 0"
		})
	}
	named(client, Unreachable)
	server, err := OpenServer(address, ListenConfig{}, ServerConfig{Secret: "quiver"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for range 3 {
		if event := expect(t, told, LinkRefused); !errors.Is(event.Reason, WrongSecret) {
			t.Error(event)
		}
	}
	// Long after the first one, too, and between the attempts.
	named(client, WrongSecret)
	named(server, WrongSecret)
	for _, port := range []*Port{client, server} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		_, used := port.Conn(ctx)
		_, read := port.ReadBatch(ctx, NewBatch(1))
		cancel()
		for _, err := range []error{used, read} {
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, WrongSecret) {
				t.Error(err)
			}
		}
	}
	_ = client.Close()
	if !errors.Is(client.Err(), Closed) {
		t.Error(client.Err())
	}

	// Who comes with the right one: nothing is wrong any more, until one of the ends says so.
	client, err = OpenClient(address, ClientConfig{Secret: "quiver", HugePages: NoHugePages}, tell)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := client.Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Conn(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.Err(), server.Err()); err != nil {
		t.Error(err)
	}
	// Another that is refused meanwhile says nothing of a link that is up.
	if _, err := Dial(within(t), address, ClientConfig{Secret: "quiver", HugePages: NoHugePages}); !errors.Is(err, AlreadyConnected) {
		t.Error(err)
	}
	if err := server.Err(); err != nil {
		t.Error(err)
	}
	server.AdminDown("for lunch")
	named(server, AdminDown)
	<-conn.Done()
	eventually(t, "the client says so", func() bool {
		peer := new(PeerError)
		return errors.As(client.Err(), &peer) && peer.Text == "administratively down: for lunch"
	})
	// That a connection was closed isn't that the port is.
	server.AdminUp()
	if conn, err = client.Conn(within(t)); err != nil {
		t.Fatal(err)
	}
	server.Close()
	<-conn.Done()
	named(server, Closed)
	named(client, Unreachable)
}

// TestNothingHasHappenedYet: a server whose client has never come says so, and that its own connection was closed ends no waiting as if the
// port were.
func TestNothingHasHappenedYet(t *testing.T) {
	address := abstract()
	server, err := OpenServer(address, ListenConfig{}, ServerConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := server.Err(); !errors.Is(err, NotConnected) {
		t.Error(err)
	}
	client, err := Dial(within(t), address, ClientConfig{HugePages: NoHugePages})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := server.Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	<-client.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := server.ReadBatch(ctx, NewBatch(1)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, Closed) {
		t.Error(err)
	}
	if err := new(Port).Err(); !errors.Is(err, BadSetting) {
		t.Error(err)
	}
}

// TestWhoMayNotConnect: a socket's file that this process may not write to, or not find, is another matter than that nobody listens.
func TestWhoMayNotConnect(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: others may connect to what is their own")
	}
	directory, err := os.MkdirTemp("", "") // not of the test's: its parents are closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "memif.sock")
	l, err := Listen(path, ListenConfig{FileMode: 0o600}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, mode := range []os.FileMode{0o755, 0o700} {
		if err := os.Chmod(directory, mode); err != nil {
			t.Fatal(err)
		}
		dialed := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread, which is nobody's, ends with this goroutine
			if _, err := unix.SetfsuidRetUid(65534); err != nil {
				dialed <- err
				return
			}
			_, err := Dial(context.Background(), path, ClientConfig{HugePages: NoHugePages})
			dialed <- err
		}()
		err := <-dialed
		words := "permission denied: the mode, owner and group of " + path + " must let us write to it, its directories let us pass"
		if !errors.Is(err, Denied) || errors.Is(err, Unreachable) || !strings.HasSuffix(err.Error(), words) {
			t.Errorf("%o: %v", mode, err)
		}
		if said := (LinkEvent{failure(err), err}).String(); !strings.HasPrefix(said, "can't connect: ") {
			t.Error(said)
		}
	}
}
