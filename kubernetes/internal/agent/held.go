package agent

import (
	"context"
	"errors"
	"fmt"
)

// connection is one to a quiverd, as long as it lasts.
type connection struct{ context.Context }

// HeldError is that nothing is done that lets pods be reached, since those who were guarded may not be.
type HeldError struct{ Why error }

func (e *HeldError) Error() string {
	return fmt.Sprintf("pods are held back, those that policies are for may not be guarded (%v): see that quiverd runs on this node, and the agent's log", e.Why)
}

func (e *HeldError) Unwrap() error { return e.Why }

var errNotRestored = errors.New("quiverd isn't there, or hasn't been told yet who is guarded")

// admitted is a context that ends with the connection to a quiverd in which those who were guarded are, or let nobody pass: only in it may be
// done what lets pods be reached. A quiverd that comes back meanwhile may know nothing.
func (a *Agent) admitted(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if a.guard == nil {
		return ctx, func() {}, nil
	}
	// First the connection: what is safe may be so for the one before.
	here := a.connection.Load()
	if here == nil {
		return nil, nil, &HeldError{errNotRestored}
	}
	if err := a.guard.Safe(); err != nil {
		return nil, nil, &HeldError{err}
	}
	if here.Err() != nil {
		return nil, nil, &HeldError{errNotRestored}
	}
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(here, func() { cancel(&HeldError{errNotRestored}) })
	return both, func() { stop(); cancel(nil) }, nil
}

// waitAdmitted waits until that is so, but not for long.
func (a *Agent) waitAdmitted(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	for {
		_, release, err := a.admitted(ctx)
		if err == nil {
			release()
			return
		}
		if !pause(ctx, soon) {
			return
		}
	}
}
