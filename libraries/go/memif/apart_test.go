package memif

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newApart() *apart { return &apart{byOrigin: map[origin]*places{}, changed: make(chan struct{})} }

// is wants so many places, of how many origins.
func (a *apart) is(t *testing.T, all places, origins int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all != all || len(a.byOrigin) != origins {
		t.Errorf("%+v of %d origins, expected %+v of %d", a.all, len(a.byOrigin), all, origins)
	}
}

// Who comes while others are at it waits for a place; who comes when what is there was given up does not. Another origin notices neither.
func TestPlacesApart(t *testing.T) {
	a, one, other := newApart(), origin{process: 1}, origin{process: 2}
	hang := make(chan struct{})
	ctx, giveUp := context.WithCancelCause(context.Background())
	var abandoned sync.WaitGroup
	var afterwards atomic.Int32
	for range mostOfOrigin {
		abandoned.Go(func() {
			begun, err := a.do(ctx, one, func() { <-hang }, func() { afterwards.Add(1) })
			if !begun || !errors.Is(err, HandshakeTimeout) {
				t.Error(begun, err)
			}
		})
	}
	eventually(t, "all are at it", func() bool { return a.state().taken == mostOfOrigin })
	late, cancel := context.WithTimeoutCause(context.Background(), 10*time.Millisecond, AdminDown)
	defer cancel()
	never := func() { t.Error("done") }
	if begun, err := a.do(late, one, never, never); begun || !errors.Is(err, AdminDown) || a.crowded(one) {
		t.Error(begun, err)
	}
	if begun, err := a.do(within(t), other, func() {}, never); !begun || err != nil {
		t.Error(begun, err)
	}
	// One waits for a place, and won't get it.
	waits := make(chan error)
	go func() {
		_, err := a.do(within(t), one, never, never)
		waits <- err
	}()
	giveUp(HandshakeTimeout)
	abandoned.Wait()
	if err := <-waits; !errors.Is(err, HangingRegions) {
		t.Error(err)
	}
	if !a.crowded(one) || a.crowded(other) {
		t.Error("crowded:", a.crowded(one), a.crowded(other))
	}
	a.is(t, places{mostOfOrigin, mostOfOrigin}, 1)
	close(hang)
	eventually(t, "all are back", func() bool { return a.state() == places{} })
	if n := afterwards.Load(); n != mostOfOrigin {
		t.Error(n)
	}
	a.is(t, places{}, 0)
}

// However near what is done and the end of who waits for it are: exactly one of them has it.
func TestApartOneOfBothHasIt(t *testing.T) {
	a := newApart()
	var mine, theirs atomic.Int32
	const rounds = 2000
	var all sync.WaitGroup
	for n := range 2 * mostOfOrigin {
		all.Go(func() {
			for range rounds / (2 * mostOfOrigin) {
				length := func() time.Duration { return time.Duration(rand.IntN(100)) * time.Microsecond }
				ctx, cancel := context.WithTimeout(context.Background(), length()+50*time.Microsecond)
				what := func() { time.Sleep(length()) }
				begun, err := a.do(ctx, origin{process: int32(n % 2)}, what, func() { theirs.Add(1) })
				if err == nil || !begun {
					mine.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	eventually(t, "all are back", func() bool { return a.state() == places{} })
	a.is(t, places{}, 0)
	if mine.Load()+theirs.Load() != rounds {
		t.Error(mine.Load(), theirs.Load())
	}
	t.Logf("%d of %d were left", theirs.Load(), rounds)
}

// Beyond all places nobody begins, whoever it is for.
func TestAllPlacesApart(t *testing.T) {
	a, hang := newApart(), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for n := range mostApart {
		if begun, err := a.do(ctx, origin{process: int32(n)}, func() { <-hang }, func() {}); !begun || !errors.Is(err, context.Canceled) {
			t.Fatal(n, begun, err)
		}
	}
	if begun, err := a.do(within(t), origin{hidden: 1}, func() {}, func() {}); begun || !errors.Is(err, HangingRegions) {
		t.Error(begun, err)
	}
	close(hang)
	eventually(t, "all are back", func() bool { return a.state() == places{} })
	a.is(t, places{}, 0)
}
