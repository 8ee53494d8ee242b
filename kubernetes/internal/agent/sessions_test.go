package agent

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dial"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/realtest"
)

// sessions counts those that quiverd has with an address.
func (p *place) sessions(t *testing.T, address string) (count int) {
	t.Helper()
	connection, err := dial.Unix(realtest.Socket(p.directory))
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
