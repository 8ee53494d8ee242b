package memif

import (
	"os"
	"strings"
	"testing"
)

// hangOurs has the closes of what this process sends hang from now on.
func (l *Listener) hangOurs(t *testing.T) (goOn func()) {
	t.Helper()
	hang, started := make(chan struct{}), make(chan struct{})
	closing{&l.closers, origin{process: int32(os.Getpid())}}.close(1, func() { close(started); <-hang })
	<-started
	done := false
	goOn = func() {
		if !done {
			close(hang)
		}
		done = true
	}
	t.Cleanup(goOn)
	return goOn
}

// Memory and eventfds can keep a close waiting, too: all that is refused, and what a client leaves, is closed by those who close the rest.
func TestWhatIsRefusedIsClosedAside(t *testing.T) {
	table := readTable(t)
	region, ring := table.message(t, "region"), table.message(t, "ring-to-server")
	otherIndex := (&message{kind: msgAddRegion, index: 7, size: rawRegion}).encode()
	for _, c := range []struct {
		name  string
		steps [][]byte
		files []string // with each
		held  int
	}{
		{"another region", [][]byte{otherIndex}, []string{"memory"}, 1},
		{"two regions at once", [][]byte{region}, []string{"memory memory"}, 2},
		{"no message", [][]byte{{1, 2, 3}}, []string{"memory eventfd"}, 2},
		{"unsealed", [][]byte{region}, []string{"unsealed"}, 1},
		{"sealed for good", [][]byte{region}, []string{"sealed-for-good"}, 1},
		{"unwritable", [][]byte{region}, []string{"unwritable"}, 1},
		{"memory for an event", [][]byte{region, ring}, []string{"memory", "memory"}, 2},
		{"region that isn't needed any more", [][]byte{region, table.message(t, "init")}, []string{"memory", ""}, 1},
		{"ring as well", [][]byte{region, ring, table.message(t, "init")}, []string{"memory", "eventfd", ""}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			defer bystander(t, l)()
			goOn := l.hangOurs(t)
			raw := newRaw(t, l.address, true)
			raw.hear([]string{"hello"})
			raw.send(table.message(t, "init"))
			raw.hear([]string{"ack"})
			for i, step := range c.steps {
				raw.send(step, strings.Fields(c.files[i])...)
				m, _, err := raw.channel.receive(true)
				if err != nil || (m.kind == msgDisconnect) != (i == len(c.steps)-1) {
					t.Fatal(m, err)
				}
			}
			eventually(t, "all wait", func() bool { held, _ := l.closers.state(); return held == 1+c.held })
			goOn()
			eventually(t, "all are closed", func() bool { held, running := l.closers.state(); return held == 0 && running == 0 })
		})
	}
	t.Run("connected", func(t *testing.T) {
		l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		defer bystander(t, l)()
		goOn := l.hangOurs(t)
		raw := newRaw(t, l.address, true)
		raw.connect(table)
		conn, err := l.Accept(within(t))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close() // doesn't wait
		if held, _ := l.closers.state(); held != 2 {
			t.Error(held)
		}
		goOn()
		eventually(t, "all are closed", func() bool { held, _ := l.closers.state(); return held == 0 })
	})
}

// A process that may open few descriptors lets peers have no more than a quarter of them on their way out, and those of one listener half of
// that.
func TestBoundsFollowTheLimitOfTheProcess(t *testing.T) {
	limited := limitDescriptors(t)
	for limit, wanted := range map[uint64][2]int{1 << 16: {64, 8192}, 1 << 13: {64, 1024}, 1024: {16, 128}, 100: {1, 12}} {
		if !limited(limit) {
			continue
		}
		var all closers
		hang := make(chan struct{})
		one := closing{&all, origin{process: 1}}
		for n := range wanted[0] {
			if one.beyondShare() {
				t.Errorf("%d: beyond its share with %d", limit, n)
			}
			one.close(1, func() { <-hang })
		}
		if !one.beyondShare() {
			t.Errorf("%d: may have more", limit)
		}
		closing{&all, origin{process: 2}}.close(wanted[1]-wanted[0]-1, func() { <-hang })
		if all.full() {
			t.Errorf("%d: full", limit)
		}
		closing{&all, origin{process: 2}}.close(1, func() { <-hang })
		if !all.full() {
			t.Errorf("%d: not full", limit)
		}
		// Whatever one message brought beyond that stops nobody else; what all listeners' peers send does.
		closing{&all, origin{process: 2}}.close(wanted[1], func() { <-hang })
		var second, third closers
		if third.full() {
			t.Errorf("%d: full by another's", limit)
		}
		if _, most, ofProcess := bounds(); 2*most == ofProcess {
			closing{&second, origin{process: 3}}.close(most, func() { <-hang })
			if !third.full() {
				t.Errorf("%d: the process has more", limit)
			}
		}
		close(hang)
		for _, one := range []*closers{&all, &second} {
			eventually(t, "all are closed", func() bool { held, running := one.state(); return held == 0 && running == 0 })
		}
		if heldByAll.Load() != 0 {
			t.Errorf("%d: %d are left", limit, heldByAll.Load())
		}
	}
}

// Connections are to begin without files as soon as there is somebody to be refused, and until there is nobody.
func TestFilesAreKeptOutAtOnce(t *testing.T) {
	var told []bool
	all := closers{keepOut: func(out bool) { told = append(told, out) }}
	hang := []chan struct{}{make(chan struct{}), make(chan struct{})}
	share, _, _ := bounds()
	for n, one := range hang {
		from := closing{&all, origin{process: int32(n + 1)}}
		from.close(share-1, func() { <-one })
		from.close(1, func() { <-one })
	}
	all.mu.Lock()
	if len(told) != 1 || !told[0] || all.beyond != 2 {
		t.Error(told, all.beyond)
	}
	all.mu.Unlock()
	for _, one := range hang {
		close(one)
	}
	eventually(t, "all are closed", func() bool { held, running := all.state(); return held == 0 && running == 0 })
	if len(told) != 2 || told[1] || all.beyond != 0 {
		t.Error(told, all.beyond)
	}
}
