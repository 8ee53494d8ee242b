package memif

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// Each list that is set must hold the peer, and both sides are told who isn't welcome.
func TestOnlyThoseWhoMayConnect(t *testing.T) {
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	ends := exec.Command("sleep", "1000")
	if err := ends.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _, _ = ends.Process.Kill(), ends.Wait() }
	defer end()
	namespace := fmt.Sprintf("/proc/%d/ns/pid", ends.Process.Pid)
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
		{"none there any more", ServerConfig{AllowPIDNamespace: namespace}, "not allowed to connect: process namespace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := make(chan Refusal, 1)
			us := Credentials{PID: int32(os.Getpid()), UID: uid, GID: gid}
			// Who isn't welcome isn't told of the secret either.
			if c.words != "" {
				c.config.Secret = "psst"
			}
			l, err := Listen(abstract(), ListenConfig{Refused: func(who Refusal) { refused <- who }}, c.config)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if c.config.AllowPIDNamespace == namespace {
				end()
			}
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
				for _, info := range []Info{server.Info(), conn.Info()} {
					if info.Peer == nil || *info.Peer != us {
						t.Errorf("the peer is %+v", info.Peer)
					}
				}
				return
			}
			var peer *PeerError
			if !errors.As(err, &peer) || !errors.Is(err, NotAllowed) || len(peer.Text) < len(c.words) || peer.Text[:len(c.words)] != c.words {
				t.Error(err)
			}
			if who := <-refused; !errors.Is(who.Reason, NotAllowed) || who.Peer == nil || *who.Peer != us {
				t.Errorf("the server is told: %+v", who)
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

// slowClient is that process, from the other side.
type slowClient struct {
	process *exec.Cmd
	in      io.WriteCloser
	said    *bufio.Reader
}

// startSlowClient has it connect.
func startSlowClient(t *testing.T, address string) *slowClient {
	t.Helper()
	s := &slowClient{process: exec.Command(os.Args[0], "-test.run=^TestHelperSlowClient$")}
	s.process.Env = append(os.Environ(), "MEMIF_SLOW_CLIENT="+address)
	var err error
	if s.in, err = s.process.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.process.StdoutPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.in.Close(), s.process.Wait() })
	s.said = bufio.NewReader(out)
	s.says(t, "connected\n")
	return s
}

func (s *slowClient) says(t *testing.T, expected string) {
	t.Helper()
	if line, err := s.said.ReadString('\n'); line != expected {
		t.Fatal(line, err)
	}
}

// isServed has it go on, until it is gone.
func (s *slowClient) isServed(t *testing.T) {
	t.Helper()
	_, _ = io.WriteString(s.in, "go on\n")
	s.says(t, "served\n")
	_, _ = io.Copy(io.Discard, s.said)
	_ = s.process.Wait()
}

// However often one process connects: another that is slow, and older than all of these, stays.
func TestStormOfOneProcessEndsItsOwnOnly(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{MaxHandshakes: 4}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	slow := startSlowClient(t, l.address)
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
	slow.isServed(t)
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

// So it is where the handshake before hasn't seen its end as yet, however late it does.
func TestComesBackBeforeItsHandshakeIsOver(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(pair[0]), "before")
	socket, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = file.Close()
	_ = unix.Close(pair[1])
	l.mu.Lock()
	one := l.interfaces[0]
	one.taken, one.freed = true, make(chan struct{})
	one.by = &handshake{channel: channel{socket: socket.(*net.UnixConn)}, claimed: true}
	l.mu.Unlock()
	raw := newRaw(t, l.address, true)
	raw.hear([]string{"hello"})
	raw.send(readTable(t).message(t, "init"))
	time.Sleep(2 * handshakeEnd)
	l.release(one)
	raw.hear([]string{"ack"})
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
