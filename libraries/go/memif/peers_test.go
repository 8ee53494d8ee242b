package memif

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// peer finds a program to test against. Without it the test is left out; with QUIVER_REQUIRE_PEERS=1 it fails.
func peer(t *testing.T, name, remedy string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("QUIVER_REQUIRE_PEERS") == "1" {
		t.Fatalf("%s is missing: %s", name, remedy)
	}
	t.Skipf("%s is missing: %s", name, remedy)
	return ""
}

// released is a program of Quiver's release build.
func released(t *testing.T, name, remedy string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(or(os.Getenv("CARGO_TARGET_DIR"), "../../../target"), "release", name))
	if err != nil {
		t.Fatal(err)
	}
	return peer(t, path, remedy)
}

type process struct {
	*exec.Cmd
	output output
	stdin  io.WriteCloser
}

func start(t *testing.T, path string, arguments ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(path, arguments...)}
	p.Stdout, p.Stderr = &p.output, &p.output
	var err error
	if p.stdin, err = p.StdinPipe(); err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s: %v\n%s", path, p.ProcessState, p.output.String())
		}
	})
	return p
}

// output is what a process has said so far.
type output struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.said.String()
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// testpmd starts DPDK's application with one memif port, which gives back what it gets.
func testpmd(t *testing.T, device string, arguments ...string) *process {
	t.Helper()
	path := peer(t, "dpdk-testpmd", "install dpdk-dev (Debian)")
	t.Setenv("RUNTIME_DIRECTORY", t.TempDir())
	all := []string{
		"-l", "0-1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", fmt.Sprintf("--file-prefix=go-memif-%d", os.Getpid()),
		"--vdev=net_memif0," + device, "--", "--no-mlockall", "--total-num-mbufs=8192",
		"--disable-link-check", "--no-flush-rx", "--forward-mode=io",
	}
	// By lines: it says when it is ready, and would keep that in its buffer.
	return start(t, "stdbuf", append([]string{"-oL", path}, append(all, arguments...)...)...)
}

func (p *process) finish(t *testing.T) {
	t.Helper()
	_, _ = io.WriteString(p.stdin, "quit\n")
	if err := p.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.output.String())
	}
}

// reflected sends packets, gets each back and compares every byte.
func reflected(t *testing.T, conn *Conn, rounds int, lengths ...int) {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		var packets [][]byte
		for i, length := range lengths {
			packets = append(packets, packetOf(round*10+i, length))
		}
		q := conn.TxQueues()[round%len(conn.TxQueues())]
		if _, err := q.WriteBatch(packets); err != nil {
			t.Fatal(err)
		}
		got := readN(t, conn.ReadBatch, len(packets))
		for i := range packets {
			if len(got) != len(packets) || !bytes.Equal(got[i], packets[i]) {
				t.Fatalf("round %d: packet %d of %d bytes is another one", round, i, len(packets[i]))
			}
		}
	}
}

// dialUntil tries until the server has come up: one that listens before it knows its interfaces refuses at first.
func dialUntil(t *testing.T, address string, config ClientConfig) *Conn {
	t.Helper()
	for started := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		conn, err := Dial(within(t), address, config)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		if time.Since(started) > patience {
			t.Fatal(err)
		}
	}
}

var sizes = []int{60, 61, 64, 128, 594, 1514, 2048}
var jumbo = []int{9000, 60, 4096, 4097, 9014, 61}

func TestServerOfDPDK(t *testing.T) {
	for _, queues := range []string{"1", "4"} {
		t.Run(queues+" queues", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "memif.sock")
			l, err := Listen(path, ListenConfig{}, ServerConfig{Secret: "s3cret"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			device := "role=client,id=0,secret=s3cret,socket-abstract=no,socket=" + path
			for range 2 { // the second after the first was killed
				p := testpmd(t, device, "--auto-start", "--rxq="+queues, "--txq="+queues)
				conn, err := l.Accept(within(t))
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(len(conn.RxQueues())); got != queues || !strings.HasPrefix(conn.Info().PeerApplication, "DPDK") {
					t.Error(got, conn.Info())
				}
				reflected(t, conn, 300, sizes...)
				reflected(t, conn, 100, jumbo...)
				p.kill()
				<-conn.Done()
				if !errors.Is(conn.Err(), PeerClosed) {
					t.Error(conn.Err())
				}
			}
		})
	}
}

