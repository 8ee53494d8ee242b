package memif

import (
	"slices"
	"sync"
	"time"

	"quiver/memif/internal/shm"
)

// RxQueue is one queue to receive from.
type RxQueue struct {
	conn      *Conn
	mu        sync.Mutex
	end       end
	closed    bool
	maxPacket uint32
	chain     []byte // what came of a packet in several buffers
	parts     uint16 // slots of it; 0 if there is none
	sleepers  []*sleeper
	tally     tally
}

// RingSize is the number of descriptors.
func (q *RxQueue) RingSize() int { return int(q.end.cursor.size) }

// Counters are what was received so far.
func (q *RxQueue) Counters() Counters { return q.tally.read() }

// TryReadBatch receives packets that are there into batch, after resetting it, and gives how many: 0 if there are none.
// It polls: the peer isn't asked to signal.
func (q *RxQueue) TryReadBatch(batch *Batch) (int, error) {
	if q.conn == nil {
		return 0, unopened("read", "queue of a connection")
	}
	if err := batch.check(); err != nil {
		return 0, q.conn.wrap("read", err)
	}
	batch.Reset()
	return q.fill(batch)
}

// ReadBatch waits until there are packets and receives them into batch, after resetting it; gives how many.
func (q *RxQueue) ReadBatch(batch *Batch) (int, error) {
	if q.conn == nil {
		return 0, unopened("read", "queue of a connection")
	}
	if err := batch.check(); err != nil {
		return 0, q.conn.wrap("read", err)
	}
	batch.Reset()
	return q.conn.read([]*RxQueue{q}, batch)
}

// fill receives as many packets as there are and fit. A fault of the peer ends the connection.
func (q *RxQueue) fill(batch *Batch) (int, error) {
	before := batch.Len()
	err := q.locked(func() error { return q.take(batch) })
	received := batch.Len() - before
	if err != nil {
		return received, q.conn.failed("read", err)
	}
	return received, nil
}

// locked runs use on memory that is mapped and watched.
func (q *RxQueue) locked(use func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.conn.over() {
		return Closed
	}
	return q.end.table.Guard(use)
}

func (q *RxQueue) take(batch *Batch) error {
	e := &q.end
	available, err := e.available()
	if err != nil || available == 0 {
		return err
	}
	limit := q.maxPacket
	if e.client {
		limit = min(limit, e.capacity)
	}
	index, used, bytes, before := e.cursor.taken, uint16(0), uint64(0), batch.Len()
	looked := 0 // at slots of packets in several buffers
	for used < available && batch.Len() < batch.max {
		d := e.received(index)
		if d.HasNext() || q.parts > 0 {
			if looked >= partsACall {
				break
			}
			looked++
			var whole uint64
			whole, err = q.takePart(index, d, batch)
			bytes += whole
		} else if d.Length-1 >= limit { // one comparison for both 0 and too long
			err = badLength(d.Length, limit)
		} else if packet, ok := e.table.Bytes(d.Region, d.Offset, d.Length); ok {
			batch.add(packet)
			bytes += uint64(d.Length)
		} else {
			err = outside(d)
		}
		if err != nil {
			return err
		}
		index++
		used++
	}
	// All is copied, of an unfinished packet, too: its slots are the peer's again.
	first := e.cursor.taken
	e.cursor.taken += used
	e.cursor.released = e.cursor.taken
	e.post(first, used)
	e.publish(e.cursor.released)
	q.tally.add(uint64(batch.Len()-before), bytes, 0)
	return nil
}

