package memif

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// limitDescriptors says how many this process may open, until the test is over; false where it may not have so many.
func limitDescriptors(t *testing.T) func(uint64) bool {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	set := func(limit unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { set(before) })
	return func(most uint64) bool {
		if most <= before.Max {
			set(unix.Rlimit{Cur: most, Max: before.Max})
		}
		return most <= before.Max
	}
}

// TestQuotaIsNoMoreThanThereAre: a quarter of what the process may open, whatever was asked for, and half of what it may map.
func TestQuotaIsNoMoreThanThereAre(t *testing.T) {
	limitDescriptors(t)(1000)
	if q := newQuota(8192, 1); q.most[ofDescriptors] != 250 {
		t.Error(q.most)
	}
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err != nil {
		t.Fatal(err)
	}
	if most := strings.TrimSpace(string(text)); most != "65530" {
		t.Log("vm.max_map_count is", most)
	} else if halfOfMappings() != 32765 {
		t.Error(halfOfMappings())
	}
	if _, err := Listen(abstract(), ListenConfig{MaxDescriptors: -1}); !errors.Is(err, BadSetting) {
		t.Error(err)
	}
}

// TestQuotaOfTheProcess: all listeners' clients together have no more than a quarter of the descriptors, whatever each may have, and the
// clients of none can keep those of another from connecting.
func TestQuotaOfTheProcess(t *testing.T) {
	alone(t)
	limitDescriptors(t)(800)
	var parts []*share
	for range 4 {
		q := newQuota(8192, 1<<30)
		defer q.leaveAll()
		parts = append(parts, q.part())
	}
	for parts[0].take(1, 0) == nil {
	}
	if parts[0].has[ofDescriptors] != 125 {
		t.Error("the greedy one has", parts[0].has)
	}
	for _, part := range parts[1:] {
		if err := part.take(25, 0); err != nil {
			t.Error(err)
		}
		if err := part.take(1, 0); !errors.Is(err, QuotaOfDescriptors) || !strings.Contains(err.Error(), "RLIMIT_NOFILE") {
			t.Error(err)
		}
	}
	for _, part := range parts {
		part.close()
	}
	if ofClients.taken() != (amounts{}) {
		t.Error(ofClients.taken())
	}
}

// TestQuotaOfMappings: each region is a mapping, and no more of those are made than the process may have, however many descriptors it may.
func TestQuotaOfMappings(t *testing.T) {
	alone(t)
	few := func(of func() uint64) {
		ledger.Lock()
		defer ledger.Unlock()
		halfOfMappings = of
	}
	before := halfOfMappings
	few(func() uint64 { return 6 })
	defer few(before)
	refused := make(chan error, 1)
	l, err := Listen(abstract(), ListenConfig{Refused: func(who Refusal) { refused <- who.Reason }}, ServerConfig{}, ServerConfig{ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// One region, a ring each way, and what watches one.
	first, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Dial(within(t), l.address, ClientConfig{ID: 1, HugePages: NoHugePages})
	if !errors.Is(err, Limit) {
		t.Error("the client is told:", err)
	}
	if err := <-refused; !errors.Is(err, QuotaOfDescriptors) {
		t.Error("the server is told:", err)
	}
	_ = first.Close()
	eventually(t, "all is given back", func() bool { return l.quota.taken() == amounts{} })
	second, err := Dial(within(t), l.address, ClientConfig{ID: 1, HugePages: NoHugePages})
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
}

// TestHalfOfTheDescriptorsIsOurs: whatever clients have open and whatever of theirs can't be closed, others connect at another listener, and
// the program opens what it likes.
func TestHalfOfTheDescriptorsIsOurs(t *testing.T) {
	alone(t)
	const limit = 1024
	limitDescriptors(t)(limit)
	calm, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer calm.Close()
	defer bystander(t, calm)()
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{}, ServerConfig{ID: 1}, ServerConfig{ID: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	table := readTable(t)
	// As many rings as there may be of one interface, until there are no more.
	for id := range uint32(2) {
		ledger.Lock()
		left := min(ofClients.left(ofDescriptors, l.interfaces[id].holding), l.quota.left(ofDescriptors, l.interfaces[id].holding))
		ledger.Unlock()
		if rings := min(int(left)-1, 256); !newRaw(t, l.address, true).announceRings(table, id, rings) {
			t.Fatal(id, rings)
		}
	}
	// And files that can't be closed, as many as a message holds, until no more are taken.
	for refused := false; !refused; {
		ctl, m := greeted(t, l.address)
		if refused = m.kind == msgDisconnect; !refused {
			init, err := decode(table.message(t, "init"))
			if err != nil {
				t.Fatal(err)
			}
			init.id = 2
			_, _, err = ctl.socket.WriteMsgUnix(init.encode(), nil, nil)
			_, _, acked := ctl.receive(false)
			if err := errors.Join(err, acked); err != nil {
				t.Fatal(err)
			}
			defer hand(t, &l.closers, ctl.socket, table.message(t, "region"), filesSpace).Close()
			eventually(t, "they wait", func() bool { held, _ := l.closers.state(); return held >= filesSpace })
		}
		_ = ctl.socket.Close()
	}
	var ours []*os.File
	defer func() { closeFiles(ours) }()
	for range limit/2 - 150 { // the rest of a half is what the test has
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatalf("after %d files: %v", len(ours), err)
		}
		ours = append(ours, file)
	}
	calm2, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer calm2.Close()
	conn, err := Dial(within(t), calm2.address, ClientConfig{RingSize: 64, HugePages: NoHugePages})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
