package policy

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/keeping"
	"quiver/kubernetes/internal/realtest"
)

// blind is a keeper that the API server tells nothing.
func blind(t *testing.T, file string, quiverd *dataplane.Client) *Keeper {
	settings := Settings{Node: func() ([]netip.Addr, bool) { return nil, false }, Kept: file}
	return New(settings, small().objects(t), quiverd, slog.New(slog.DiscardHandler))
}

// forgotten begins a quiverd anew, which has lost everything.
func forgotten(t *testing.T, directory string, end func()) (*dataplane.Client, func()) {
	end()
	if err := os.RemoveAll(filepath.Join(directory, "state")); err != nil {
		t.Fatal(err)
	}
	return realtest.Start(t, directory)
}

func TestWhoWasGuardedLetsNobodyPassAsLongAsItIsNotKnownWho(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	quiverd, end := realtest.Start(t, directory)
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, onA+"  ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}], ports: [{port: 80}]}]\n"))
	at := func(name, four, six string) presence {
		return presence{types.NamespacedName{Namespace: "x", Name: name}, "", []netip.Addr{netip.MustParseAddr(four), netip.MustParseAddr(six)}}
	}
	writingDown(t, a, quiverd, file, at("a", "10.0.0.1", "fd00::1"), at("b", "10.0.0.2", "fd00::2"))
	realtest.Eventually(t, "it is kept who is guarded", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), `"fd00::1"`) && !strings.Contains(string(text), `"fd00::2"`)
	})

	// Everything is lost at once: what quiverd had, the agent, and the API server.
	again, end := forgotten(t, directory, end)
	passes := judge(t, directory, again)
	if !passes("10.0.0.3", "10.0.0.1", 80) {
		t.Fatal("nobody is guarded by a quiverd that knows nothing: the test shows nothing")
	}
	late := blind(t, file, again)
	if err := late.Restore(t.Context()); !errors.Is(err, keeping.ErrUnknown) {
		t.Fatal(err)
	}
	for _, prefix := range []string{"10.0.0.", "fd00::"} {
		for from, want := range map[string]bool{"1": true, "2": false, "3": false} {
			if passes(prefix+from, prefix+"1", 80) != want {
				t.Errorf("%s%s to the pod that was guarded: passes %v", prefix, from, !want)
			}
		}
		// Policies were for ingress only, and for this pod only.
		if !passes(prefix+"1", prefix+"3", 80) || !passes(prefix+"3", prefix+"2", 80) {
			t.Errorf("%s: what wasn't guarded is shut, too", prefix)
		}
	}
	if !passes("192.168.0.1", "10.0.0.1", 80) || passes("192.168.0.2", "10.0.0.1", 80) {
		t.Error("its node, and nobody else, reaches it for probes")
	}

	// When all is known again it is as policies say.
	seeing := following(t, a, again, at("a", "10.0.0.1", "fd00::1"), at("b", "10.0.0.2", "fd00::2"))
	realtest.Eventually(t, "who may passes", func() bool {
		return seeing.Ready() == nil && passes("10.0.0.2", "10.0.0.1", 80) && !passes("10.0.0.3", "10.0.0.1", 80)
	})
	found, err := again.ACLs(t.Context(), Ours)
	if err != nil || found.ACLs[closedList] != nil {
		t.Errorf("%v %v", found, err)
	}

	// One that has lost nothing keeps what it has.
	if err := blind(t, file, again).Restore(t.Context()); !errors.Is(err, keeping.ErrUnknown) || !passes("10.0.0.2", "10.0.0.1", 80) {
		t.Error(err)
	}
	end()
}

func TestEgressStaysShutInTheSameWay(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	text := `{"node": ["192.168.0.1"], "pods": [
		{"namespace": "x", "name": "a", "addresses": ["10.0.0.1"], "egress": true, "toNode": true},
		{"namespace": "x", "name": "b", "addresses": ["10.0.0.2"], "egress": true}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := blind(t, file, quiverd).Restore(t.Context()); !errors.Is(err, keeping.ErrUnknown) {
		t.Fatal(err)
	}
	for _, one := range []struct {
		from, to string
		want     bool
	}{
		{"10.0.0.1", "10.0.0.9", false}, {"10.0.0.1", "192.168.0.1", true}, {"10.0.0.9", "10.0.0.1", true},
		// This one was kept from its node by an administrator.
		{"10.0.0.2", "192.168.0.1", false}, {"10.0.0.2", "10.0.0.2", true},
	} {
		if passes(one.from, one.to, 80) != one.want {
			t.Errorf("%s to %s: passes %v", one.from, one.to, !one.want)
		}
	}
}

func TestAFileThatIsDamagedIsToldAndNoneIsNoFault(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	quiverd, _ := realtest.Start(t, directory)
	if err := blind(t, file, quiverd).shut(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := blind(t, file, quiverd).shut(t.Context()); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "remove it") {
		t.Error(err)
	}
}
