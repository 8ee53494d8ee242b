package memif

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A peer that takes nothing any more: who said how long to wait is told which one, and in which time, and may go on. Nobody else waits.
func TestPeerThatTakesNothing(t *testing.T) {
	const stall = 100 * time.Millisecond
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{ID: 7, StallTimeout: stall})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	server, client := join(t, l, ClientConfig{ID: 7, RingSize: 64, RxQueues: 2, TxQueues: 2, StallTimeout: stall})
	for name, ends := range map[string][2]*Conn{"server": {server, client}, "client": {client, server}} {
		t.Run(name, func(t *testing.T) {
			from, to := ends[0], ends[1]
			second := from.TxQueues()[1]
			if sent, err := from.TryWriteBatch(packetsOf(100, 60)); sent != 64 || err != nil {
				t.Fatal(sent, err)
			}
			if sent, err := second.TryWriteBatch(packetsOf(100, 60)); sent != 64 || err != nil {
				t.Fatal(sent, err)
			}
			for i, write := range []func() (int, error){
				func() (int, error) { return from.WritePacket(packetOf(1, 60)) },
				func() (int, error) { return from.WriteBatch(packetsOf(3, 60)) },
				func() (int, error) { return from.WriteBatchContext(t.Context(), packetsOf(3, 60)) },
				func() (int, error) { return second.WriteBatch(packetsOf(3, 60)) },
				func() (int, error) { return second.WriteBatchContext(t.Context(), packetsOf(3, 60)) },
			} {
				queue, started := i/3, time.Now()
				sent, err := write()
				var stalled *PeerStalled
				if sent != 0 || !errors.As(err, &stalled) || stalled.Queue != queue || stalled.After < stall || stalled.After > time.Since(started) {
					t.Fatalf("%d: %d sent, %v", i, sent, err)
				}
				var timeout interface{ Timeout() bool }
				names := strings.Contains(err.Error(), l.address+" id 7") && strings.Contains(err.Error(), fmt.Sprintf("queue %d for ", queue))
				if !names || !errors.As(err, &timeout) || !timeout.Timeout() {
					t.Errorf("%d: %v", i, err)
				}
			}
			// What the caller says comes first.
			soon, cancel := context.WithTimeout(t.Context(), stall/10)
			defer cancel()
			if _, err := from.WriteBatchContext(soon, packetsOf(1, 60)); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			// It takes some again, and there is room.
			readN(t, to.ReadBatch, 128)
			if _, err := from.WriteBatch(packetsOf(64, 60)); err != nil {
				t.Error(err)
			}
			readN(t, to.ReadBatch, 64)
		})
	}
}

// A peer that is slow isn't stalled, though a packet of many buffers has to wait longer than that for its room. Time is the test's own: a machine
// that stands still passes none.
func TestSlowPeerIsNotStalled(t *testing.T) {
	const stall, often, buffers = 1500 * time.Millisecond, 200 * time.Millisecond, 12
	server, client := pair(t, ServerConfig{}, ClientConfig{RingSize: 64, BufferSize: 64, StallTimeout: stall})
	if _, err := client.WriteBatch(packetsOf(64, 60)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		started, done := time.Now(), make(chan error, 1)
		go func() { _, err := client.WritePacket(packetOf(1, 64*buffers)); done <- err }()
		for range buffers {
			time.Sleep(often)
			if n, err := server.TryReadBatch(NewBatch(1)); n != 1 || err != nil {
				t.Error(n, err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if waited := time.Since(started); waited < stall {
			t.Error("waited only", waited)
		}
	})
}

// Where the settings don't say how long to wait it is ten seconds; whoever wants to wait for ever says so. On either side.
func TestStallTimeoutOfSettings(t *testing.T) {
	const long = 10 * DefaultStallTimeout
	for setting, after := range map[time.Duration]time.Duration{0: DefaultStallTimeout, -1: long, 20 * time.Second: 20 * time.Second} {
		server, client := pair(t, ServerConfig{StallTimeout: setting}, ClientConfig{RingSize: 64, StallTimeout: setting})
		for name, conn := range map[string]*Conn{"server": server, "client": client} {
			if sent, err := conn.TryWriteBatch(packetsOf(64, 60)); sent != 64 || err != nil {
				t.Fatal(sent, err)
			}
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), long)
				defer cancel()
				started := time.Now()
				_, err := conn.WriteBatchContext(ctx, packetsOf(1, 60))
				var stalled *PeerStalled
				if waits := after == long; errors.As(err, &stalled) == waits || errors.Is(err, context.DeadlineExceeded) != waits {
					t.Errorf("%s, %v: %v", name, setting, err)
				}
				if waited := time.Since(started); waited < after || waited > after+time.Second {
					t.Errorf("%s, %v: waited %v", name, setting, waited)
				}
			})
		}
	}
}
