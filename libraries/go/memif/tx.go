package memif

import (
	"context"
	"errors"
	"sync"

	"quiver/memif/internal/shm"
)

// TxQueue is one queue to send to.
type TxQueue struct {
	conn      *Conn
	number    int
	mu        sync.Mutex
	end       end
	closed    bool
	taken     uint16           // how far the peer had taken packets, when that was looked at last
	maxPacket uint32           // longest packet to send, in bytes
	chain     []shm.Descriptor // of the packet being put together
	parts     [][]byte         // their buffers
	looked    int              // at small buffers for such packets, in this call
	tally     tally
}

// RingSize is the number of descriptors.
func (q *TxQueue) RingSize() int { return int(q.end.cursor.size) }

// Counters are what was sent so far.
func (q *TxQueue) Counters() Counters { return q.tally.read() }

// TryWriteBatch sends packets as far as there is room, wakes the peer if it sleeps, and gives how many: the rest found no room.
// Ends with NeverFits before a packet that is empty, or longer than peers take or than the whole ring.
func (q *TxQueue) TryWriteBatch(packets [][]byte) (int, error) {
	if q.conn == nil {
		return 0, unopened("write", "queue of a connection")
	}
	sent, err := 0, error(nil)
	failure := q.locked(func() error {
		var fault error
		sent, err, fault = q.put(packets)
		return fault
	})
	if failure != nil {
		return 0, q.conn.failed("write", failure)
	}
	if err != nil && sent == 0 {
		return 0, q.conn.wrap("write", err)
	}
	return sent, nil
}

// WriteBatch sends all packets, waiting for room; gives how many before an error. It waits for a peer that takes nothing any more for
// StallTimeout; the connection's SetWriteDeadline and [TxQueue.WriteBatchContext] bound the whole of it.
func (q *TxQueue) WriteBatch(packets [][]byte) (int, error) {
	if q.conn == nil {
		return 0, unopened("write", "queue of a connection")
	}
	return q.conn.write(context.Background(), q, packets)
}

// WriteBatchContext does so until the context ends; the write deadline and StallTimeout count as well.
func (q *TxQueue) WriteBatchContext(ctx context.Context, packets [][]byte) (int, error) {
	if q.conn == nil {
		return 0, unopened("write", "queue of a connection")
	}
	if err := checkContext(ctx); err != nil {
		return 0, q.conn.wrap("write", err)
	}
	return q.conn.write(ctx, q, packets)
}

func (q *TxQueue) locked(use func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.conn.over() {
		return Closed
	}
	return q.end.table.Guard(use)
}

// put writes packets into free slots and publishes them together. refused says why it stopped before a packet, other than
// for lack of room; after a fault nothing is published.
func (q *TxQueue) put(packets [][]byte) (sent int, refused, fault error) {
	e := &q.end
	room, fault := e.available()
	if fault != nil {
		return 0, nil, fault
	}
	index, used, bytes := e.cursor.taken, uint16(0), uint64(0)
	q.taken = index + room
	most := q.longest()
	q.looked = 0
	for _, packet := range packets {
		length := uint64(len(packet))
		if length-1 >= most { // one comparison for both 0 and too long
			refused = detail(NeverFits, "%d bytes, at most %d", length, most)
			break
		}
		if used == room {
			break
		}
		d := e.buffer(index + used)
		if length <= uint64(d.Length) {
			d.Flags, d.Length = 0, uint32(length)
			into, ok := e.table.Bytes(d.Region, d.Offset, d.Length)
			if !ok {
				return 0, nil, outside(d)
			}
			copy(into, packet)
			e.ring.SetLength(index+used, d)
			used++
		} else {
			fits, err := q.collect(d, index+used, room-used, len(packet))
			if errors.Is(err, NeverFits) {
				refused = err
				break
			}
			if err != nil {
				return 0, nil, err
			}
			if !fits {
				break
			}
			rest := packet
			for i, part := range q.parts {
				rest = rest[copy(part, rest):]
				e.ring.SetLength(index+used+uint16(i), q.chain[i])
			}
			used += uint16(len(q.chain))
		}
		bytes += length
		sent++
	}
	if used > 0 {
		e.cursor.taken += used
		e.cursor.released = e.cursor.taken
		e.publish(e.cursor.released)
		if e.ring.Wanted() {
			e.event.Signal()
			q.tally.signals.Add(1)
		}
	}
	full := 0
	if refused == nil {
		full = len(packets) - sent
	}
	q.tally.add(uint64(sent), bytes, uint64(full))
	return sent, refused, nil
}

// longest is the most bytes that a packet can have. A client knows what all its buffers hold; a server finds out.
func (q *TxQueue) longest() uint64 {
	most := uint64(q.maxPacket)
	if q.end.client {
		most = min(most, uint64(q.end.capacity)*uint64(q.end.cursor.size))
	}
	return most
}

// collect finds buffers from slot index on until they hold length bytes, each descriptor read once and checked before anything
// is written. Says whether the free slots are enough.
func (q *TxQueue) collect(d shm.Descriptor, index, room uint16, length int) (bool, error) {
	e := &q.end
	q.chain, q.parts = q.chain[:0], q.parts[:0]
	if q.looked >= partsACall {
		return false, nil
	}
	for left := uint64(length); ; {
		if d.Length == 0 {
			return false, NoCapacity
		}
		if d.Length < smallBuffer {
			q.looked++
		}
		d.Length = uint32(min(uint64(d.Length), left))
		left -= uint64(d.Length)
		d.Flags = 0
		if left > 0 {
			d.Flags = shm.FlagNext
		}
		part, ok := e.table.Bytes(d.Region, d.Offset, d.Length)
		if !ok {
			return false, outside(d)
		}
		q.chain, q.parts = append(q.chain, d), append(q.parts, part)
		n := uint16(len(q.chain))
		switch {
		case left == 0:
			return true, nil
		case n == e.cursor.size:
			return false, detail(NeverFits, "%d bytes", length)
		case n == room:
			return false, nil
		case uint32(n) >= mostParts(uint32(length)):
			return false, tooManyParts(mostParts(uint32(length)))
		}
		d = e.buffer(index + n)
	}
}

// progress is how far the peer had taken packets when it was written to last.
func (q *TxQueue) progress() uint16 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken
}

// start lays a client's buffers out.
func (q *TxQueue) start() error {
	return q.locked(func() error { q.end.post(0, q.end.cursor.size); return nil })
}

// close gives the ring and the event up.
func (q *TxQueue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	return q.end.event.Close()
}
