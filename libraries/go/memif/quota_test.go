package memif

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestQuotaOfAllClients: what one interface's client has of the socket's bounds another's can't have, until it is given back.
func TestQuotaOfAllClients(t *testing.T) {
	for _, c := range []struct {
		name   string
		config ListenConfig
		cause  Cause
		option string
	}{
		// One region, a ring each way, and what watches those to read from.
		{"descriptors", ListenConfig{MaxDescriptors: 5}, QuotaOfDescriptors, "MaxDescriptors"},
		{"memory", ListenConfig{MaxMemory: 3 << 19}, QuotaOfMemory, "MaxMemory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			refused := make(chan Refusal, 1)
			c.config.Refused = func(who Refusal) { refused <- who }
			l, err := Listen(abstract(), c.config, ServerConfig{}, ServerConfig{ID: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// Somewhat less than 1 MiB of region each.
			config := ClientConfig{RingSize: 512, BufferSize: 960, HugePages: NoHugePages}
			dial := func(id uint32) (*Conn, error) {
				config.ID = id
				return Dial(within(t), l.address, config)
			}
			first, err := dial(0)
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept(within(t))
			if err != nil {
				t.Fatal(err)
			}
			_, err = dial(1)
			if !errors.Is(err, Limit) || !strings.Contains(err.Error(), "id 1") || !strings.Contains(err.Error(), c.option) {
				t.Error("the client is told:", err)
			}
			if got := <-refused; got.ID == nil || *got.ID != 1 || !errors.Is(got.Reason, c.cause) || !strings.Contains(got.Reason.Error(), c.option) {
				t.Error("the server is told:", got)
			}
			if _, err := first.WritePacket(make([]byte, 60)); err != nil {
				t.Error("who was there first:", err)
			}
			if _, err := server.ReadPacket(make([]byte, 60)); err != nil {
				t.Error("who was there first:", err)
			}
			_ = first.Close()
			<-server.Done()
			eventually(t, "all is given back", func() bool {
				return l.quota.taken() == amounts{}
			})
			second, err := dial(1)
			if err != nil {
				t.Fatal(err)
			}
			_ = second.Close()
		})
	}
}

// taken is what is booked.
func (q *quota) taken() amounts {
	ledger.Lock()
	defer ledger.Unlock()
	return q.used
}

// part is a connection's share, for a new interface.
func (q *quota) part() *share { return &share{of: q, by: q.enter()} }

// alone waits until nothing is booked but what the test does.
func alone(t *testing.T) {
	t.Helper()
	eventually(t, "other tests' connections are gone", func() bool {
		ledger.Lock()
		defer ledger.Unlock()
		return ofClients.used == amounts{} && len(ofClients.interfaces) == 0
	})
}

// TestQuotaOfRingsIsGivenBackFirst: regions can wait to be closed, the descriptors of rings don't.
func TestQuotaOfRingsIsGivenBackFirst(t *testing.T) {
	q := newQuota(5, 100)
	defer q.leaveAll()
	one, other := q.part(), q.part()
	if err := errors.Join(one.take(1, 60), one.take(costOfRings(1, 1), 0)); err != nil {
		t.Fatal(err)
	}
	if err := other.take(2, 0); !errors.Is(err, QuotaOfDescriptors) {
		t.Error(err)
	}
	one.closeRings(1, 1)
	if q.taken() != (amounts{1, 60}) {
		t.Error(q.taken())
	}
	if err := other.take(2, 40); err != nil {
		t.Error(err)
	}
	one.close()
	one.close()
	other.close()
	if q.taken() != (amounts{}) {
		t.Error(q.taken())
	}
}

// TestQuotaKeepsShares: half of it is the interfaces', an equal part each, whoever is greedy.
func TestQuotaKeepsShares(t *testing.T) {
	q := newQuota(80, 8000)
	defer q.leaveAll()
	greedy, two, three, four := q.part(), q.part(), q.part(), q.part()
	for greedy.take(1, 100) == nil {
	}
	if greedy.has != (amounts{50, 5000}) {
		t.Error("the greedy one has", greedy.has)
	}
	for _, modest := range []*share{two, three, four} {
		if err := modest.take(10, 1000); err != nil {
			t.Error(err)
		}
		if err := modest.take(1, 0); !errors.Is(err, QuotaOfDescriptors) {
			t.Error(err)
		}
		if err := modest.take(0, 1); !errors.Is(err, QuotaOfMemory) {
			t.Error(err)
		}
	}
	// What is gone isn't kept for; what it has counts.
	q.leave(four.by)
	if err := two.take(1, 0); !errors.Is(err, QuotaOfDescriptors) {
		t.Error(err)
	}
	four.close()
	if err := two.take(7, 667); err != nil {
		t.Error(err)
	}
	for _, one := range []*share{greedy, two, three} {
		one.close()
	}
	if q.taken() != (amounts{}) {
		t.Error(q.taken())
	}
}

// announceRings claims an interface with one region and so many rings to it, and answers whether all were taken. What is refused has hung up.
func (r *rawClient) announceRings(t *table, id uint32, rings int) bool {
	r.tb.Helper()
	r.hear([]string{"hello"})
	init, err := decode(t.message(r.tb, "init"))
	if err != nil {
		r.tb.Fatal(err)
	}
	init.id = id
	r.send(init.encode())
	r.hear([]string{"ack"})
	r.send(t.message(r.tb, "region"), "memory")
	r.hear([]string{"ack"})
	ring, err := decode(t.message(r.tb, "ring-from-server"))
	if err != nil {
		r.tb.Fatal(err)
	}
	for i := range rings {
		ring.index = uint16(i)
		r.send(ring.encode(), "eventfd")
		m, files, err := r.channel.receive(true)
		closeFiles(files)
		if err != nil {
			r.tb.Fatal(err)
		}
		if m.kind == msgDisconnect {
			_ = r.channel.socket.Close()
			return false
		}
	}
	return true
}

// TestGreedyClientKeepsNobodyFromConnecting: while it has all that it may, another interface's client connects, and packets flow.
func TestGreedyClientKeepsNobodyFromConnecting(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{MaxDescriptors: 32}, ServerConfig{MaxTxQueues: 64}, ServerConfig{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	others := l.quota.taken()
	table := readTable(t)
	most := 1
	for ; ; most++ {
		raw := newRaw(t, l.address, true)
		if !raw.announceRings(table, 0, most) {
			break
		}
		_ = raw.channel.socket.Close()
		eventually(t, "the last one's are given back", func() bool { return l.quota.taken() == others })
	}
	eventually(t, "the last one's are given back", func() bool { return l.quota.taken() == others })
	if most--; !newRaw(t, l.address, true).announceRings(table, 0, most) {
		t.Fatal(most, "rings are refused by now")
	}
	client, err := Dial(within(t), l.address, ClientConfig{ID: 1, RingSize: 64, HugePages: NoHugePages})
	if err != nil {
		t.Fatalf("while another has %d rings: %v", most, err)
	}
	defer client.Close()
	server, err := l.Accept(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := client.WritePacket(packetOf(7, 600)); err != nil {
			t.Fatal(err)
		}
		if n, err := server.ReadPacket(make([]byte, 600)); n != 600 || err != nil {
			t.Fatal(n, err)
		}
	}
	if taken := l.quota.taken()[ofDescriptors]; taken != others[ofDescriptors]+uint64(1+most+4) {
		t.Error(taken, "descriptors are counted")
	}
}

// TestQuotaOfWhatIsStillMapped: a connection that can't be made after its last message has its share until its memory is unmapped.
func TestQuotaOfWhatIsStillMapped(t *testing.T) {
	refused := make(chan error, 1)
	// Changed while nobody looks: before there is a listener, and after it has told.
	newEpoll = func(int) (int, error) { return -1, unix.EMFILE }
	l, err := Listen(abstract(), ListenConfig{Refused: func(who Refusal) { refused <- who.Reason }}, ServerConfig{})
	if err != nil {
		newEpoll = unix.EpollCreate1
		t.Fatal(err)
	}
	defer l.Close()
	goOn := l.hangOurs(t)
	_, err = Dial(within(t), l.address, ClientConfig{RxQueues: 1, HugePages: NoHugePages})
	why := <-refused
	newEpoll = unix.EpollCreate1
	if err == nil || !errors.Is(why, unix.EMFILE) {
		t.Fatal(err, why)
	}
	if taken := l.quota.taken(); taken[ofMemory] == 0 {
		t.Error("given back while it is mapped")
	}
	goOn()
	eventually(t, "all is given back", func() bool { return l.quota.taken() == amounts{} })
}

// descriptors is how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// ownProcess says whether the test runs in a process of its own; otherwise it has it run in one, and is over.
func ownProcess(t *testing.T) bool {
	t.Helper()
	const variable = "MEMIF_OWN_PROCESS"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), variable+"="+t.Name())
	if output, err := again.CombinedOutput(); err != nil || !strings.Contains(string(output), "--- PASS: "+t.Name()) {
		t.Errorf("%v: %s", err, output)
	}
	return false
}

// TestCountedIsWhatThereIs: a connection has as many descriptors open as the quota counts, and its sockets.
func TestCountedIsWhatThereIs(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{MaxRxQueues: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	table := readTable(t)
	for _, warm := range []bool{true, false} { // the first one opens what is the process's for good, too
		before := descriptors(t)
		raw := newRaw(t, l.address, true)
		raw.connect(table)
		conn, err := l.Accept(within(t))
		if err != nil {
			t.Fatal(err)
		}
		// A packet each way, so that all is there that packets need.
		raw.write(rawToPeer, [][]string{{"slot", "0", "0", "0", "60", strconv.Itoa(rawBuffers)}, {"head", "1"}})
		if _, err := conn.ReadPacket(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		const clients = 3 // its socket, memory, and event
		const sockets = 1 // ours
		want := before + clients + sockets + int(l.quota.taken()[ofDescriptors])
		if now := descriptors(t); !warm && now != want {
			t.Errorf("%d are open, %d are counted", now, want)
		}
		_ = conn.Close()
		raw.close()
		closed(t, &l.closers, &servers)
		if l.quota.taken() != (amounts{}) {
			t.Error(l.quota.taken())
		}
	}
}
