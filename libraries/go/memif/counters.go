package memif

import "sync/atomic"

// Counters are what went by a queue since the link came up. Each is right for itself: while packets go by, they needn't be of one moment.
type Counters struct {
	Packets uint64 // received or sent
	Bytes   uint64 // of these packets
	Full    uint64 // packets that found no room in the ring, to send by: again each time they are offered
	Signals uint64 // taken, to receive from, or given, to send by. Several that come before they are taken count as one
}

// tally is added to once a call, by who has the queue's lock.
type tally struct{ packets, bytes, full, signals atomic.Uint64 }

func (t *tally) add(packets, bytes, full uint64) {
	t.packets.Add(packets)
	t.bytes.Add(bytes)
	if full > 0 {
		t.full.Add(full)
	}
}

func (t *tally) read() Counters {
	return Counters{t.packets.Load(), t.bytes.Load(), t.full.Load(), t.signals.Load()}
}
