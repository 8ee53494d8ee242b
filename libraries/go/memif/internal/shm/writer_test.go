package shm

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// without gives an event whose process has no asynchronous I/O.
func without(t *testing.T) *Event {
	t.Helper()
	event, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	event.signals = &signaller{empty: -1}
	return event
}

// eventually waits for what has to happen.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 2000 {
		if happened() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s: not within ten seconds", what)
}

func TestSignalsArriveWithoutAsynchronousIO(t *testing.T) {
	event := without(t)
	for range 3 {
		event.Signal()
		eventually(t, "a signal", event.Clear)
	}
	if err := event.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the writer", func() bool { return held.Load() == 0 })
}

// The peer shares the file description: it fills the counter and has every write wait.
func TestNobodyWaitsForAPeerThatHasWritesWait(t *testing.T) {
	event := without(t)
	peer, err := unix.Dup(event.fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(peer)
	full := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if _, err := unix.Write(peer, full); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.SetNonblock(peer, false)
			}
		}
	}()
	done := make(chan error)
	go func() {
		for range 200_000 {
			event.Signal()
		}
		done <- event.Close()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("signalling or closing waits for the peer")
	}
	close(stop)
	<-stopped
	// Whoever waits is let go as soon as the peer reads.
	eventually(t, "the end of the writer", func() bool {
		_, _ = unix.Preadv2(peer, [][]byte{make([]byte, 8)}, -1, unix.RWF_NOWAIT)
		return held.Load() == 0
	})
}

func TestWritersThatWaitAreBounded(t *testing.T) {
	held.Store(mostHeld)
	defer held.Store(0)
	event := without(t)
	event.Signal()
	if event.writer != nil || event.Clear() {
		t.Error("one more writer")
	}
	if err := event.Close(); err != nil {
		t.Error(err)
	}
}
