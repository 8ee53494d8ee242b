package memif

import (
	"slices"
	"sync"
	"testing"
)

func (all *closers) state() (held, running int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.held, all.running
}

// closed waits until nothing is left of what these had to close.
func closed(t *testing.T, all ...*closers) {
	t.Helper()
	for _, one := range all {
		eventually(t, "all are closed", func() bool { held, running := one.state(); return held == 0 && running == 0 })
		if len(one.byOrigin) != 0 || len(one.queue) != 0 {
			t.Error(one.byOrigin, one.queue)
		}
	}
}

// However many origins' closes hang: what others send is closed, by no more goroutines than there are origins.
func TestEachOriginIsClosedByItself(t *testing.T) {
	var all closers
	hang := make(chan struct{})
	const bad = 200
	for n := range int32(bad) {
		for range 3 {
			closing{&all, origin{process: n + 1}}.close(1, func() { <-hang })
		}
	}
	for range 100 {
		done := make(chan struct{})
		closing{&all, origin{}}.close(1, func() { close(done) })
		<-done
	}
	if _, running := all.state(); running > bad+1 {
		t.Error(running, "goroutines")
	}
	// Beyond the most there are, others wait.
	for n := range int32(mostClosers) {
		closing{&all, origin{hidden: uint64(n) + 1}}.close(1, func() { <-hang })
	}
	if _, running := all.state(); running != mostClosers {
		t.Error(running, "goroutines")
	}
	close(hang)
	closed(t, &all)
}

// What more origins leave than there may be goroutines is closed in the order in which it came, as soon as one is let go.
func TestOriginsThatWaitAreInOrder(t *testing.T) {
	var all closers
	hang, one, begun := make(chan struct{}), make(chan struct{}), make(chan struct{})
	for n := range int32(mostClosers) {
		until := hang
		if n == 0 {
			until = one
		}
		closing{&all, origin{process: n + 1}}.close(1, func() { begun <- struct{}{}; <-until })
	}
	for range mostClosers {
		<-begun
	}
	var order []uint64
	var done sync.WaitGroup
	const late = 100
	for round := range uint64(2) {
		for n := range uint64(late) {
			done.Add(1)
			closing{&all, origin{hidden: n + 1}}.close(1, func() { order = append(order, round*late+n); done.Done() })
		}
	}
	close(one)
	done.Wait()
	if len(order) != 2*late || !slices.IsSorted(order) {
		t.Error(order)
	}
	close(hang)
	closed(t, &all)
}

// However many listeners there are: the process has a bound of its own, and each listener one goroutine in any case. Once some are let go, who
// wanted more has them.
func TestClosersOfAllListeners(t *testing.T) {
	idle := func() bool {
		crew.mu.Lock()
		defer crew.mu.Unlock()
		return crew.running == 0 && len(crew.short) == 0
	}
	eventually(t, "others are done", idle)
	var all [5]closers
	var hang [len(all)]chan struct{}
	for i := range all {
		hang[i] = make(chan struct{})
		for n := range int32(mostClosers + 10) {
			closing{&all[i], origin{process: n + 1}}.close(1, func() { <-hang[i] })
		}
	}
	has := func() (running [len(all)]int, sum int) {
		for i := range all {
			_, running[i] = all[i].state()
			sum += running[i]
		}
		return running, sum
	}
	if now, _ := has(); now != [...]int{mostClosers, mostClosers, 1, 1, 1} {
		t.Error(now)
	}
	for i := range 2 {
		close(hang[i])
		closed(t, &all[i])
		eventually(t, "others have as many more", func() bool { _, sum := has(); return sum == mostOfCrew })
	}
	close(hang[2])
	closed(t, &all[2])
	eventually(t, "these have all that they may", func() bool {
		now, _ := has()
		return now == [...]int{0, 0, 0, mostClosers, mostClosers}
	})
	close(hang[3])
	close(hang[4])
	closed(t, &all[3], &all[4])
	eventually(t, "nobody closes any more, or should", idle)
}
