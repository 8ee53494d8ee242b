package memif

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// events collects what is told of a link.
func events() (chan LinkEvent, func(LinkEvent)) {
	all := make(chan LinkEvent, 1000)
	return all, func(event LinkEvent) { all <- event }
}

// expect waits for an event of a kind, over others, and gives it.
func expect(t *testing.T, all chan LinkEvent, kind LinkKind) LinkEvent {
	t.Helper()
	limit := time.After(20 * time.Second)
	var others []string
	for {
		select {
		case event := <-all:
			if event.Kind == kind {
				return event
			}
			others = append(others, event.String())
		case <-limit:
			t.Fatalf("no event %d, but %s", kind, slices.Compact(others))
		}
	}
}

// What the administrator of one side does is an event on his, with his words; and on the other, as the reason.
func TestALinkThatIsTakenDownStaysDown(t *testing.T) {
	address := abstract()
	ours, tellUs := events()
	theirs, tellThem := events()
	client, err := OpenClient(address, ClientConfig{HugePages: NoHugePages}, tellThem)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	event := expect(t, theirs, LinkUnreachable)
	if e := new(Error); !errors.As(event.Reason, &e) || e.Interface != address+" id 0" || !errors.Is(e, Unreachable) {
		t.Error(event.Reason)
	}
	server, err := OpenServer(address, ListenConfig{}, ServerConfig{}, tellUs)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	expect(t, ours, LinkUp)
	expect(t, theirs, LinkUp)

	words := "administratively down: for lunch"
	server.AdminDown("for lunch")
	for _, event := range []LinkEvent{expect(t, ours, LinkAdminDown), expect(t, theirs, LinkDown), expect(t, theirs, LinkRefused)} {
		peer := new(PeerError)
		if !errors.Is(event.Reason, AdminDown) && !(errors.As(event.Reason, &peer) && peer.Text == words) || !strings.Contains(event.Reason.Error(), words) {
			t.Errorf("%d: %v", event.Kind, event.Reason)
		}
	}
	if event := expect(t, ours, LinkRefused); !errors.Is(event.Reason, AdminDown) {
		t.Error(event.Reason)
	}
	server.AdminUp()
	expect(t, ours, LinkUp)
	expect(t, theirs, LinkUp)

	client.AdminDown("")
	if event := expect(t, theirs, LinkAdminDown); event.String() != "link down: memif: use "+address+" id 0: administratively down" {
		t.Error(event)
	}
	if event := expect(t, ours, LinkDown); !strings.Contains(event.Reason.Error(), "by the peer: administratively down (code 0)") {
		t.Error(event.Reason)
	}
	// It is not tried meanwhile.
	select {
	case event := <-ours:
		t.Error(event)
	case <-time.After(3 * minBackoff):
	}
	client.AdminUp()
	expect(t, ours, LinkUp)
	expect(t, theirs, LinkUp)
	_ = client.Close()
	expect(t, ours, LinkDown)
}

// Events come one at a time, also where one makes the next.
func TestEventsComeOneAtATime(t *testing.T) {
	var telling, together, told atomic.Int32
	var port *Port
	opened := make(chan struct{})
	port, err := OpenClient(abstract(), ClientConfig{}, func(event LinkEvent) {
		<-opened
		if telling.Add(1) > 1 {
			together.Add(1)
		}
		time.Sleep(100 * time.Microsecond)
		if told.Add(1) == 1 {
			port.AdminUp()
			port.AdminDown("from within")
		}
		telling.Add(-1)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	close(opened)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				port.AdminDown("")
				port.AdminUp()
			}
		})
	}
	all.Wait()
	// The oldest are forgotten where too many wait.
	for started := time.Now(); told.Load() < newsLimit; time.Sleep(time.Millisecond) {
		if time.Since(started) > patience {
			t.Fatalf("%d events", told.Load())
		}
	}
	if together.Load() > 0 {
		t.Errorf("%d came while another was told", together.Load())
	}
}

func TestAdministratorsWordsAreCutBetweenLetters(t *testing.T) {
	a := strings.Repeat("a", 62)
	for words, wanted := range map[string]string{a + "é!": a, a + "bc": a + "b", "für alle": "für alle"} {
		if got := adminWords(words).Error(); got != "administratively down: "+wanted {
			t.Errorf("%q: %q", words, got)
		}
	}
}

