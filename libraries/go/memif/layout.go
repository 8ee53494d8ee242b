package memif

import "quiver/memif/internal/shm"

// layout is where a client puts rings and buffers in its region: first all rings it sends to, then all it receives from, then their
// buffers in the same order. Buffers are an odd number of cache lines apart: with a power of two the first lines of all
// packets would share one 32nd of the cache's sets.
type layout struct {
	txRings, rxRings int
	log2             uint8
	bufferSize       uint32
}

func (l layout) stride() uint32       { return (l.bufferSize+63)/64*64 | 64 }
func (l layout) ring(i int) uint64    { return uint64(i) * uint64(shm.RingSize(l.log2)) }
func (l layout) buffers(i int) uint64 { return l.ring(l.txRings+l.rxRings) + uint64(i)*l.ringBuffers() }
func (l layout) ringBuffers() uint64  { return uint64(l.stride()) << l.log2 }
func (l layout) size() uint64         { return l.buffers(l.txRings + l.rxRings) }

// clientMemory is what a client made: tx rings first in ends.
type clientMemory struct {
	layout layout
	region *shm.Region
	table  *shm.Table
	ends   []end
}

func newClientMemory(name string, l layout, huge HugePages) (*clientMemory, error) {
	region, err := shm.CreateRegion(clean(name, nameSize), l.size(), huge)
	if err != nil {
		return nil, err
	}
	m := &clientMemory{layout: l, region: region, table: shm.NewTable([]*shm.Region{region})}
	for i := range l.txRings + l.rxRings {
		// Offsets fit into 32 bits, since the region's size does.
		ring, err := shm.NewRing(m.table, 0, uint32(l.ring(i)), l.log2)
		if err != nil {
			m.close()
			return nil, err
		}
		event, err := shm.NewEvent()
		if err != nil {
			m.close()
			return nil, err
		}
		ring.Initialise()
		e := end{ring: ring, table: m.table, event: event, cursor: cursor{size: ring.Size()}, client: true}
		e.first, e.stride, e.capacity = uint32(l.buffers(i)), l.stride(), l.bufferSize
		if i < l.txRings {
			e.peerBias = ring.Size() // the server gives back what it has taken
		} else {
			e.ownBias = ring.Size() // all buffers are posted from the beginning
		}
		m.ends = append(m.ends, e)
	}
	return m, nil
}

func (m *clientMemory) close() {
	for _, e := range m.ends {
		_ = e.event.Close()
	}
	_ = m.table.Close()
}
