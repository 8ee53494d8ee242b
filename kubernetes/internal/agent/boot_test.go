package agent

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
)

// A node that boots has pods on disk whose namespaces are gone, until the runtime deletes them.
func TestPodsWhoseNamespacesAreGoneDontStandInTheWay(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.settings.Services = true
	p.Guarding(&watchful{})
	for _, name := range []string{"dead", "well"} {
		p.add(t, p.asked(t, name))
	}
	dead := filepath.Base(p.store.All()[0].Netns)
	if !strings.HasSuffix(dead, "-dead") {
		dead = filepath.Base(p.store.All()[1].Netns)
	}
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
