package agent

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"quiver/kubernetes/internal/address"
	"quiver/kubernetes/internal/annotation"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/dial"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/realtest"
)

// sessions counts those that quiverd has with an address.
func (p *place) sessions(t *testing.T, address string) (count int) {
	t.Helper()
	connection, err := dial.Unix("quiverd", realtest.Socket(p.directory))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	stream, err := quiver.NewQuiverClient(connection).Sessions(t.Context(), &quiver.SessionsRequest{Filter: &quiver.SessionFilter{Address: address}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		count += len(part.Sessions)
	}
}

func TestSessionsOfPodsThatWentWhileTheAgentWasAwayEndWhenItIsBack(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.guarded(&watchful{})
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests := map[string]*agentv1.AddRequest{}
	for _, name := range []string{"a", "b", "c", "d"} {
		requests[name] = p.asked(t, name)
		p.add(t, requests[name])
	}
	// From a, at .2, to b and c, and from c to d.
	for _, one := range [][2]string{{"a", "10.9.0.3"}, {"a", "10.9.0.4"}, {"c", "10.9.0.5"}} {
		nstest.IP(t, "netns", "exec", filepath.Base(requests[one[0]].Netns), "ping", "-c", "1", "-W", "10", one[1])
	}
	count := func() (all [4]int) {
		for i, address := range []string{"10.9.0.2", "10.9.0.3", "10.9.0.4", "10.9.0.5"} {
			all[i] = p.sessions(t, address)
		}
		return all
	}
	if got := count(); got != [4]int{2, 1, 2, 1} {
		t.Fatalf("sessions: %v", got)
	}
	// Word was left of one.
	if err := p.settings.Farewells.Leave(idOf(requests["b"].Attachment)); err != nil {
		t.Fatal(err)
	}
	p.begin(t, "10.9.0.0/24")
	p.guarded(&watchful{})
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != [4]int{1, 0, 2, 1} {
		t.Errorf("sessions: %v", got)
	}
	// The agent was killed after it had forgotten another one, before quiverd had heard of it.
	if err := p.store.Delete(idOf(requests["a"].Attachment)); err != nil {
		t.Fatal(err)
	}
	p.begin(t, "10.9.0.0/24")
	p.guarded(&watchful{})
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != [4]int{0, 0, 1, 1} {
		t.Errorf("sessions: %v", got)
	}
	// Quiverd didn't answer in time, and lives on.
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Del(late, &agentv1.DelRequest{Attachment: requests["d"].Attachment}); err != nil {
		t.Fatal(err)
	}
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != [4]int{} || len(p.left) != 0 {
		t.Errorf("sessions: %v; left: %v", got, p.left)
	}
}

func TestNobodyGetsSessionsOfWhoHadHisAddressBefore(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.guarded(&watchful{})
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	requests := map[string]*agentv1.AddRequest{}
	for _, name := range []string{"a", "b", "c"} {
		requests[name] = p.asked(t, name)
		p.add(t, requests[name])
	}
	for _, one := range [][2]string{{"a", "10.9.0.3"}, {"c", "10.9.0.3"}} {
		nstest.IP(t, "netns", "exec", filepath.Base(requests[one[0]].Netns), "ping", "-c", "1", "-W", "10", one[1])
	}
	// The agent was killed after it had taken one's objects away, before it ended the sessions: of that one, only disk and the runtime's word tell.
	record := p.store.Get(idOf(requests["a"].Attachment))
	if err := p.quiverd.Apply(t.Context(), p.tenant(record), dataplane.Refs(dataplane.Objects(record))); err != nil {
		t.Fatal(err)
	}
	if err := p.settings.Farewells.Leave(record.ID); err != nil {
		t.Fatal(err)
	}
	if got := p.sessions(t, "10.9.0.2"); got != 1 {
		t.Fatalf("%d sessions", got)
	}
	p.begin(t, "10.9.0.0/24")
	p.guarded(&watchful{})
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.sessions(t, "10.9.0.2"); got != 0 || len(p.left) != 0 {
		t.Errorf("%d sessions; left: %v", got, p.left)
	}
	// Quiverd didn't answer in time when another one went, and its address is given before everything is compared.
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Del(late, &agentv1.DelRequest{Attachment: requests["c"].Attachment}); err != nil {
		t.Fatal(err)
	}
	if got := p.sessions(t, "10.9.0.4"); got != 1 {
		t.Fatalf("%d sessions", got)
	}
	pool, err := address.NewPool(netip.MustParsePrefix("10.9.0.0/24"), netip.MustParseAddr("10.9.0.3"))
	if err != nil {
		t.Fatal(err)
	}
	p.pools = []*address.Pool{pool}
	if got := p.add(t, p.asked(t, "d")); got[0] != "10.9.0.4/32" {
		t.Fatalf("%v", got)
	}
	if got := p.sessions(t, "10.9.0.4"); got != 0 || len(p.left) != 0 {
		t.Errorf("%d sessions; left: %v", got, p.left)
	}
}

func TestQuiverdHasTheSessionsOfPodsLimitedAsTheAgentIsTold(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24", "fd00:9::/64")
	p.guarded(&watchful{})
	connection, err := dial.Unix("quiverd", realtest.Socket(p.directory))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	has := func() *quiver.TenantState {
		all, err := quiver.NewQuiverClient(connection).Tenants(t.Context(), &quiver.TenantsRequest{})
		if err != nil || len(all.GetTenants()) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		return all.Tenants[0]
	}
	// While it runs: what was there before is as by default.
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if one := has(); one.MaxSessions != 1_000_000 || one.MaxSessionsPerSource != 0 {
		t.Errorf("%v", one)
	}
	p.Set(t.Context(), false, dataplane.Sessions{Max: 5000, MaxOfSource: 7, Services: []string{"session-stats", "tcp-check"}}, annotation.Defaults{})
	for _, by := range []string{"the agent", "the agent again, after somebody else"} {
		one := has()
		if one.MaxSessions != 5000 || one.MaxSessionsPerSource != 7 || one.SourceIpv6PrefixLength != 128 ||
			!slices.Equal(one.ForwardServices, []string{"tcp-check", "l4-lifecycle", "session-stats", "acl"}) {
			t.Errorf("by %s: %v", by, one)
		}
		if err := p.quiverd.Apply(t.Context(), dataplane.Tenant(one.Interfaces, false, true, false, dataplane.Sessions{}), nil); err != nil {
			t.Fatal(err)
		}
		if one = has(); one.MaxSessionsPerSource != 0 {
			t.Errorf("by somebody else: %v", one)
		}
		if err := p.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
