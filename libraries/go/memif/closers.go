package memif

import (
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// The close of a descriptor that a peer has sent takes as long as its owner likes: the last one of a TCP socket waits for its linger time,
// each of a file in user space for its server, and of memory for its pages. So all that a peer has sent and that is refused, or not needed
// any more, and sockets in which messages were left, are closed by goroutines of their own: one for an origin at a time, so that only its own
// closes wait for one that hangs. What waits counts against its origin at once, by descriptors: beyond its share it is turned away, and
// nothing more is taken from its connections.
const (
	mostShare   = 64   // descriptors of one origin before it must not send more
	mostClosers = 256  // goroutines, and so threads, of a listener: each for another origin
	mostOfCrew  = 512  // of all listeners, besides one for each that has none: the runtime ends a process of 10000 threads
	mostLeaving = 8192 // descriptors of all before nobody is accepted
)

// bounds are the share of one origin, how many descriptors may wait of all at a listener, and in the process, or it would be out of
// descriptors first. No listener's peers have more than half of the latter, so that none stops the others.
func bounds() (share, most, ofProcess int) {
	ofProcess = int(min(quarterOfDescriptors(), math.MaxInt))
	most = max(min(ofProcess/2, mostLeaving), 1)
	return max(min(most/8, mostShare), 1), most, ofProcess
}

// heldByAll is what waits in the whole process, of each listener's peers no more than it may have: what one message brings beyond that
// stops its own listener only.
var heldByAll atomic.Int64

// closers is what peers have sent, on its way out.
type closers struct {
	mu       sync.Mutex
	byOrigin map[origin]*account
	queue    []origin // that have something waiting, and nobody at it; the first is next
	held     int      // descriptors, of all
	counted  int      // of these, in heldByAll
	running  int
	beyond   int        // origins beyond their share
	keepOut  func(bool) // if not nil, told when the first one is, and when none is any more
}

type account struct {
	waiting []leaving
	served  bool // somebody is at one of it
	held    int  // descriptors that wait, or that somebody is at
	beyond  bool // its share
}

// hold adds so many descriptors to an account, or takes them off. The lock is held.
func (all *closers) hold(one *account, descriptors int) {
	share, most, _ := bounds()
	one.held += descriptors
	all.held += descriptors
	counted := min(all.held, most)
	heldByAll.Add(int64(counted - all.counted))
	all.counted = counted
	was, crowd := one.beyond, all.beyond
	one.beyond = one.held >= share
	switch {
	case one.beyond && !was:
		all.beyond++
	case was && !one.beyond:
		all.beyond--
	}
	if all.keepOut != nil && (crowd > 0) != (all.beyond > 0) {
		all.keepOut(all.beyond > 0)
	}
}

type leaving struct {
	descriptors int
	close       func()
}

// servers are those that Dial has connected to.
var servers closers

// closing is the part of one origin.
type closing struct {
	all    *closers
	origin origin
}

func (c closing) beyondShare() bool {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	one := c.all.byOrigin[c.origin]
	return one != nil && one.beyond
}

func (all *closers) full() bool {
	_, most, ofProcess := bounds()
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.held >= most || heldByAll.Load() >= int64(ofProcess)
}

// closeFiles has files closed that a peer has sent; one that stands in for several is one.
func (c closing) closeFiles(files []*os.File) {
	open := map[*os.File]struct{}{}
	for _, file := range files {
		open[file] = struct{}{}
	}
	if len(open) > 0 {
		c.close(len(open), func() { closeFiles(files) })
	}
}

// close has it closed, which holds so many descriptors.
func (c closing) close(descriptors int, how func()) {
	all := c.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byOrigin == nil {
		all.byOrigin = map[origin]*account{}
	}
	one := all.byOrigin[c.origin]
	if one == nil {
		one = &account{}
		all.byOrigin[c.origin] = one
	}
	one.waiting = append(one.waiting, leaving{descriptors, how})
	if !one.served && len(one.waiting) == 1 {
		all.queue = append(all.queue, c.origin)
	}
	all.hold(one, descriptors)
	all.employ()
}

// employ has one more goroutine close, if there are fewer than origins, and there may be; gives whether it has. The lock is held.
func (all *closers) employ() bool {
	if len(all.queue) == 0 || all.running >= min(len(all.byOrigin), mostClosers) || !crew.join(all, all.running == 0) {
		return false
	}
	all.running++
	go func() {
		all.run()
		for next := crew.leave(); next != nil; next = crew.next() {
			next.goOn()
		}
	}()
	return true
}

// goOn looks for goroutines where there could be none before.
func (all *closers) goOn() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for all.employ() {
	}
}

// run closes what waits, of the origin first that has waited longest.
func (all *closers) run() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for len(all.queue) > 0 {
		from := all.queue[0]
		all.queue = all.queue[1:]
		one := all.byOrigin[from]
		what := one.waiting[0]
		one.waiting, one.served = one.waiting[1:], true
		all.mu.Unlock()
		what.close()
		all.mu.Lock()
		one.served = false
		all.hold(one, -what.descriptors)
		if len(one.waiting) == 0 {
			delete(all.byOrigin, from)
		} else {
			all.queue = append(all.queue, from)
		}
	}
	all.running--
}

// workforce is the goroutines of all closers of the process.
type workforce struct {
	mu      sync.Mutex
	running int
	short   []*closers // that should have more; the first is next
}

var crew workforce

// join has there be one more, if there may be: who has none gets one in any case. Who gets none is told to go on when there may.
func (w *workforce) join(all *closers, first bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !first && w.running >= mostOfCrew {
		if !slices.Contains(w.short, all) {
			w.short = append(w.short, all)
		}
		return false
	}
	w.running++
	return true
}

// leave has there be one less; gives who may go on.
func (w *workforce) leave() *closers {
	w.mu.Lock()
	w.running--
	w.mu.Unlock()
	return w.next()
}

// next is who may go on, if anybody waits for that.
func (w *workforce) next() *closers {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running >= mostOfCrew || len(w.short) == 0 {
		return nil
	}
	all := w.short[0]
	w.short = slices.Delete(w.short, 0, 1)
	return all
}
