package memif

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

const patience = 20 * time.Second

var sockets atomic.Uint32

// abstract is a socket name that nobody else has.
func abstract() string {
	return fmt.Sprintf("@quiver/go-test-%d-%d", os.Getpid(), sockets.Add(1))
}

// What the table says of the raw client's memory.
const (
	rawRegion  = 65536
	rawToPeer  = 0
	rawToUs    = 8192
	rawBuffers = 16384
)

// rawClient says and writes anything.
type rawClient struct {
	tb      testing.TB
	channel channel
	fd      int
	memory  []byte
	event   *os.File
}

func memfd(tb testing.TB, size int64, seal bool) int {
	tb.Helper()
	fd, err := unix.MemfdCreate("raw", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		err = unix.Ftruncate(fd, size)
	}
	if err == nil && seal {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// sealed is memory with these seals.
func sealed(tb testing.TB, seals int) int {
	tb.Helper()
	fd := memfd(tb, rawRegion, false)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		tb.Fatal(err)
	}
	return fd
}

func newRaw(tb testing.TB, address string, seal bool) *rawClient {
	tb.Helper()
	ctl, err := dialChannel(context.Background(), address, "")
	if err != nil {
		tb.Fatal(err)
	}
	_ = ctl.socket.SetDeadline(time.Now().Add(patience))
	r := &rawClient{tb: tb, channel: ctl, fd: memfd(tb, rawRegion, seal)}
	if r.memory, err = unix.Mmap(r.fd, 0, rawRegion, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		tb.Fatal(err)
	}
	for _, ring := range []int{rawToPeer, rawToUs} {
		binary.LittleEndian.PutUint32(r.memory[ring:], 0x3e31f20)
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	r.event = os.NewFile(uintptr(event), "eventfd")
	tb.Cleanup(r.close)
	return r
}

// close hangs up and gives all back.
func (r *rawClient) close() {
	_ = r.channel.socket.Close()
	_ = r.event.Close()
	if r.memory != nil {
		_ = unix.Munmap(r.memory)
		r.memory = nil
	}
}

// send sends bytes with the descriptors of these names.
func (r *rawClient) send(bytes []byte, names ...string) {
	r.tb.Helper()
	var fds []int
	for _, name := range names {
		switch name {
		case "memory":
			fds = append(fds, r.fd)
		case "another-memory":
			fds = append(fds, memfd(r.tb, rawRegion, true))
		case "sealed-for-good":
			fds = append(fds, sealed(r.tb, unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL))
		case "unwritable":
			fds = append(fds, sealed(r.tb, unix.F_SEAL_SHRINK|unix.F_SEAL_FUTURE_WRITE))
		case "write-sealed":
			fds = append(fds, sealed(r.tb, unix.F_SEAL_SHRINK|unix.F_SEAL_WRITE))
		case "unsealed":
			fds = append(fds, memfd(r.tb, rawRegion, false))
		case "eventfd":
			fds = append(fds, int(r.event.Fd()))
		case "pipe":
			var pipe [2]int
			if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
				r.tb.Fatal(err)
			}
			r.tb.Cleanup(func() { _ = unix.Close(pipe[0]); _ = unix.Close(pipe[1]) })
			fds = append(fds, pipe[0])
		default:
			r.tb.Fatalf("no descriptor %q", name)
		}
	}
	var rights []byte
	if fds != nil {
		rights = unix.UnixRights(fds...)
	}
	// A server that has closed already is fine: what it said is read afterwards.
	_, _, _ = r.channel.socket.WriteMsgUnix(bytes, rights, nil)
}

// hear waits for a message and compares it with words of the table: ack, connected, refused PHRASE.
func (r *rawClient) hear(words []string) {
	r.tb.Helper()
	m, files, err := r.channel.receive(true)
	closeFiles(files)
	if err != nil {
		r.tb.Fatalf("expected %v, got %v", words, err)
	}
	switch words[0] {
	case "hello", "ack", "connected":
		if !strings.EqualFold(m.kind.String(), words[0]) {
			r.tb.Fatalf("expected %v, got %+v", words, m)
		}
	case "refused":
		if m.kind != msgDisconnect || !strings.Contains(m.reason, phrase(words[1])) {
			r.tb.Fatalf("expected %v, got %+v", words, m)
		}
		if _, _, err := r.channel.receive(true); !errors.Is(err, PeerClosed) && !errors.Is(err, io.EOF) {
			r.tb.Fatalf("not closed after %v: %v", words, err)
		}
	default:
		r.tb.Fatalf("unknown answer %v", words)
	}
}

// connect goes through a good handshake, with the usual rings, or with those.
func (r *rawClient) connect(t *table, rings ...string) {
	r.tb.Helper()
	if rings == nil {
		rings = []string{"ring-to-server", "ring-from-server"}
	}
	r.hear([]string{"hello"})
	r.send(t.message(r.tb, "init"))
	r.hear([]string{"ack"})
	r.send(t.message(r.tb, "region"), "memory")
	r.hear([]string{"ack"})
	for _, ring := range rings {
		r.send(t.message(r.tb, ring), "eventfd")
		r.hear([]string{"ack"})
	}
	r.send(t.message(r.tb, "connect"))
	r.hear([]string{"connected"})
}

// slot writes a descriptor as the table has it.
func (r *rawClient) slot(ring int, index, flags, region, length, offset uint64) {
	at := r.memory[ring+shm.HeaderSize+int(index)*shm.DescriptorSize:]
	binary.LittleEndian.PutUint64(at, flags|region<<16|length<<32)
	binary.LittleEndian.PutUint64(at[8:], offset)
}

func (r *rawClient) head(ring int, head uint16) {
	binary.LittleEndian.PutUint16(r.memory[ring+6:], head)
}

// write writes slots and head of an entry of the table; gives what it expects.
func (r *rawClient) write(ring int, lines [][]string) (expected []string) {
	r.tb.Helper()
	for _, words := range lines {
		n := make([]uint64, 0, 5)
		if words[0] == "slot" || words[0] == "slots" || words[0] == "head" {
			for _, word := range words[1:] {
				n = append(n, number(r.tb, word))
			}
		}
		switch words[0] {
		case "slot":
			r.slot(ring, n[0], n[1], n[2], n[3], n[4])
		case "slots":
			for i := range n[0] {
				r.slot(ring, i, n[1], n[2], n[3], n[4])
			}
		case "head":
			r.head(ring, uint16(n[0]))
		default:
			expected = words
		}
	}
	return expected
}
