package memif

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A reader's time is its own, however many others wait longer.
func TestSeveralReadersEachWithItsTime(t *testing.T) {
	conn, _ := connected(t, readTable(t))
	long, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 20 {
		others.Go(func() {
			if _, err := conn.ReadBatchContext(long, NewBatch(4)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	done := make(chan error)
	for range 3 {
		go func() {
			short, cancel := context.WithTimeout(long, 20*time.Millisecond)
			defer cancel()
			_, err := conn.ReadBatchContext(short, NewBatch(4))
			done <- err
		}()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("kept waiting by others")
		}
	}
}

// Who looks and goes leaves the signals wanted that another sleeps for, who doesn't wake up by himself.
func TestReadersThatGoLeaveSignalsWanted(t *testing.T) {
	conn, raw := connected(t, readTable(t))
	conn.nap = time.Hour
	var other sync.WaitGroup
	other.Go(func() { _, _ = conn.ReadBatchContext(t.Context(), NewBatch(4)) })
	defer other.Wait()
	defer conn.Close()
	masked := func() bool { return raw.memory[rawToPeer+4]&1 != 0 }
	for started := time.Now(); masked(); time.Sleep(time.Millisecond) {
		if time.Since(started) > patience {
			t.Fatal("a sleeper doesn't ask for signals")
		}
	}
	unwanted := 0
	for range 300 {
		over, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := conn.ReadBatchContext(over, NewBatch(4)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
		if masked() {
			unwanted++
		}
	}
	if unwanted > 0 {
		t.Errorf("%d of 300 times nobody would have woken the sleeper", unwanted)
	}
}

// Several wait for the same packet: the one that has got it is enough. Nobody wakes up by itself.
func TestOnePacketForSeveralSleepers(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{TxQueues: 2})
	server.nap = time.Hour
	got := make(chan []byte, 1)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			batch := NewBatch(1)
			for {
				if _, err := server.ReadBatchContext(t.Context(), batch); err != nil {
					return
				}
				got <- bytes.Clone(batch.Packets()[0])
			}
		})
	}
	for i := range 300 {
		packet := packetOf(i, 60)
		if _, err := client.TxQueues()[i%2].WriteBatch([][]byte{packet}); err != nil {
			t.Fatal(err)
		}
		select {
		case found := <-got:
			if !bytes.Equal(found, packet) {
				t.Fatal("another packet")
			}
		case <-time.After(patience):
			t.Fatal("nobody woke up")
		}
	}
	_ = server.Close()
	readers.Wait()
}

// processorTime is what this thread has used.
func processorTime(t *testing.T) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A client may announce no ring to us: there is nothing to read, and nothing to do until another comes.
func TestPortReadsFromAClientWithoutRings(t *testing.T) {
	table := readTable(t)
	port, err := OpenServer(abstract(), ListenConfig{}, ServerConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	raw := newRaw(t, port.listener.address, true)
	raw.hear([]string{"hello"})
	for _, step := range [][]string{{"init"}, {"region", "memory"}, {"ring-from-server", "eventfd"}} {
		raw.send(table.message(t, step[0]), step[1:]...)
		raw.hear([]string{"ack"})
	}
	raw.send(table.message(t, "connect"))
	raw.hear([]string{"connected"})
	if _, err := port.Conn(within(t)); err != nil {
		t.Fatal(err)
	}
	// Of a thread that nothing else runs on.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	before := processorTime(t)
	if n, err := port.ReadBatch(ctx, NewBatch(4)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(n, err)
	}
	if used := processorTime(t) - before; used > 20*time.Millisecond {
		t.Errorf("waiting used %v of processor time", used)
	}
	_ = raw.channel.socket.Close()
	next := dialUntil(t, port.listener.address, ClientConfig{HugePages: NoHugePages})
	if _, err := next.WritePacket(packetOf(1, 60)); err != nil {
		t.Fatal(err)
	}
	if n, err := port.ReadBatch(within(t), NewBatch(4)); n != 1 || err != nil {
		t.Error(n, err)
	}
}