func TestClientOfDPDK(t *testing.T) {
	for _, config := range []ClientConfig{{}, {RingSize: 64}, {RxQueues: 4, TxQueues: 4, BufferSize: 1024, RingSize: 4096}} {
		name := strings.TrimPrefix(abstract(), "@")
		config.HugePages = NoHugePages
		queues := fmt.Sprint(or(config.RxQueues, 1))
		p := testpmd(t, "role=server,id=0,socket-abstract=yes,socket="+name, "--interactive", "--rxq="+queues, "--txq="+queues)
		// Who connects while it still sets up its queues has it crash: it maps rings of queues that it doesn't have yet. So does who connects while
		// it polls them: it works out where a ring is, in a region that isn't mapped yet, before it looks whether there is a connection.
		eventually(t, "testpmd is ready", func() bool { return strings.Contains(p.output.String(), "testpmd>") })
		conn := dialUntil(t, "@"+name, config)
		_, _ = io.WriteString(p.stdin, "start\n")
		reflected(t, conn, 300, sizes...)
		reflected(t, conn, 100, jumbo...)
		p.finish(t)
		<-conn.Done()
	}
}

const buildHint = "cargo build --release -p quiver-tgen -p memif --bins --examples"

// Quiver's generator as client: what it sends comes back from a port that sleeps when idle, every byte looked at.
func TestServerOfQuiver(t *testing.T) {
	tgen := released(t, "quiver-tgen", buildHint)
	address := abstract()
	port, err := OpenServer(address, ListenConfig{}, ServerConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	go func() {
		batch := NewBatch(256)
		for {
			conn, err := port.Conn(t.Context())
			if err != nil {
				return
			}
			for err == nil {
				if _, err = conn.ReadBatch(batch); err == nil {
					_, err = conn.WriteBatch(batch.Packets())
				}
			}
		}
	}()
	for _, size := range []string{"64", "1518", "9000"} { // each is a client that comes anew
		run := exec.Command(tgen, "--tx", address, "--size", size, "--seconds", "5", "--count", "20000", "--rate", "20000", "--check", "payload", "--full")
		output, err := run.CombinedOutput()
		said := string(output)
		// How many of them it gets to send in that time is the machine's business.
		whole := strings.Contains(said, "lost 0 ") && !strings.Contains(said, "sent 0,") && strings.Contains(said, "corrupted 0")
		if err != nil || !whole {
			t.Errorf("%v: %s", err, output)
		}
	}
}

// Quiver's example host as server, restarted in between: a ping is answered.
func TestClientOfQuiver(t *testing.T) {
	echo := released(t, "examples/echo", buildHint)
	address := abstract()
	for range 2 {
		p := start(t, echo, "server", address, "0")
		conn := dialUntil(t, address, ClientConfig{HugePages: NoHugePages})
		_ = conn.SetDeadline(time.Now().Add(patience))
		// 192.0.2.1 → 192.0.2.2, echo request, id 0x1234, sequence 1, checksums worked out by hand.
		ping := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}, []byte{
			0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0xf6, 0xdd, 192, 0, 2, 1, 192, 0, 2, 2, 8, 0, 0xe5, 0xca, 0x12, 0x34, 0, 1}...)
		if _, err := conn.WritePacket(ping); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 100)
		n, err := conn.ReadPacket(answer)
		if err != nil || !bytes.Equal(answer[26:n], []byte{192, 0, 2, 2, 192, 0, 2, 1, 0, 0, 0xed, 0xca, 0x12, 0x34, 0, 1}) {
			t.Errorf("%v: % x", err, answer[:n])
		}
		p.kill()
		<-conn.Done()
	}
}
