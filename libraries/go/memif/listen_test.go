package memif

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// claimed is a listener, and a client that has claimed its interface and goes on later.
func claimed(t *testing.T) (*Listener, *rawClient) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	raw := newRaw(t, l.address, true)
	raw.hear([]string{"hello"})
	raw.send(readTable(t).message(t, "init"))
	raw.hear([]string{"ack"})
	return l, raw
}

// nobodyComes wants nothing to have come of the handshake that has an interface, once that is over.
func nobodyComes(t *testing.T, l *Listener, one *served) {
	t.Helper()
	eventually(t, "its handshake is over", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !one.taken || one.conn != nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.conn != nil || len(l.ready) != 0 || len(l.arrived) != 0 || len(l.places) != 0 {
		t.Error(one.conn, l.ready, len(l.arrived), len(l.places))
	}
}

// interfaceOf is the one of this id.
func (l *Listener) interfaceOf(id uint32) *served {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interfaces[id]
}

// An interface that is taken down, or away, is so for a handshake that is under way, too.
func TestTakenDownDuringAHandshake(t *testing.T) {
	l, raw := claimed(t)
	if err := l.AdminDown(0, "for lunch"); err != nil {
		t.Fatal(err)
	}
	raw.hear([]string{"refused", "administratively-down:-for-lunch"})
	nobodyComes(t, l, l.interfaceOf(0))
	if _, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages}); err == nil {
		t.Error("up while it is down")
	}
	if err := l.AdminUp(0); err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := l.Accept(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestUnregisteredDuringAHandshake(t *testing.T) {
	l, raw := claimed(t)
	one := l.interfaceOf(0)
	if err := l.Unregister(0); err != nil {
		t.Fatal(err)
	}
	raw.hear([]string{"refused", "interface-deleted"})
	nobodyComes(t, l, one)
}

// What Accept gives is ready: nothing of the handshake comes after it that could ask for no signals while a reader sleeps.
func TestAcceptedIsReady(t *testing.T) {
	table := readTable(t)
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	unready := 0
	for range 200 {
		raw := newRaw(t, l.address, true) // its flags are 0
		accepted := make(chan bool, 1)
		go func() {
			conn, err := l.Accept(t.Context())
			accepted <- err == nil && raw.memory[rawToPeer+4]&1 != 0
			if err == nil {
				_ = conn.Close()
			}
		}()
		raw.connect(table)
		if !<-accepted {
			unready++
		}
		for {
			if _, _, err := raw.channel.receive(false); err != nil {
				if !errors.Is(err, PeerClosed) {
					t.Log(err)
				}
				break
			}
		}
		_ = raw.channel.socket.Close()
	}
	if unready > 0 {
		t.Errorf("%d of 200 were not", unready)
	}
}

// Clients that have claimed interfaces and say nothing more keep nobody else out, however many there are, and whenever the interfaces came.
func TestClaimedHandshakesTakeNoPlaces(t *testing.T) {
	const most, interfaces = 2, 20
	l, err := Listen(abstract(), ListenConfig{MaxHandshakes: most, Timeout: 2 * patience}, ServerConfig{ID: interfaces})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	for id := range uint32(interfaces) {
		if err := l.Register(ServerConfig{ID: id}); err != nil {
			t.Fatal(err)
		}
		raw := newRaw(t, l.address, true)
		raw.hear([]string{"hello"})
		raw.send((&message{kind: msgInit, version: version, id: id}).encode())
		raw.hear([]string{"ack"})
	}
	if len(l.places) > most {
		t.Errorf("%d of %d places are taken", len(l.places), cap(l.places))
	}
	join(t, l, ClientConfig{ID: interfaces, RingSize: 64, BufferSize: 64})
	// Each that is given up leaves as many places as there were.
	for id := range uint32(interfaces) {
		if err := l.Unregister(id); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the places are free", func() bool { return len(l.origins()) == 0 && len(l.places) == 0 })
}

// unread is how much the server hasn't received of what was sent.
func (r *rawClient) unread(t *testing.T) (bytes int) {
	t.Helper()
	err := r.channel.control(func(fd int) { bytes, _ = unix.IoctlGetInt(fd, unix.TIOCOUTQ) })
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// A handshake that waits for an interface whose connection is about to end gives up when it is ended, and leaves its place.
func TestHandshakeThatWaitsIsEnded(t *testing.T) {
	for _, c := range []struct {
		name, words string
		timeout     time.Duration
		end         func(*testing.T, *Listener)
		places      int // that are taken then
	}{
		{"crowded", string(TooManyHandshakes), time.Hour, func(t *testing.T, l *Listener) {
			another, hello := greeted(t, l.address)
			t.Cleanup(func() { _ = another.socket.Close() })
			if hello.kind != msgHello {
				t.Error(hello)
			}
		}, 1},
		{"closed", "server closed", time.Hour, func(_ *testing.T, l *Listener) { go l.Close() }, 0},
		{"out of time", string(HandshakeTimeout), 5 * time.Second, func(*testing.T, *Listener) {}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(abstract(), ListenConfig{MaxHandshakes: 1, Timeout: c.timeout}, ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			server, client := join(t, l, ClientConfig{RingSize: 64})
			// It ends, and can't give its interface back as yet.
			server.rx[0].mu.Lock()
			defer server.rx[0].mu.Unlock()
			_ = client.Close()
			<-server.Done()
			raw := newRaw(t, l.address, true)
			raw.hear([]string{"hello"})
			raw.send(readTable(t).message(t, "init"))
			eventually(t, "its message is taken", func() bool { return raw.unread(t) == 0 })
			c.end(t, l)
			raw.hear([]string{"refused", c.words})
			eventually(t, "its place is free", func() bool { return len(l.places) == c.places })
		})
	}
}
