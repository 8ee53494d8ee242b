package memif

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

// keeps is a client that lets the server write into memory that it never touched, goes, and keeps the memory. Says whether it was taken.
func keeps(t *testing.T, l *Listener, allocated bool) (fd int, taken bool) {
	t.Helper()
	table, raw := readTable(t), newRaw(t, l.address, true)
	if allocated {
		if err := unix.Fallocate(raw.fd, 0, 0, rawRegion); err != nil {
			t.Fatal(err)
		}
	}
	raw.hear([]string{"hello"})
	raw.send(table.message(t, "init"))
	raw.hear([]string{"ack"})
	raw.send(table.message(t, "region"), "memory")
	m, _, err := raw.channel.receive(false)
	if err != nil {
		t.Fatal(err)
	}
	if m.kind == msgDisconnect {
		if want := string(RegionHoles.Error()); m.reason[:len(want)] != want {
			t.Fatal(m.reason)
		}
		return raw.fd, false
	}
	for _, step := range []string{"ring-to-server", "ring-from-server"} {
		raw.send(table.message(t, step), "eventfd")
		raw.hear([]string{"ack"})
	}
	raw.send(table.message(t, "connect"))
	raw.hear([]string{"connected"})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(12) {
		raw.slot(rawToUs, i, 0, 0, 4096, rawBuffers+4096*i)
	}
	raw.head(rawToUs, 12)
	if n, err := conn.TryWriteBatch(packetsOf(12, 4000)); n != 12 || err != nil {
		t.Fatal(n, err)
	}
	_ = raw.channel.socket.Close()
	<-conn.Done()
	l.mu.Lock()
	one := l.interfaces[0]
	l.mu.Unlock()
	for started := time.Now(); one.account.Bytes()%rawRegion == 0 && !allocated; time.Sleep(time.Millisecond) {
		if time.Since(started) > patience {
			t.Fatal("its memory isn't unmapped")
		}
	}
	return raw.fd, true
}

func packetsOf(n, length int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = packetOf(i, length)
	}
	return packets
}

// TestMemoryWithHolesIsBounded: whoever comes again and again, and keeps what was written to, is refused; others aren't.
func TestMemoryWithHolesIsBounded(t *testing.T) {
	const most = 3 * rawRegion
	config := ServerConfig{MaxHoles: most}
	l, err := Listen(abstract(), ListenConfig{}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	for range 2 {
		paid, comes := int64(0), 0
		for {
			fd, taken := keeps(t, l, false)
			if !taken {
				break
			}
			var stat unix.Stat_t
			if err := unix.Fstat(fd, &stat); err != nil {
				t.Fatal(err)
			}
			paid, comes = paid+512*stat.Blocks, comes+1
			if paid > most {
				t.Fatalf("%d bytes after %d times", paid, comes)
			}
		}
		if comes < 2 {
			t.Fatal("one alone is within the bound")
		}
		for range 20 {
			if _, taken := keeps(t, l, true); !taken {
				t.Fatal("who has allocated its memory is refused")
			}
		}
		// One that is made anew has an account of its own.
		if err := l.Unregister(0); err != nil {
			t.Fatal(err)
		}
		if err := l.Register(config); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMemoryThatIsGivenBack: what is gone is on no account, so that a client that allocates nothing beforehand may come back for ever.
func TestMemoryThatIsGivenBack(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{MaxHoles: 2 * rawRegion})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	for range 50 {
		// Its memory goes with the test.
		t.Run("again", func(t *testing.T) {
			if _, taken := keeps(t, l, false); !taken {
				t.Fatal("refused")
			}
		})
		l.mu.Lock()
		one := l.interfaces[0]
		l.mu.Unlock()
		eventually(t, "it is on no account", func() bool { return one.account.Bytes() == 0 })
	}
}

// TestAllocatedMemoryThatIsFreed: where nothing is sealed, a client that frees pages while it is connected loses the connection, and we don't
// pay for others.
func TestAllocatedMemoryThatIsFreed(t *testing.T) {
	for name, which := range map[string]PeerMemory{"shared": SharedMemory, "any": AnyMemory} {
		t.Run(name, func(t *testing.T) { allocatedMemoryIsFreed(t, which) })
	}
}

func allocatedMemoryIsFreed(t *testing.T, which PeerMemory) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{PeerMemory: which})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	table, raw := readTable(t), newRaw(t, l.address, true)
	if err := unix.Fallocate(raw.fd, 0, 0, rawRegion); err != nil {
		t.Fatal(err)
	}
	raw.connect(table)
	conn, err := l.Accept(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := conn.TryReadBatch(NewBatch(4)); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := shm.NoticesPunchedHoles(); err != nil {
		t.Skipf("userfaultfd: %v", err)
	}
	if err := punch(raw.fd, rawRegion); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.TryReadBatch(NewBatch(4)); !errors.Is(err, MemoryLost) {
		t.Error(err)
	}
	raw.hear([]string{"refused", "shared-memory-was-truncated"})
	<-conn.Done()
	var stat unix.Stat_t
	if err := unix.Fstat(raw.fd, &stat); err != nil || stat.Blocks != 0 {
		t.Error("pages were made for it:", stat.Blocks, err)
	}
}
