package memif

import "quiver/memif/internal/shm"

// cursor is where one side stands in a ring of free-running 16-bit indices:
//
//	released ≤ taken ≤ peer ≤ released + size        (all modulo 2^16)
//
// Slots are taken as they are used, and released together when their use is over. What is between is held.
type cursor struct{ size, taken, released uint16 }

func (c *cursor) held() uint16 { return c.taken - c.released }

// available is how many slots may be taken, peer being the other side's index, which it may have written anything to.
func (c *cursor) available(peer uint16) (uint16, error) {
	available := peer - c.taken
	if available > c.size-c.held() {
		return 0, detail(IndexFault, "%d, at %d with %d of %d slots held", peer, c.taken, c.held(), c.size)
	}
	return available, nil
}

// end is one side of one ring: its place, which index is ours, and what to add to both so that one cursor serves all four kinds of
// queue. Slots of a client have the buffers that its layout says, whatever the peer writes there; those of a server have
// what the client says, to be checked.
type end struct {
	ring     shm.Ring
	table    *shm.Table
	event    *shm.Event
	cursor   cursor
	client   bool
	peerBias uint16
	ownBias  uint16
	first    uint32 // client: offset of the buffer of slot 0 in region 0
	stride   uint32 // client: distance of buffers
	capacity uint32 // client: bytes of a buffer
}

func (e *end) available() (uint16, error) {
	peer := e.ring.Head
	if e.client {
		peer = e.ring.Tail
	}
	return e.cursor.available(peer() + e.peerBias)
}

// publish gives everything up to released to the peer, with all that was written to it.
func (e *end) publish(released uint16) {
	if e.client {
		e.ring.SetHead(released + e.ownBias)
	} else {
		e.ring.SetTail(released + e.ownBias)
	}
}

// buffer is the empty buffer of a slot: where, and how long.
func (e *end) buffer(index uint16) shm.Descriptor {
	if !e.client {
		return e.ring.Descriptor(index)
	}
	slot := uint32(index & (e.cursor.size - 1))
	return shm.Descriptor{Length: e.capacity, Offset: e.first + slot*e.stride}
}

// received is the descriptor to trust for a slot; of a client's slots the length and flags are what the peer wrote.
func (e *end) received(index uint16) shm.Descriptor {
	d := e.ring.Descriptor(index)
	if e.client {
		slot := uint32(index & (e.cursor.size - 1))
		d.Region, d.Offset = 0, e.first+slot*e.stride
	}
	return d
}

// post makes n slots' descriptors the client's empty buffers (again).
func (e *end) post(first, n uint16) {
	if e.client {
		for i := range n {
			e.ring.SetDescriptor(first+i, e.buffer(first+i))
		}
	}
}

func outside(d shm.Descriptor) error {
	return detail(RangeFault, "region %d, offset %d, length %d", d.Region, d.Offset, d.Length)
}
