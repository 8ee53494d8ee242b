package memif

import "quiver/memif/internal/shm"

// Batch is received packets, in private memory. It allocates only while it grows to the size it is used with. Not for
// several goroutines at once.
type Batch struct {
	packets [][]byte
	bytes   []byte
	max     int
}

// firstBatch is for how many packets a batch has room before it grows: however many it may take, a ring has no more.
const firstBatch = 1 << shm.MaxLog2

// NewBatch makes an empty batch that takes up to max packets at once, at least one.
func NewBatch(max int) *Batch {
	if max < 1 {
		max = 1
	}
	first := min(max, firstBatch)
	return &Batch{packets: make([][]byte, 0, first), bytes: make([]byte, 0, 64*first), max: max}
}

// Len is the number of packets.
func (b *Batch) Len() int { return len(b.packets) }

// Packets are the packets in the order in which they came. They are the batch's: the next read overwrites them.
func (b *Batch) Packets() [][]byte { return b.packets }

// check refuses a batch that can't take any packet.
func (b *Batch) check() error {
	if b == nil || b.max < 1 {
		return detail(BadSetting, "no batch of NewBatch")
	}
	return nil
}

// Reset forgets all packets.
func (b *Batch) Reset() { b.packets, b.bytes = b.packets[:0], b.bytes[:0] }

func (b *Batch) add(packet []byte) {
	start := len(b.bytes)
	if cap(b.bytes)-start < len(packet) {
		// Packets that are there stay where they are; from the next Reset on all fit into the larger piece.
		b.bytes, start = make([]byte, 0, 2*cap(b.bytes)+len(packet)), 0
	}
	b.bytes = append(b.bytes, packet...)
	b.packets = append(b.packets, b.bytes[start:len(b.bytes):len(b.bytes)])
}
