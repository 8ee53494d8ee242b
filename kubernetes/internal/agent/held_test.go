package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"quiver/kubernetes/internal/policy"
	"quiver/kubernetes/internal/realtest"
)

// running has a place's agent run until the test ends.
func (p *place) running(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// heldBack asks for what would have pods reached, and expects that nothing comes of it.
func (p *place) heldBack(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var held *HeldError
	if err := p.Reconcile(ctx); !errors.As(err, &held) {
		t.Errorf("reconciled: %v", err)
	}
	if left := p.pods(t); left != 0 {
		t.Errorf("quiverd has %d objects of pods before those who are guarded are", left)
	}
}

// Whoever else looks at everything must not be faster than who tells quiverd who is guarded.
func TestNobodyIsReachedBeforeQuiverdHasBeenToldWhoIsGuarded(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	request := p.asked(t, "web")
	p.add(t, request)
	again := func() {
		t.Helper()
		p.end()
		if err := os.RemoveAll(filepath.Join(p.directory, "state")); err != nil {
			t.Fatal(err)
		}
		_, p.end = realtest.Start(t, p.directory)
		realtest.Eventually(t, "it is there again", func() bool { return p.quiverd.Wait(t.Context()) == nil })
	}
	again()
	guard := &watchful{restore: make(chan error)}
	p.Guarding(guard)
	p.heldBack(t)
	p.running(t)
	p.heldBack(t)
	// A pod that is asked for again isn't, either.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := p.Add(ctx, request)
	refusal(t, err, codes.Unavailable, "pods are held back")
	p.heldBack(t)
	guard.restore <- nil
	realtest.Eventually(t, "pods are there", func() bool { return p.pods(t) > 0 && p.Ready(t.Context()) == nil })
	// The next one has been told nothing, whatever the one before had.
	again()
	p.heldBack(t)
	guard.restore <- errors.Join(errors.New("the API server is silent"), policy.ErrShut)
	realtest.Eventually(t, "pods are there", func() bool { return p.pods(t) > 0 && p.Ready(t.Context()) == nil })
}

func TestPodsAreHeldBackAsLongAsThoseWhoWereGuardedMayBeOpen(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.add(t, p.asked(t, "web"))
	p.withdraw(t.Context(), p.store.All()[0])
	guard := &watchful{restore: make(chan error, 1)}
	guard.unsafe.Store(true)
	guard.restore <- errors.New("quiverd refuses it")
	// It is tried for longer than one look waits.
	p.patience = 100 * time.Millisecond
	p.Guarding(guard)
	p.running(t)
	realtest.Eventually(t, "it has come back", func() bool { return p.connection.Load() != nil })
	p.heldBack(t)
	if err := p.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("ready: %v", err)
	}
	// Soon after, without anything else that happens.
	guard.unsafe.Store(false)
	began := time.Now()
	realtest.Eventually(t, "pods are there", func() bool { return p.pods(t) > 0 && p.Ready(t.Context()) == nil })
	if waited := time.Since(began); waited > resync/2 {
		t.Errorf("only after %v", waited)
	}
}

// What is told must be what happened.
func TestWhatBecameOfThoseWhoWereGuardedIsTold(t *testing.T) {
	for _, one := range []struct {
		outcome error
		words   string
	}{
		{errors.Join(errors.New("unknown"), policy.ErrShut), "level=INFO msg=\"policies are not in force anew yet: pods that were guarded still are, or let nobody pass"},
		{errors.Join(errors.New("unknown"), &policy.DamagedError{File: "/x", Why: errors.New("y")}), "level=ERROR msg=\"pods are open"},
		{errors.New("no answer"), "level=WARN msg=\"pods are held back"},
	} {
		log := &strings.Builder{}
		guard := &watchful{restore: make(chan error, 1)}
		guard.restore <- one.outcome
		a := &Agent{log: slog.New(slog.NewTextHandler(log, nil)), guard: guard}
		a.restore(t.Context())
		if got := log.String(); !strings.Contains(got, one.words) || strings.Count(got, "\n") != 1 {
			t.Errorf("%v: told %s", one.outcome, got)
		}
	}
}
