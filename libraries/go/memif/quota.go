package memif

import (
	"math"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What a quota is of.
const (
	ofDescriptors = iota
	ofMemory
	resources
)

// amounts of each.
type amounts [resources]uint64

// quota bounds what clients, all together, can have us keep open and mapped: those of a listener, within those of the process. What one
// has of it, others can't have; so half of it is kept in equal shares for the interfaces: beyond its own one has what is kept for nobody.
type quota struct {
	within     *quota // nil for the process's
	most       amounts
	used       amounts
	interfaces map[*holding]struct{} // that have a share
}

// holding is what clients of one interface have.
type holding struct{ amounts }

// ledger is the lock of all quotas: they are asked in handshakes only.
var ledger sync.Mutex

// ofClients is the quota of all listeners' clients; how much it is follows the limits of the process.
var ofClients = quota{interfaces: map[*holding]struct{}{}}

// newQuota is a listener's.
func newQuota(descriptors int, memory uint64) *quota {
	most := amounts{min(uint64(descriptors), forClients()[ofDescriptors]), memory}
	return &quota{within: &ofClients, most: most, interfaces: map[*holding]struct{}{}}
}

// quarterOfDescriptors is what all listeners' clients may have, and another what peers have sent and is on its way out: half of what the
// process may open at present is its own, for whatever else it does.
func quarterOfDescriptors() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return max(limit.Cur/4, 1)
}

// halfOfMappings is how many regions there may be: each is one.
var halfOfMappings = sync.OnceValue(func() uint64 {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		return math.MaxUint64
	}
	most, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return math.MaxUint64
	}
	return max(most/2, 1)
})

// halfOfAddresses is of the 47 bits that a process has on x86-64.
const halfOfAddresses = 1 << 46

// forClients is what all listeners' clients may have of the process.
func forClients() amounts {
	return amounts{min(quarterOfDescriptors(), halfOfMappings()), halfOfAddresses}
}

// enter keeps a share for one more interface.
func (q *quota) enter() *holding {
	ledger.Lock()
	defer ledger.Unlock()
	one := &holding{}
	for ; q != nil; q = q.within {
		q.interfaces[one] = struct{}{}
	}
	return one
}

// leave keeps nothing for an interface any more. What its client still has counts until it is closed.
func (q *quota) leave(one *holding) {
	ledger.Lock()
	defer ledger.Unlock()
	for ; q != nil; q = q.within {
		delete(q.interfaces, one)
	}
}

// leaveAll does so for all of a listener's.
func (q *quota) leaveAll() {
	ledger.Lock()
	defer ledger.Unlock()
	for one := range q.interfaces {
		delete(q.within.interfaces, one)
	}
	clear(q.interfaces)
}

// left is how much of one resource an interface may have in addition.
func (q *quota) left(which int, one *holding) uint64 {
	most := q.most[which]
	if q.within == nil {
		most = forClients()[which]
	}
	free := most - min(most, q.used[which])
	share := most / 2 / max(uint64(len(q.interfaces)), 1)
	kept := uint64(0)
	for other := range q.interfaces {
		if other != one {
			kept += share - min(share, other.amounts[which])
		}
	}
	return max(free-min(free, kept), min(free, share-min(share, one.amounts[which])))
}

// share is what one connection has of a quota, for its interface; a nil one may have what it likes.
type share struct {
	of  *quota
	by  *holding // of the interface
	has amounts
}

// take adds descriptors, and the memory behind them.
func (s *share) take(descriptors int, memory uint64) error {
	if s == nil {
		return nil
	}
	ledger.Lock()
	defer ledger.Unlock()
	more := amounts{uint64(descriptors), memory}
	for q := s.of; q != nil; q = q.within {
		if left := q.left(ofDescriptors, s.by); more[ofDescriptors] > left {
			if q.within == nil {
				return detail(QuotaOfDescriptors, "%d are left (RLIMIT_NOFILE, vm.max_map_count)", left)
			}
			return detail(QuotaOfDescriptors, "MaxDescriptors is %d, %d left", q.most[ofDescriptors], left)
		}
		if left := q.left(ofMemory, s.by); more[ofMemory] > left {
			if q.within == nil {
				return detail(QuotaOfMemory, "%d bytes of addresses are left", left)
			}
			return detail(QuotaOfMemory, "MaxMemory is %d, %d left", q.most[ofMemory], left)
		}
	}
	s.add(more)
	return nil
}

// add books what is taken. The lock is held.
func (s *share) add(more amounts) {
	for which, much := range more {
		s.has[which] += much
		s.by.amounts[which] += much
		for q := s.of; q != nil; q = q.within {
			q.used[which] += much
		}
	}
}

// giveBack books what isn't needed any more. The lock is held.
func (s *share) giveBack(less amounts) {
	for which, much := range less {
		s.has[which] -= much
		s.by.amounts[which] -= much
		for q := s.of; q != nil; q = q.within {
			q.used[which] -= much
		}
	}
}

// costOfRings is how many descriptors a connection's rings keep open: an eventfd each, and an epoll instance for all those to receive from.
func costOfRings(rx, tx int) int {
	if rx > 0 {
		return rx + 1 + tx
	}
	return tx
}

// closeRings gives back what so many rings had, whose descriptors are closed: what regions have can take time.
func (s *share) closeRings(rx, tx int) {
	if s == nil {
		return
	}
	ledger.Lock()
	defer ledger.Unlock()
	s.giveBack(amounts{ofDescriptors: uint64(costOfRings(rx, tx))})
}

// another is one more of the same interface, without anything yet.
func (s *share) another() *share {
	if s == nil {
		return nil
	}
	return &share{of: s.of, by: s.by}
}

// join takes over what another has.
func (s *share) join(other *share) {
	if s == nil {
		return
	}
	ledger.Lock()
	defer ledger.Unlock()
	for which, much := range other.has {
		s.has[which] += much
	}
	other.has = amounts{}
}

// close gives all of it back; what is closed already has nothing.
func (s *share) close() {
	if s == nil || s.by == nil { // nobody's yet
		return
	}
	ledger.Lock()
	defer ledger.Unlock()
	s.giveBack(s.has)
}
