package memif

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

// A server that accepts unsealed regions survives their being truncated.
func TestMemoryThatGoesAway(t *testing.T) {
	for _, write := range []bool{false, true} {
		l, err := Listen(abstract(), ListenConfig{}, ServerConfig{PeerMemory: AnyMemory})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		defer bystander(t, l)()
		raw := newRaw(t, l.address, false)
		raw.connect(readTable(t))
		conn, err := l.Accept(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(raw.fd, 0); err != nil {
			t.Fatal(err)
		}
		if write {
			_, err = conn.TryWriteBatch([][]byte{{1}})
		} else {
			_, err = conn.TryReadBatch(NewBatch(1))
		}
		if !errors.Is(err, MemoryLost) {
			t.Error(err)
		}
		raw.hear([]string{"refused", "shared-memory-was-truncated"})
	}
}

// A panic that has nothing to do with a peer is none of ours.
func TestOtherPanicsGoOn(t *testing.T) {
	server, _ := pair(t, ServerConfig{}, ClientConfig{})
	defer func() {
		if recover() == nil {
			t.Error("a panic was swallowed")
		}
	}()
	_ = server.table.Guard(func() error { panic("ours") })
}

// A semaphore is no eventfd of memif's: where the kernel tells, its peer learns that.
func TestSemaphoreIsNoEventfd(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	facts, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil || !strings.Contains(string(facts), "eventfd-semaphore") {
		t.Skip("the kernel doesn't tell")
	}
	if _, err := shm.PeerEvent(os.NewFile(uintptr(fd), "semaphore")); !errors.Is(err, NotAnEventfd) {
		t.Error(err)
	}
}

// Before Linux 6.7 nobody can tell a semaphore from an eventfd: there it wakes its reader once for each signal, as any other does, however
// much is left in it.
func TestSemaphoreWakesOnceASignal(t *testing.T) {
	server, _ := hostilePair(t, ServerConfig{}, ClientConfig{})
	semaphore, err := unix.Eventfd(0, unix.EFD_SEMAPHORE|unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(semaphore)
	q := server.RxQueues()[0]
	// In the place of the event that was agreed on: in a handshake it would be refused here.
	if err := unix.Dup3(semaphore, int(q.end.event.File().Fd()), unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	waker, err := newWaker(server.rx, []*shm.Event{q.end.event})
	if err != nil {
		t.Fatal(err)
	}
	defer waker.close()
	reader := &Conn{rx: server.rx, waker: waker, done: make(chan struct{}), nap: nap}
	signal := make([]byte, 8)
	for i, much := range []uint64{1 << 40, 1, 1 << 50} {
		binary.NativeEndian.PutUint64(signal, much)
		if _, err := unix.Write(semaphore, signal); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		slept := make(chan error)
		go func() {
			_, err := reader.ReadBatchContext(ctx, NewBatch(1))
			slept <- err
		}()
		eventually(t, "it wakes", func() bool { return q.Counters().Signals > uint64(i) })
		cancel()
		if err := <-slept; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for range 3 { // and sleeps as before
			_ = waker.raw.Control(func(fd uintptr) { waker.look(int(fd)) })
		}
		if woken := q.Counters().Signals; woken != uint64(i+1) {
			t.Fatalf("%d signals woke the reader %d times", i+1, woken)
		}
	}
}

// The eventfd is the peer's as well: full and blocking, it stops neither sender nor receiver.
func TestEventThatBlocks(t *testing.T) {
	table := readTable(t)
	conn, raw := connected(t, table)
	if err := unix.SetNonblock(int(raw.event.Fd()), false); err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 8)
	binary.LittleEndian.PutUint64(full, 1<<64-2)
	if _, err := unix.Write(int(raw.event.Fd()), full); err != nil {
		t.Fatal(err)
	}
	raw.slot(rawToUs, 0, 0, 0, 2048, rawBuffers)
	raw.head(rawToUs, 1) // flags are 0: it wants to be signalled
	done := make(chan error, 1)
	go func() {
		_, err := conn.TryWriteBatch([][]byte{{1}})
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := conn.ReadBatch(NewBatch(1)); err == nil {
			done <- errors.New("received from nobody")
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("stopped by its peer")
	}
}

// A chain that goes on in all slots of the ring.
func TestChainWithoutEnd(t *testing.T) {
	conn, raw := connected(t, readTable(t))
	for i := range uint64(64) {
		raw.slot(rawToPeer, i, 1, 0, 1, rawBuffers)
	}
	raw.head(rawToPeer, 64)
	if _, err := conn.TryReadBatch(NewBatch(1)); !errors.Is(err, EndlessChain) {
		t.Error(err)
	}
}

// Who connects and says nothing keeps nobody out, and is told the time.
func TestConnectStormAndSlowHandshakes(t *testing.T) {
	var mu sync.Mutex
	reasons := map[error]int{}
	config := ListenConfig{MaxHandshakes: 4, Timeout: 2 * time.Second, Refused: func(who Refusal) {
		mu.Lock()
		defer mu.Unlock()
		for _, cause := range []error{TooManyHandshakes, HandshakeTimeout} {
			if errors.Is(who.Reason, cause) {
				reasons[cause]++
			}
		}
	}}
	l, err := Listen(abstract(), config, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	var silent []channel
	for range 200 {
		ctl, err := dialChannel(within(t), l.address, "")
		if err != nil {
			t.Fatal(err)
		}
		defer ctl.socket.Close()
		silent = append(silent, ctl)
	}
	if _, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages}); err != nil {
		t.Error("kept out:", err)
	}
	for i, ctl := range silent {
		_ = ctl.socket.SetDeadline(time.Now().Add(patience))
		told := ""
		for {
			m, _, err := ctl.receive(true)
			if err != nil {
				if !errors.Is(err, PeerClosed) && !errors.Is(err, io.EOF) {
					t.Fatalf("%d: %v", i, err)
				}
				break
			}
			told = m.reason
		}
		if told != string(TooManyHandshakes) && told != string(HandshakeTimeout) {
			t.Errorf("%d was told %q", i, told)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if reasons[HandshakeTimeout] == 0 {
		t.Error(reasons)
	}
}

// A server that writes anything into a client's memory: it knows itself where its buffers are.
func TestServerThatMovesBuffers(t *testing.T) {
	for _, length := range []uint32{0, 60, 2048, 2049, 1<<32 - 1} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			server, client := hostilePair(t, ServerConfig{}, ClientConfig{})
			if _, err := server.WritePacket(packetOf(1, 60)); err != nil {
				t.Fatal(err)
			}
			d := server.tx[0].end.ring.Descriptor(0)
			d.Region, d.Offset, d.Length = 9, 1<<32-1, length
			server.tx[0].end.ring.SetDescriptor(0, d)
			batch := NewBatch(1)
			_, err := client.TryReadBatch(batch)
			switch {
			case length == 0 && !errors.Is(err, EmptyPacket), length > 2048 && !errors.Is(err, TooLong):
				t.Error(err)
			case length > 0 && length <= 2048 && (err != nil || batch.Len() != 1 || len(batch.Packets()[0]) != int(length)):
				t.Error(err)
			}
		})
	}
}

// What a server allows is enforced, also on a client that knows better than HELLO.
func TestLimitsAreEnforced(t *testing.T) {
	region := func(index uint16, size uint64) message { return message{kind: msgAddRegion, index: index, size: size} }
	ring := func(flags, index uint16, log2 uint8) message {
		return message{kind: msgAddRing, flags: flags, index: index, log2: log2}
	}
	limits := ServerConfig{MaxRxQueues: 1, MaxTxQueues: 1, MaxRingSize: 64, MaxRegions: 2, MaxMemory: 100000}
	for _, c := range []struct {
		name     string
		messages []message // all but the last are fine
		reason   string
	}{
		{"regions", []message{region(0, 1000), region(1, 1000), region(2, 1000)}, "too-many-regions"},
		{"memory", []message{region(0, rawRegion), region(1, 34465)}, "too-much-memory"},
		{"memory that wraps", []message{region(0, rawRegion), region(1, 1<<64-1)}, "too-much-memory"},
		{"rings to us", []message{region(0, rawRegion), ring(1, 0, 6), ring(1, 1, 6)}, "too-many-rings"},
		{"rings from us", []message{region(0, rawRegion), ring(0, 0, 6), ring(0, 1, 6)}, "too-many-rings"},
		{"ring size", []message{region(0, rawRegion), ring(1, 0, 7)}, "ring-size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(abstract(), ListenConfig{}, limits)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			defer bystander(t, l)()
			raw := newRaw(t, l.address, true)
			raw.hear([]string{"hello"})
			raw.send(readTable(t).message(t, "init"))
			raw.hear([]string{"ack"})
			for i, m := range c.messages {
				file := map[messageType]string{msgAddRegion: "memory", msgAddRing: "eventfd"}[m.kind]
				if m.kind == msgAddRegion && i > 0 {
					file = "another-memory"
				}
				raw.send(m.encode(), file)
				if i < len(c.messages)-1 {
					raw.hear([]string{"ack"})
				} else {
					raw.hear([]string{"refused", c.reason})
				}
			}
		})
	}
}