// Where nobody hears what is told the newest are kept.
func TestEventsThatWaitAreBounded(t *testing.T) {
	first, all := make(chan struct{}), make(chan LinkEvent, 1000)
	told := make(chan struct{}, 1)
	n := news{link: func(event LinkEvent) {
		select {
		case told <- struct{}{}:
		default:
		}
		<-first
		all <- event
	}}
	go n.tell(LinkEvent{Kind: 0})
	<-told
	for kind := LinkKind(1); kind <= 500; kind++ {
		n.tell(LinkEvent{Kind: kind})
	}
	n.mu.Lock()
	if len(n.waiting) != newsLimit || cap(n.waiting) > 2*newsLimit {
		t.Errorf("%d wait, with room for %d", len(n.waiting), cap(n.waiting))
	}
	n.mu.Unlock()
	close(first)
	if event := <-all; event.Kind != 0 {
		t.Error(event)
	}
	for kind := LinkKind(500 - newsLimit + 1); kind <= 500; kind++ {
		if event := <-all; event.Kind != kind {
			t.Fatalf("%d instead of %d", event.Kind, kind)
		}
	}
}

// A server that says CONNECTED and leaves: the client makes no memory for it as fast as it can.
func TestAServerThatLeavesAtOnceIsTriedEverLessOften(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	started := time.Now()
	all, tell := events()
	client, err := OpenClient(l.address, ClientConfig{HugePages: NoHugePages}, tell)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	waited := time.Duration(0)
	for wait := minBackoff; wait < maxBackoff; wait *= 2 {
		conn, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		expect(t, all, LinkUp)
		if elapsed := time.Since(started); elapsed < waited {
			t.Fatalf("after %v, should have waited for %v", elapsed, waited)
		}
		_ = conn.Close()
		expect(t, all, LinkDown)
		waited += wait
	}
}

// TestHelperLeavingClient is the client of TestAProgramThatEndsAfterCloseHasSaidSo: another process.
func TestHelperLeavingClient(t *testing.T) {
	address := os.Getenv("MEMIF_LEAVING_CLIENT")
	if address == "" {
		t.Skip("not a test of its own")
	}
	client, err := OpenClient(address, ClientConfig{RingSize: 64, HugePages: NoHugePages}, nil)
	if err == nil {
		_, err = client.ReadBatch(within(t), NewBatch(1)) // accepted, by then
	}
	if err == nil {
		err = client.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	os.Exit(0)
}

// Who closes a port, and ends right afterwards, has told the peer.
func TestAProgramThatEndsAfterCloseHasSaidSo(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	leaves := func(leave func()) {
		t.Helper()
		left := make(chan struct{})
		go func() { defer close(left); leave() }()
		conn, err := l.Accept(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.WritePacket(packetOf(1, 60)); err != nil {
			t.Fatal(err)
		}
		<-conn.Done()
		if peer := new(PeerError); !errors.As(conn.Err(), &peer) || peer.Text != "client closed" {
			t.Fatal(conn.Err())
		}
		<-left
	}
	for range 100 {
		leaves(func() {
			process := exec.Command(os.Args[0], "-test.run=^TestHelperLeavingClient$")
			process.Env = append(os.Environ(), "MEMIF_LEAVING_CLIENT="+l.address, "GORACE=atexit_sleep_ms=0")
			if said, err := process.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		})
	}
	// Also who is told of the link may close it.
	leaves(func() {
		var client *Port
		opened, closed := make(chan struct{}), make(chan time.Duration, 1)
		client, err := OpenClient(l.address, ClientConfig{HugePages: NoHugePages}, func(event LinkEvent) {
			<-opened
			if event.Kind == LinkUp {
				_, err := client.ReadBatch(t.Context(), NewBatch(1))
				started := time.Now()
				if err = errors.Join(err, client.Close()); err != nil {
					t.Error(err)
				}
				closed <- time.Since(started)
			}
		})
		if err != nil {
			t.Error(err)
			return
		}
		close(opened)
		if after := <-closed; after >= closeTime {
			t.Errorf("it took %v", after)
		}
	})
}

// Connections that nobody accepts, and that end, aren't kept.
func TestConnectionsThatNobodyTakesAreForgotten(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 20 {
		raw := newRaw(t, l.address, true)
		raw.connect(readTable(t))
		_ = raw.channel.socket.Close()
		for started := time.Now(); ; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			taken, ready := l.interfaces[0].taken, len(l.ready)
			l.mu.Unlock()
			if ready > 1 {
				t.Fatalf("%d wait to be accepted", ready)
			}
			if !taken {
				break
			}
			if time.Since(started) > patience {
				t.Fatal("it doesn't end")
			}
		}
	}
}
