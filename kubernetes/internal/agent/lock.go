package agent

import "context"

// lock is a mutex for which whoever has little time may wait no longer than a context lasts.
type lock chan struct{}

func newLock() lock { return make(lock, 1) }

// Lock waits for as long as it takes.
func (l lock) Lock() { l <- struct{}{} }

// LockUntil waits until the context ends, of which it returns the error then.
func (l lock) LockUntil(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TryLock doesn't wait.
func (l lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock lets others have it.
func (l lock) Unlock() { <-l }
