package memif

import (
	"bytes"
	"errors"
	"testing"

	"quiver/memif/internal/shm"
)

// inParts publishes a packet of a client in so many buffers of one byte.
func inParts(t *testing.T, q *TxQueue, parts int, finished bool) {
	t.Helper()
	err := q.locked(func() error {
		e := &q.end
		for i := range parts {
			d := shm.Descriptor{Flags: shm.FlagNext, Length: 1, Offset: e.first}
			if finished && i == parts-1 {
				d.Flags = 0
			}
			e.ring.SetDescriptor(e.cursor.taken+uint16(i), d)
		}
		e.cursor.taken += uint16(parts)
		e.cursor.released = e.cursor.taken
		e.publish(e.cursor.released)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// As many buffers as a packet may have are taken, one more is a fault.
func TestAPacketInTooManyPartsIsAFault(t *testing.T) {
	for _, c := range []struct {
		parts int
		fault error
	}{{64 + 9216/64, nil}, {64 + 9216/64 + 1, TooManyParts}} {
		server, client := hostilePair(t, ServerConfig{MaxPacket: 9216}, ClientConfig{RingSize: 1024})
		inParts(t, client.tx[0], c.parts, true)
		batch := NewBatch(4)
		n, err := server.TryReadBatch(batch)
		if !errors.Is(err, c.fault) || c.fault == nil && (n != 1 || len(batch.Packets()[0]) != c.parts) {
			t.Errorf("%d parts: %d packets, %v", c.parts, n, err)
		}
	}
}

// What one call looks at is bounded; the rest is received by the next ones.
func TestPartsOfACallAreBounded(t *testing.T) {
	server, client := hostilePair(t, ServerConfig{}, ClientConfig{RingSize: 16384, BufferSize: 64})
	const packets, parts = 30, 500
	for range packets {
		inParts(t, client.tx[0], parts, true)
	}
	batch, received, calls := NewBatch(256), 0, 0
	for ; received < packets; calls++ {
		n, err := server.TryReadBatch(batch)
		if err != nil || n > partsACall/parts+1 {
			t.Fatal(n, err)
		}
		for _, packet := range batch.Packets() {
			if len(packet) != parts {
				t.Fatalf("a packet of %d bytes", len(packet))
			}
		}
		received += n
	}
	if want := (packets*parts + partsACall - 1) / partsACall; calls != want {
		t.Errorf("%d calls, expected %d", calls, want)
	}
}

// Buffers to send into, likewise: one of a byte each.
func TestTooManyBuffersToSendInto(t *testing.T) {
	server, client := hostilePair(t, ServerConfig{}, ClientConfig{RingSize: 16384})
	post := func(length uint32) {
		err := client.rx[0].locked(func() error {
			e := &client.rx[0].end
			for i := range e.cursor.size {
				e.ring.SetDescriptor(i, shm.Descriptor{Length: length, Offset: e.first})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	post(64)
	packet := bytes.Repeat([]byte{7}, 64*100)
	sent := 0
	for range 5 {
		n, err := server.TryWriteBatch(repeated(packet, 100))
		if want := partsACall/100 + 1; n != want || err != nil {
			t.Fatalf("%d sent, %v, expected %d", n, err, want)
		}
		sent += n
	}
	if full := server.TxQueues()[0].Counters().Full; full != uint64(500-sent) {
		t.Errorf("%d found no room, expected %d", full, 500-sent)
	}
	post(1)
	if n, err := server.TryWriteBatch([][]byte{packet}); n != 0 || !errors.Is(err, TooManyParts) {
		t.Error(n, err)
	}
}

func repeated(packet []byte, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = packet
	}
	return all
}
