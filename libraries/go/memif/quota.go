package memif

import (
	"math"
	"sync"

	"golang.org/x/sys/unix"
)

// quota bounds what the clients of a listener, all together, can have us keep open and mapped: what one has of it, others can't have, but
// what other listeners of the process need is left.
type quota struct {
	mu              sync.Mutex
	descriptors     int
	memory          uint64
	mostDescriptors int
	mostMemory      uint64
}

// newQuota is one of these bounds; never more than half of the descriptors that the process may have.
func newQuota(descriptors int, memory uint64) *quota {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		descriptors = int(min(uint64(descriptors), max(limit.Cur/2, 1)))
	}
	return &quota{mostDescriptors: descriptors, mostMemory: memory}
}

// share is what one connection has of a quota; a nil one may have what it likes.
type share struct {
	of          *quota
	descriptors int
	memory      uint64
}

// take adds a descriptor, and the memory behind it.
func (s *share) take(memory uint64) error {
	if s == nil {
		return nil
	}
	q := s.of
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.descriptors >= q.mostDescriptors:
		return detail(QuotaOfDescriptors, "MaxDescriptors is %d", q.mostDescriptors)
	case memory > math.MaxUint64-q.memory || q.memory+memory > q.mostMemory:
		return detail(QuotaOfMemory, "MaxMemory is %d, %d + %d bytes", q.mostMemory, q.memory, memory)
	}
	q.descriptors, q.memory = q.descriptors+1, q.memory+memory
	s.descriptors, s.memory = s.descriptors+1, s.memory+memory
	return nil
}

// closeRings gives back what so many rings had, whose descriptors are closed: what regions have can take time.
func (s *share) closeRings(rings int) {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.descriptors, s.descriptors = s.of.descriptors-rings, s.descriptors-rings
}

// close gives all of it back; what is closed already has nothing.
func (s *share) close() {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.descriptors, s.of.memory = s.of.descriptors-s.descriptors, s.of.memory-s.memory
	s.descriptors, s.memory = 0, 0
}
