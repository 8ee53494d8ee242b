package memif

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Each list that is not empty must hold the peer, and both sides are told who isn't welcome.
func TestOnlyThoseWhoMayConnect(t *testing.T) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	for _, c := range []struct {
		name   string
		config ServerConfig
		words  string // "": welcome
	}{
		{"all", ServerConfig{}, ""},
		{"users", ServerConfig{AllowUIDs: []uint32{uid + 1, uid}}, ""},
		{"other users", ServerConfig{AllowUIDs: []uint32{uid + 1}}, "not allowed to connect: user "},
		{"groups", ServerConfig{AllowGIDs: []uint32{gid}}, ""},
		{"other groups", ServerConfig{AllowUIDs: []uint32{uid}, AllowGIDs: []uint32{gid + 1}}, "not allowed to connect: group "},
		{"namespace", ServerConfig{AllowPIDNamespace: "/proc/self/ns/pid"}, ""},
		{"another kind of namespace", ServerConfig{AllowPIDNamespace: "/proc/self/ns/net"}, "not allowed to connect: process namespace"},
		{"none there", ServerConfig{AllowPIDNamespace: "/proc/0/ns/pid"}, "not allowed to connect: process namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := make(chan error, 1)
			// Who isn't welcome isn't told of the secret either.
			if c.words != "" {
				c.config.Secret = "psst"
			}
			l, err := Listen(abstract(), ListenConfig{Refused: func(_ *uint32, reason error) { refused <- reason }}, c.config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conn, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages})
			if c.words == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				server, err := l.Accept(within(t))
				if err != nil {
					t.Fatal(err)
				}
				want := Credentials{PID: int32(os.Getpid()), UID: uid, GID: gid}
				for _, info := range []Info{server.Info(), conn.Info()} {
					if info.Peer == nil || *info.Peer != want {
						t.Errorf("the peer is %+v", info.Peer)
					}
				}
				return
			}
			var peer *PeerError
			if !errors.As(err, &peer) || len(peer.Text) < len(c.words) || peer.Text[:len(c.words)] != c.words {
				t.Error(err)
			}
			if reason := <-refused; !errors.Is(reason, NotAllowed) {
				t.Error(reason)
			}
		})
	}
}

// TestHelperSlowClient is another process for the tests below: it connects, and says INIT only when it is told to.
func TestHelperSlowClient(t *testing.T) {
	address := os.Getenv("MEMIF_SLOW_CLIENT")
	if address == "" {
		t.Skip("for others")
	}
	raw := newRaw(t, address, true)
	raw.hear([]string{"hello"})
	_, _ = os.Stdout.WriteString("connected\n")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	raw.send(readTable(t).message(t, "init"))
	raw.hear([]string{"ack"})
	_, _ = os.Stdout.WriteString("served\n")
}

// However often one process connects: another that is slow, and older than all of these, stays.
func TestStormOfOneProcessEndsItsOwnOnly(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{MaxHandshakes: 4}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	slow := exec.Command(os.Args[0], "-test.run=^TestHelperSlowClient$")
	slow.Env = append(os.Environ(), "MEMIF_SLOW_CLIENT="+l.address)
	in, err := slow.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := slow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = slow.Wait() }()
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); line != "connected\n" {
		t.Fatal(line, err)
	}
	for range 50 {
		ctl, err := dialChannel(within(t), l.address, "")
		if err != nil {
			t.Fatal(err)
		}
		defer ctl.socket.Close()
		if _, _, err := ctl.receive(false); err != nil { // HELLO: it was admitted
			t.Fatal(err)
		}
	}
	_, _ = io.WriteString(in, "go on\n")
	if line, err := said.ReadString('\n'); line != "served\n" {
		t.Fatal(line, err)
	}
}

// A client that ended and comes back at once is no second one.
func TestComesBackAtOnce(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 300 {
		conn, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages, RingSize: 64, BufferSize: 64})
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
}

// Who sleeps while another reader watches is bound by the own deadline, not by that one's.
func TestDeadlineWhileAnotherReads(t *testing.T) {
	server, _ := pair(t, ServerConfig{}, ClientConfig{})
	<-server.waker.free // somebody reads, and never stops
	defer func() { server.waker.free <- struct{}{} }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := server.ReadBatchContext(ctx, NewBatch(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	_ = server.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := server.ReadBatch(NewBatch(1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

func TestAddressesThatNoSocketCanHave(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, address := range []string{"", "@", "@" + long, "/tmp/" + long, "/tmp/a\x00b"} {
		_, dial := Dial(within(t), address, ClientConfig{})
		_, open := OpenClient(address, ClientConfig{}, nil)
		_, listen := Listen(address, ListenConfig{})
		for _, err := range []error{dial, open, listen} {
			if !errors.Is(err, BadSetting) {
				t.Errorf("%q: %v", address, err)
			}
		}
	}
}

// TestEnded: a process that has ended, and isn't waited for any more, is told from one that is there: its number may be another's.
func TestEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	accept := func() channel {
		socket, err := listener.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = socket.Close() })
		return channel{socket, closing{&servers, origin{}}}
	}
	ours, err := net.DialUnix(network, nil, &net.UnixAddr{Name: path, Net: network})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	here := accept()
	program := "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])"
	if output, err := exec.Command("python3", "-c", program, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	gone := accept()
	var told error
	_ = here.control(func(fd int) {
		process, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if told = err; err == nil {
			unix.Close(process)
		}
	})
	if told == nil && (hasEnded(here) || !hasEnded(gone)) {
		t.Error(hasEnded(here), hasEnded(gone))
	}
}
