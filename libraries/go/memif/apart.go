package memif

import (
	"context"
	"sync"
)

// To seal the file of a region, and to look for holes in it, waits for the lock of its inode, which whoever has the file may hold: for tens
// of milliseconds a GiB who frees its pages, for as long as he likes who writes to it from memory that is itself slow to come. Nothing ends
// that wait, and it keeps a thread. So it is done by goroutines of their own, and waited for no longer than the handshake may take: then the
// region is left to its goroutine, which closes it whenever it comes back.
const (
	mostOfOrigin = 4    // goroutines, and so threads, for one origin: as many as are left with hanging ones keep it out
	mostApart    = 1024 // of all origins: the runtime ends a process of 10000 threads
)

// apart is what is done so. The process has one: threads are the process's.
type apart struct {
	mu       sync.Mutex
	byOrigin map[origin]*places
	all      places
	changed  chan struct{} // closed and replaced when places may be free, or will not be
}

// places are how many goroutines there are, and how many of these nobody waits for any more.
type places struct{ taken, left int }

var mappings = apart{byOrigin: map[origin]*places{}, changed: make(chan struct{})}

// crowded says whether one that came now would wait for nothing but what hangs.
func (a *apart) crowded(from origin) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isCrowded(from)
}

// isCrowded is that, with the lock held.
func (a *apart) isCrowded(from origin) bool {
	one := a.byOrigin[from]
	return a.all.left >= mostApart || one != nil && one.left >= mostOfOrigin
}

// do has something done for an origin, and waits for that as long as the context says. What isn't done by then, or isn't begun because too
// much hangs, is an error. Begun, it is left to its goroutine, which does afterwards as well once it is done.
func (a *apart) do(ctx context.Context, from origin, what, afterwards func()) (begun bool, err error) {
	if err := a.enter(ctx, from); err != nil {
		return false, err
	}
	done, left := make(chan struct{}), false // of the lock
	go func() {
		what()
		a.mu.Lock()
		abandoned := left
		close(done)
		if !abandoned {
			a.count(from, places{taken: -1})
		}
		a.mu.Unlock()
		if abandoned {
			afterwards()
			a.mu.Lock()
			a.count(from, places{-1, -1})
			a.mu.Unlock()
		}
	}()
	select {
	case <-done:
		return true, nil
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-done: // just so
		return true, nil
	default:
	}
	left = true
	a.count(from, places{left: 1})
	return true, context.Cause(ctx)
}

// enter waits for a place.
func (a *apart) enter(ctx context.Context, from origin) error {
	for {
		a.mu.Lock()
		one := a.byOrigin[from]
		if a.isCrowded(from) {
			a.mu.Unlock()
			return HangingRegions
		}
		if a.all.taken < mostApart && (one == nil || one.taken < mostOfOrigin) {
			a.count(from, places{taken: 1})
			a.mu.Unlock()
			return nil
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// count adds to an origin's places. The lock is held.
func (a *apart) count(from origin, more places) {
	one := a.byOrigin[from]
	if one == nil {
		one = &places{}
		a.byOrigin[from] = one
	}
	for _, counted := range []*places{one, &a.all} {
		counted.taken += more.taken
		counted.left += more.left
	}
	if *one == (places{}) {
		delete(a.byOrigin, from)
	}
	close(a.changed)
	a.changed = make(chan struct{})
}
