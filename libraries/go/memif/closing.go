package memif

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The close of a descriptor that a peer has sent takes as long as its owner likes: the last one of a TCP socket waits for its linger time,
// each of a file in user space for its server. So what is neither memory nor an eventfd, and sockets in which messages were left, are
// closed by goroutines of their own: one for an origin at a time, so that only its own closes wait for one that hangs. What waits counts
// against its origin at once, by descriptors: beyond its share it is turned away, and nothing more is taken from its connections.
const (
	share       = 64   // descriptors of one origin before it must not send more
	mostClosers = 256  // goroutines, and so threads, of a listener: each for another origin
	mostLeaving = 8192 // descriptors of all before nobody is accepted
)

// origin is who answers for what a connection leaves behind: a process namespace other than ours, a process, or the server at an address.
type origin struct {
	address           string
	device, namespace uint64
	peer              Credentials
}

// closers is what peers have sent, on its way out.
type closers struct {
	mu       sync.Mutex
	byOrigin map[origin]*account
	held     int // descriptors, of all
	running  int
}

type account struct {
	waiting []leaving
	served  bool // somebody is at one of it
	held    int  // descriptors that wait, or that somebody is at
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
	return one != nil && one.held >= share
}

// anyBeyondShare says whether there is an origin that is.
func (all *closers) anyBeyondShare() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, one := range all.byOrigin {
		if one.held >= share {
			return true
		}
	}
	return false
}

func (all *closers) full() bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.held >= mostLeaving
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
	one.held += descriptors
	all.held += descriptors
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
		one.held -= what.descriptors
		all.held -= what.descriptors
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
	if peer.PID != 0 && unix.Stat("/proc/self/ns/pid", &ours) == nil &&
		unix.Stat("/proc/"+strconv.Itoa(int(peer.PID))+"/ns/pid", &theirs) == nil && !hasEnded(ctl) &&
		(ours.Dev != theirs.Dev || ours.Ino != theirs.Ino) {
		return origin{device: theirs.Dev, namespace: theirs.Ino}
	}
	return origin{peer: *peer}
}

// harmless gives the files of these descriptors; instead of each that is neither memory (which alone has seals) nor an eventfd a duplicate
// of standIn, that is refused for the same reason: a thing of a peer is not even asked what it is.
func harmless(fds []int, standIn int, closing closing) ([]*os.File, error) {
	var files []*os.File
	var foreign []int
	var failed error
	for _, fd := range fds {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err != nil && !isEventfd(fd) {
			foreign = append(foreign, fd)
			if fd, err = unix.FcntlInt(uintptr(standIn), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				failed = err
				continue
			}
		}
		files = append(files, os.NewFile(uintptr(fd), "memif-peer"))
	}
	if len(foreign) > 0 {
		closing.close(len(foreign), func() {
			for _, fd := range foreign {
				closeForeign(fd)
			}
		})
	}
	if failed != nil {
		closeFiles(files)
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
