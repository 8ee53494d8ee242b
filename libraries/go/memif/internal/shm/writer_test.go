package shm

import (
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// without gives an event whose process has no asynchronous I/O, and its connection's writer.
func without(t *testing.T) (*Event, *Writer) {
	t.Helper()
	event, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	event.signals = &signaller{}
	writer := &Writer{}
	event.SignalBy(writer)
	return event, writer
}

// atWork is how many goroutines there are of writers: of connections, and of such that have ended.
func atWork() (running, held int) {
	writers.mu.Lock()
	defer writers.mu.Unlock()
	return writers.running, len(writers.held)
}

func nobodyWrites() bool {
	running, held := atWork()
	return running == 0 && held == 0
}

// full fills the counter of an event and has writes wait, for as long as the test runs; gives the peer's descriptor.
func full(t *testing.T, event *Event) (peer int, stop func()) {
	t.Helper()
	peer, err := unix.Dup(event.fd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(peer, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stopping:
				return
			default:
				_ = unix.SetNonblock(peer, false)
			}
		}
	}()
	return peer, func() { close(stopping); <-stopped; _ = unix.Close(peer) }
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
	event, writer := without(t)
	for range 3 {
		event.Signal()
		eventually(t, "a signal", event.Clear)
	}
	if err := event.Close(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	writer.Close()
	eventually(t, "the end of the writer", nobodyWrites)
}

// The peer shares the file description: it fills the counter and has every write wait.
func TestNobodyWaitsForAPeerThatHasWritesWait(t *testing.T) {
	event, writer := without(t)
	_, stop := full(t, event)
	done := make(chan error)
	go func() {
		for range 200_000 {
			event.Signal()
		}
		err := event.Close()
		writer.Close()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("signalling or closing waits for the peer")
	}
	stop()
	// Nobody reads any more: the counter was taken back.
	eventually(t, "the end of the writer", nobodyWrites)
}

// waiting has a writer wait for its peer.
func waiting(t *testing.T, event *Event, writer *Writer) {
	t.Helper()
	eventually(t, "a write that waits", func() bool {
		event.Signal()
		time.Sleep(20 * time.Millisecond)
		writer.mu.Lock()
		defer writer.mu.Unlock()
		return writer.at == event && event.due
	})
}

// All queues of a connection have one writer: a peer that has it wait has no more threads of ours than that.
func TestAConnectionHasOneWriter(t *testing.T) {
	first, writer := without(t)
	_, stop := full(t, first)
	defer stop()
	events := []*Event{first}
	waiting(t, first, writer)
	for range 20 {
		other, _ := without(t)
		other.SignalBy(writer)
		other.Signal()
		events = append(events, other)
	}
	if running, held := atWork(); running != 1 || held != 0 {
		t.Error(running, "goroutines of the connection,", held, "of ended ones")
	}
	for _, event := range events {
		if err := event.Close(); err != nil {
			t.Error(err)
		}
	}
	writer.Close()
	eventually(t, "the end of the writer", nobodyWrites)
}

func TestWritersAreBounded(t *testing.T) {
	for _, c := range []struct {
		what    string
		running int
		held    int
	}{{"connections", mostWriters, 0}, {"ended connections", 0, mostHeld}} {
		t.Run(c.what, func(t *testing.T) {
			writers.mu.Lock()
			writers.running, writers.held = c.running, map[*Writer]struct{}{}
			for range c.held {
				writers.held[&Writer{}] = struct{}{}
			}
			writers.mu.Unlock()
			event, writer := without(t)
			event.Signal()
			if running, held := atWork(); running != c.running || held != c.held || writer.wake != nil || event.Clear() {
				t.Error("one more writer")
			}
			writers.mu.Lock()
			writers.running, writers.held = 0, nil
			writers.mu.Unlock()
			event.Signal()
			if running, _ := atWork(); running != 0 {
				t.Error("asked for again with each signal")
			}
			writer.refused = time.Time{}
			event.Signal()
			eventually(t, "a signal once there is a place", event.Clear)
			_ = event.Close()
			writer.Close()
			eventually(t, "the end of the writer", nobodyWrites)
		})
	}
}

// What rings cost doesn't grow with what peers announce: no descriptor, and no context of the host's fs.aio-max-nr, for each.
func TestEventsShareTheMeansToSignal(t *testing.T) {
	one, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	one.Signal()
	before := descriptors(t)
	events := make([]*Event, 50)
	for i := range events {
		if events[i], err = NewEvent(); err != nil {
			t.Fatal(err)
		}
		events[i].Signal()
		if !events[i].Clear() {
			t.Error("no signal")
		}
	}
	if now := descriptors(t); now != before+len(events) {
		t.Error(len(events), "events cost", now-before, "descriptors")
	}
	for _, event := range events {
		if event.signals != one.signals {
			t.Error("a context of its own")
		}
		_ = event.Close()
	}
	if now := descriptors(t); now != before {
		t.Error(now, "descriptors, before there were", before)
	}
}

// Many at once fill the context that they share: none of their signals is lost.
func TestSignalsOfManyAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for range 16 {
		event, err := NewEvent()
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer event.Close()
			for range 2000 {
				if event.Signal(); !event.Clear() {
					t.Error("no signal")
					return
				}
			}
		})
	}
	all.Wait()
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
