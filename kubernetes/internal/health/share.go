package health

import (
	"context"
	"errors"
	"sync"
	"time"
)

// So long an answer stands for whoever asks next: many who ask often cost no more than one who does.
const fresh = time.Second

// errSlow is what those are told who can't wait for the answer any longer: something hangs.
var errSlow = errors.New("whether the node forwards can't be told yet: something takes long")

// Share gives a way to ask something that many may take at once, and often: it is asked once for all who ask meanwhile, or within a second after it was answered.
// Who asks waits no longer than their own context.
func Share(ask func(context.Context) error) func(context.Context) error {
	shared := &shared{ask: ask}
	return shared.outcome
}

type shared struct {
	ask func(context.Context) error

	mutex sync.Mutex
	// Closed when what is asked now is answered; nil: nothing is asked.
	asking chan struct{}
	// The last answer, and since when it stands.
	last error
	at   time.Time
}

func (s *shared) outcome(ctx context.Context) error {
	s.mutex.Lock()
	if s.asking == nil && !s.at.IsZero() && time.Since(s.at) < fresh {
		defer s.mutex.Unlock()
		return s.last
	}
	if s.asking == nil {
		s.asking = make(chan struct{})
		go s.once(s.asking)
	}
	asking := s.asking
	s.mutex.Unlock()
	select {
	case <-ctx.Done():
		return errSlow
	case <-asking:
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.last
}

// once asks for all who wait, not for one of them, who may leave.
func (s *shared) once(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	err := s.ask(ctx)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.last, s.at, s.asking = err, time.Now(), nil
	close(done)
}
