package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/pods"
)

// A node that boots has pods on disk whose namespaces are gone, until the runtime deletes them.
func TestPodsWhoseNamespacesAreGoneDontStandInTheWay(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.settings.Services = true
	p.guarded(&watchful{})
	gone := p.asked(t, "dead")
	p.add(t, gone)
	p.add(t, p.asked(t, "well"))
	dead := filepath.Base(gone.Netns)
	nstest.IP(t, "netns", "del", dead)
	t.Cleanup(func() { nstest.IP(t, "netns", "add", dead) })
	there, err := p.quiverd.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.quiverd.Apply(t.Context(), nil, there.Pods); err != nil {
		t.Fatal(err)
	}
	// (The same MTU: an agent that has just started knows nothing yet.)
	p.compared = errNotCompared
	if err := p.Follow(t.Context(), dataplane.Paths{MTU: 1400}); err != nil {
		t.Errorf("the node isn't well: %v", err)
	}
	if err := p.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	// Whoever looks at pods is told.
	if err := p.Reconcile(t.Context()); err == nil || !strings.Contains(err.Error(), dead) {
		t.Errorf("told %v", err)
	}
	there, err = p.quiverd.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	well := func(part string) bool {
		return slices.ContainsFunc(there.Pods, func(ref *quiver.ObjectRef) bool { return strings.Contains(ref.Name, part) })
	}
	if !well("default.well:") || well("default.dead:") {
		t.Errorf("quiverd has %v", there.Pods)
	}
	p.add(t, p.asked(t, "new"))
}

// Kubelet, which waits for ten seconds after each failure, begins to make pods before the agent has heard of its node.
func TestAPodWaitsForWhatItsNodeIsAboutToLearn(t *testing.T) {
	p := newPlace(t)
	p.Agent = New(p.settings, p.store, p.Agent.quiverd, pods.Standalone{}, slog.New(slog.DiscardHandler))
	guard := &watchful{}
	guard.unknown.Store(true)
	p.guarded(guard)
	request := p.asked(t, "web")
	// Who hasn't got the time is told what is missing while it still listens.
	missing := func(words string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Add(ctx, request)
		refusal(t, err, codes.Unavailable, words)
		if ctx.Err() != nil {
			t.Error("told when nobody listened any more")
		}
	}
	missing("there are no addresses for pods yet")
	var begun sync.WaitGroup
	outcome := make(chan error)
	begun.Add(1)
	go func() {
		begun.Done()
		_, err := p.Add(t.Context(), request)
		outcome <- err
	}()
	begun.Wait()
	if err := p.SetRanges([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}); err != nil {
		t.Fatal(err)
	}
	missing(errNoPaths.Error())
	if _, err := p.SetPaths(dataplane.Paths{MTU: 1400}); err != nil {
		t.Fatal(err)
	}
	missing("NetworkPolicies: the API server hasn't told all of them yet")
	guard.unknown.Store(false)
	if err := <-outcome; err != nil || len(p.store.All()) != 1 {
		t.Errorf("%v: %v", err, p.store.All())
	}
}