// takePart adds a slot to the packet that comes in several; gives its bytes once it is whole.
func (q *RxQueue) takePart(index uint16, d shm.Descriptor, batch *Batch) (uint64, error) {
	e := &q.end
	if e.client && d.Length > e.capacity {
		return 0, badLength(d.Length, e.capacity)
	}
	// In 64 bits: no sum can wrap.
	if total := uint64(len(q.chain)) + uint64(d.Length); total > uint64(q.maxPacket) {
		return 0, detail(TooLong, "%d bytes, at most %d", total, q.maxPacket)
	}
	part, ok := e.table.Bytes(d.Region, d.Offset, d.Length)
	// An empty part says nothing wrong, wherever it is: some senders trim the last buffer of a chain to nothing.
	if !ok && d.Length > 0 {
		return 0, outside(d)
	}
	q.chain = append(q.chain, part...)
	q.parts++
	if most := mostParts(q.maxPacket); uint32(q.parts) > most {
		return 0, tooManyParts(most)
	}
	if d.HasNext() {
		if q.parts == e.cursor.size {
			return 0, EndlessChain
		}
		if !e.client {
			// DPDK's copying sender sets NEXT but never clears it when it uses the slot again, and so joins packets that
			// don't belong together. The slot is ours until it is released, so we do.
			d.Flags = 0
			e.ring.SetLength(index, d)
		}
		return 0, nil
	}
	if len(q.chain) == 0 {
		return 0, EmptyPacket
	}
	batch.add(q.chain)
	whole := uint64(len(q.chain))
	q.chain, q.parts = q.chain[:0], 0
	return whole, nil
}

// partsACall is how many slots of packets in several buffers one call looks at: what the buffers cost is the loss of all who are served in
// the same round. The rest waits for the next call.
const partsACall = 2048

// smallBuffer is the length from which on buffers to send into don't count towards that: there it is the copied bytes that cost.
const smallBuffer = 512

// mostParts is how many buffers a packet of so many bytes may have: enough for those of 64 bytes, the smallest that anybody is known to use,
// and some that are hardly used.
func mostParts(length uint32) uint32 { return 64 + length/64 }

func tooManyParts(most uint32) error { return detail(TooManyParts, "more than %d buffers", most) }

func badLength(length, most uint32) error {
	if length == 0 {
		return EmptyPacket
	}
	return detail(TooLong, "%d bytes, at most %d", length, most)
}

// arm enters a sleeper, asks for signals and says whether there is something already.
func (q *RxQueue) arm(s *sleeper) (ready bool, err error) {
	err = q.locked(func() error {
		q.sleepers = append(q.sleepers, s)
		q.end.ring.MaskInterrupt(false)
		available, err := q.end.available()
		ready = available > 0
		return err
	})
	return ready, err
}

// disarm takes a sleeper out that is awake, if it is still there. The last one asks for no more signals.
func (q *RxQueue) disarm(s *sleeper) {
	_ = q.locked(func() error {
		q.sleepers = slices.DeleteFunc(q.sleepers, func(one *sleeper) bool { return one == s })
		if len(q.sleepers) == 0 {
			q.end.ring.MaskInterrupt(true)
		}
		return nil
	})
}

// signalled takes the peer's signal back and wakes all sleepers: each looks for itself.
func (q *RxQueue) signalled() {
	_ = q.locked(func() error {
		if q.end.event.Clear() {
			q.tally.signals.Add(1)
		}
		for _, s := range q.sleepers {
			s.wake()
		}
		q.sleepers = q.sleepers[:0]
		q.end.ring.MaskInterrupt(true) // no more for the same
		return nil
	})
}

// start is for when both sides have mapped the ring. Some servers reset all indices and flags when they do so; what a client
// published before is lost.
func (q *RxQueue) start() error {
	return q.locked(func() error {
		q.end.ring.MaskInterrupt(true)
		q.end.post(0, q.end.cursor.size)
		if q.end.client {
			q.end.publish(0)
		}
		return nil
	})
}

// close gives the ring and the event up.
func (q *RxQueue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	return q.end.event.Close()
}

// nap is the longest sleep: some peers look at the interrupt flag without a fence, and so may fail to wake us. Deadlines that are
// changed meanwhile are seen after it.
const nap = 100 * time.Millisecond
