package memif

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The close of a descriptor that a peer has sent takes as long as its owner likes: the last one of a TCP socket waits for its linger time,
// each of a file in user space for its server, and of memory for its pages. So all that a peer has sent and that is refused, or not needed
// any more, and sockets in which messages were left, are closed by goroutines of their own: one for an origin at a time, so that only its own
// closes wait for one that hangs. What waits counts against its origin at once, by descriptors: beyond its share it is turned away, and
// nothing more is taken from its connections.
const (
	mostShare   = 64   // descriptors of one origin before it must not send more
	mostClosers = 256  // goroutines, and so threads, of a listener: each for another origin
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

// origin is who answers for what a connection leaves behind: one of its fields says who, none of them is nobody in particular. By nothing
// that a process can have several of at will, such as user ids.
type origin struct {
	address           string // the server there
	device, namespace uint64 // a process namespace other than ours
	process           int32  // of our namespace, or of one that we may not look at
	hidden            uint64 // a process of a namespace that ours doesn't see into, by what else tells it from others
	// All whose process has ended: nobody can tell any more where it was. Whoever has it connect by a process that ends shares with all
	// others who do.
	ended bool
}

// closers is what peers have sent, on its way out.
type closers struct {
	mu       sync.Mutex
	byOrigin map[origin]*account
	held     int // descriptors, of all
	counted  int // of these, in heldByAll
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
	all.hold(one, descriptors)
	if all.running < min(len(all.byOrigin), mostClosers) {
		all.running++
		go all.run()
	}
}

// run closes what waits, of origins that nobody else is at.
func (all *closers) run() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for from, one := all.next(); one != nil; from, one = all.next() {
		what := one.waiting[0]
		one.waiting, one.served = one.waiting[1:], true
		all.mu.Unlock()
		what.close()
		all.mu.Lock()
		one.served = false
		all.hold(one, -what.descriptors)
		if len(one.waiting) == 0 {
			delete(all.byOrigin, from)
		}
	}
	all.running--
}

// next is one that nobody is at.
func (all *closers) next() (origin, *account) {
	for from, one := range all.byOrigin {
		if !one.served {
			return from, one
		}
	}
	return origin{}, nil
}

// originOf asks the kernel whose a connection is.
func originOf(ctl channel, peer *Credentials) (from origin) {
	if peer == nil {
		return from
	}
	var ours, theirs unix.Stat_t
	place := "/proc/" + strconv.Itoa(int(peer.PID))
	seen := peer.PID != 0 && unix.Stat("/proc/self/ns/pid", &ours) == nil
	looked := seen && unix.Stat(place+"/ns/pid", &theirs) == nil
	// Only now: as long as it hasn't ended, the number is its own.
	number, ended := peerProcess(ctl)
	switch {
	case ended, seen && !looked && unix.Stat(place, &theirs) == unix.ENOENT:
		return origin{ended: true}
	case looked && (ours.Dev != theirs.Dev || ours.Ino != theirs.Ino):
		return origin{device: theirs.Dev, namespace: theirs.Ino}
	case peer.PID != 0:
		return origin{process: peer.PID}
	}
	return origin{hidden: max(number, 1)}
}

// harmless gives the files of these descriptors; instead of each that is neither memory (which alone has seals) nor an eventfd a duplicate
// of standIn, that is refused for the same reason: a thing of a peer is not even asked what it is. It is one for all of them: whoever sends
// many mustn't have us open as many again.
func harmless(fds []int, standIn int, closing closing) ([]*os.File, error) {
	var files []*os.File
	var foreign []int
	var instead *os.File
	var failed error
	for _, fd := range fds {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err == nil || isEventfd(fd) {
			files = append(files, os.NewFile(uintptr(fd), "memif-peer"))
			continue
		}
		foreign = append(foreign, fd)
		if instead == nil && failed == nil {
			var own int
			if own, failed = unix.FcntlInt(uintptr(standIn), unix.F_DUPFD_CLOEXEC, 0); failed == nil {
				instead = os.NewFile(uintptr(own), "memif-stand-in")
			}
		}
		if instead != nil {
			files = append(files, instead)
		}
	}
	if len(foreign) > 0 {
		closing.close(len(foreign), func() {
			for _, fd := range foreign {
				closeForeign(fd)
			}
		})
	}
	if failed != nil {
		closing.closeFiles(files)
		return nil, failed
	}
	return files, nil
}

// isEventfd says so. The kernel tells what a descriptor is by its link's name only.
func isEventfd(fd int) bool {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err == nil && name == "anon_inode:[eventfd]"
}

// closeForeign closes what a peer has sent. A socket is told not to linger.
func closeForeign(fd int) {
	// Fails where it is no socket.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	_ = unix.Close(fd)
}

// allowFiles says whether files can be sent to a socket, and to connections that begin from now on. Without effect before Linux 6.16.
func allowFiles(socket int, whether bool) {
	value := 0
	if whether {
		value = 1
	}
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, value)
}

// mayHaveFiles says whether files may have been sent to a socket.
func mayHaveFiles(socket int) bool {
	value, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
	return err != nil || value != 0
}

// acceptPause is how long nobody is accepted after that failed.
const acceptPause = 100 * time.Millisecond
