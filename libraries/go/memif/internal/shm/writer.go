package shm

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Goroutines of writers, each of which a peer can have keep a thread: a process of Go's ends with 10000 of them.
const (
	mostWriters = 1024 // of connections
	mostHeld    = 64   // of such that have ended
	retryAfter  = time.Second
)

// writers are those of the process.
var writers struct {
	mu      sync.Mutex
	running int
	held    map[*Writer]struct{} // of ended connections, at an event that a peer may have filled
}

// Writer signals the eventfds of one connection by write, where the kernel can't: from a goroutine of its own, which alone waits if the
// peer has it wait. One is enough for all of a connection's queues: whom it keeps waiting is the peer itself. Its goroutine begins with the
// first signal.
type Writer struct {
	mu      sync.Mutex
	wake    chan struct{} // nil until the goroutine runs
	refused time.Time     // when there could be none
	due     []*Event
	at      *Event
	ended   bool
}

// signal never waits: one signal that is still to be given stands for all. Where there can be no goroutine, nothing is signalled: a peer
// that sleeps with a time limit, as it should, is late.
func (w *Writer) signal(event *Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if event.due || w.ended || !w.start() {
		return
	}
	event.due = true
	w.due = append(w.due, event)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// start says whether there is a goroutine. The lock is held.
func (w *Writer) start() bool {
	if w.wake != nil {
		return true
	}
	now := time.Now()
	if now.Sub(w.refused) < retryAfter { // not with each packet
		return false
	}
	if !enter() {
		w.refused = now
		return false
	}
	w.wake = make(chan struct{}, 1)
	go w.run()
	return true
}

func (w *Writer) run() {
	for range w.wake {
		for event := w.next(); event != nil; event = w.next() {
			// A full counter means that it has been signalled often enough. The peer may take the flag back between the two calls.
			if err := unix.SetNonblock(event.fd, true); err == nil {
				_, _ = unix.Write(event.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
			}
		}
	}
	writers.mu.Lock()
	defer writers.mu.Unlock()
	if _, held := writers.held[w]; held {
		delete(writers.held, w)
	} else {
		writers.running--
	}
}

// next is done with one event and takes another.
func (w *Writer) next() *Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at != nil && w.at.closed {
		_ = w.at.file.Close()
	}
	w.at = nil
	if len(w.due) > 0 {
		w.at, w.due = w.due[0], w.due[1:]
		w.at.due = false
	}
	return w.at
}

// leave forgets an event that is to be closed. Says whether the writer closes it, because it is at it.
func (w *Writer) leave(event *Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = slices.DeleteFunc(w.due, func(one *Event) bool { return one == event })
	event.closed = true
	return w.at == event
}

// Close lets the goroutine go, when all events have been closed.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.ended = true
	if w.wake == nil {
		return
	}
	close(w.wake)
	if w.at != nil {
		hold(w)
		_ = w.at.Clear() // lets it go, unless the peer fills the counter again
	}
}

// enter takes the place of one more goroutine, if there is one.
func enter() bool {
	writers.mu.Lock()
	held := slices.Collect(maps.Keys(writers.held))
	writers.mu.Unlock()
	for _, one := range held { // without the lock, which they take while they hold their own
		one.letGo()
	}
	writers.mu.Lock()
	defer writers.mu.Unlock()
	if writers.running >= mostWriters || len(writers.held) >= mostHeld {
		return false
	}
	writers.running++
	return true
}

// hold counts one whose connection has ended, and which isn't done.
func hold(w *Writer) {
	writers.mu.Lock()
	defer writers.mu.Unlock()
	if writers.held == nil {
		writers.held = map[*Writer]struct{}{}
	}
	writers.held[w] = struct{}{}
	writers.running--
}

// letGo takes back what may keep an ended one waiting.
func (w *Writer) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at != nil {
		w.at.Clear()
	}
}
