package memif

import (
	"context"
	"math"
	"sync"
	"time"
)

// handshake is one that is under way. Whoever ends it lets the goroutine that goes through it close its socket: what a peer has put
// into it can keep a close waiting.
type handshake struct {
	channel channel
	peer    *Credentials
	ctx     context.Context // ends when it is out of time, or ended
	cancel  context.CancelCauseFunc
	claimed bool // an interface
	settled bool // its outcome stands
	ended   error
}

// end has the goroutine give up, for this reason.
func (h *handshake) end(reason error) {
	if h.ended == nil && !h.settled {
		h.ended = reason
		h.cancel(reason)
		_ = h.channel.socket.SetDeadline(time.Unix(1, 0))
	}
}

// handshakes are those of a listener, by number; the oldest has the lowest.
type handshakes struct {
	mu   sync.Mutex
	list map[uint64]*handshake
	last uint64
}

// admit enters one more; where most are under way, one that is in the way is ended.
func (all *handshakes) admit(one *handshake, most int) uint64 {
	all.mu.Lock()
	defer all.mu.Unlock()
	if number, crowded := all.inTheWay(most); crowded {
		all.list[number].end(TooManyHandshakes)
		delete(all.list, number)
	}
	all.last++
	all.list[all.last] = one
	return all.last
}

// inTheWay is the oldest of the origin that has most of them, so that nobody but who connects too often is the loser. Those that have
// claimed an interface don't count.
func (all *handshakes) inTheWay(most int) (number uint64, crowded bool) {
	type crowd struct {
		size   int
		oldest uint64
	}
	var crowds map[origin]crowd
	total := 0
	if len(all.list) >= most {
		crowds = map[origin]crowd{}
	}
	for number, one := range all.list {
		if crowds == nil || one.claimed {
			continue
		}
		from := one.channel.closing.origin
		c, ok := crowds[from]
		if !ok {
			c.oldest = math.MaxUint64
		}
		crowds[from] = crowd{c.size + 1, min(c.oldest, number)}
		total++
	}
	if total < most {
		return 0, false
	}
	var largest crowd
	for _, c := range crowds {
		if c.size > largest.size || c.size == largest.size && c.oldest < largest.oldest {
			largest = c
		}
	}
	return largest.oldest, true
}

// settle takes one out that is done; gives why it was ended, if somebody has.
func (all *handshakes) settle(number uint64, one *handshake) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.list, number)
	one.settled = true
	return one.ended
}

func (all *handshakes) claims(one *handshake) {
	all.mu.Lock()
	defer all.mu.Unlock()
	one.claimed = true
}

// end ends one of them.
func (all *handshakes) end(one *handshake, reason error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	one.end(reason)
}

// endAll ends all of them.
func (all *handshakes) endAll(reason error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, one := range all.list {
		one.end(reason)
	}
}
