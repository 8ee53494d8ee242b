// Package keeping is what those have in common who keep quiverd at what the API server has.
package keeping

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	// This often everything is compared, whether or not something is known to have happened.
	resync = 30 * time.Second
	// So long after a failure it is tried again.
	patience = time.Second
	// So long it waits to look again whether all is known.
	soon = 50 * time.Millisecond
)

// ErrUnknown is the outcome as long as the API server hasn't told everything: nothing is taken away, and nobody is let pass.
var ErrUnknown = errors.New("the API server hasn't told all of them yet")

// Loop has something brought to what it shall be: when it changes, when quiverd comes back, after a failure, and now and then.
type Loop struct {
	what  string
	log   *slog.Logger
	again chan struct{}

	mutex   sync.Mutex
	outcome error
}

// New makes a loop that has done nothing yet, for what people call so.
func New(what string, log *slog.Logger) *Loop {
	return &Loop{what: what, log: log, again: make(chan struct{}, 1), outcome: ErrUnknown}
}

// Ready is nil when all was as it shall be when it was last looked at.
func (l *Loop) Ready() error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.outcome
}

// Compare has everything compared soon: quiverd has come back.
func (l *Loop) Compare() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

// Turn calls bring until the context ends: for what has changed, or, with all, for whatever is to do.
func (l *Loop) Turn(ctx context.Context, changed <-chan struct{}, bring func(ctx context.Context, all bool) error) {
	all := true
	regularly := time.NewTicker(resync)
	defer regularly.Stop()
	for ctx.Err() == nil {
		err := bring(ctx, all)
		l.note(ctx, err)
		// What failed may have been done in part.
		var later <-chan time.Time
		if all = err != nil; errors.Is(err, ErrUnknown) {
			later = time.After(soon)
		} else if all {
			later = time.After(patience)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-l.again:
			all = true
		case <-later:
		case <-regularly.C:
			all = true
		}
	}
}

func (l *Loop) note(ctx context.Context, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	// A fault that stays is told once.
	if err != nil && ctx.Err() == nil && (l.outcome == nil || l.outcome.Error() != err.Error()) && !errors.Is(err, ErrUnknown) {
		l.log.Error("not all "+l.what+" are as they shall be; trying again", "why", err)
	} else if err == nil && l.outcome != nil {
		l.log.Info(l.what + " are as they shall be")
	}
	l.outcome = err
}
