package health

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestWhoAsksAtOnceSharesOneAnswer(t *testing.T) {
	var asked atomic.Int64
	goesOn, fault := make(chan struct{}), errors.New("quiverd doesn't answer")
	ready := Share(func(context.Context) error {
		asked.Add(1)
		<-goesOn
		return fault
	})
	// Who can't wait is told so, and leaves the others waiting.
	brief, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := ready(brief); !errors.Is(err, errSlow) {
		t.Errorf("told %v", err)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if err := ready(t.Context()); !errors.Is(err, fault) {
				t.Errorf("told %v", err)
			}
		})
	}
	close(goesOn)
	all.Wait()
	if number := asked.Load(); number > 2 {
		t.Errorf("asked %d times", number)
	}
	// What was said doesn't stand for long.
	before := asked.Load()
	for asked.Load() == before {
		if err := ready(t.Context()); !errors.Is(err, fault) {
			t.Fatalf("told %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
