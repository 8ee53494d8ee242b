package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
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
	if err := late.Restore(t.Context()); !errors.Is(err, keeping.ErrUnknown) || !errors.Is(err, ErrShut) || late.Safe() != nil {
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
	if err := blind(t, file, quiverd).shut(t.Context()); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "pods are open until") {
		t.Error(err)
	}
}

// everybody is a file by which three pods were guarded.
func everybody(t *testing.T, file, node string) {
	t.Helper()
	text := fmt.Sprintf(`{"node": [%s], "pods": [
		{"namespace": "x", "name": "a", "uid": "1", "addresses": ["10.0.0.1"], "ingress": true},
		{"namespace": "x", "name": "b", "addresses": ["10.0.0.2"], "ingress": true},
		{"namespace": "x", "name": "c", "addresses": ["10.0.0.3"], "ingress": true, "egress": true, "toNode": true}]}`, node)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A quiverd that doesn't answer when it is first asked must not leave pods open, nor be the end of trying.
func TestAHiccupOfShuttingIsTriedAgain(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	everybody(t, file, `"192.168.0.1"`)
	quiverd, end := realtest.Start(t, directory)
	late := blind(t, file, quiverd)
	end()
	if err := late.Restore(t.Context()); !errors.Is(err, keeping.ErrUnknown) || errors.Is(err, ErrShut) || late.Safe() == nil {
		t.Fatalf("%v, %v: it can't have been done", err, late.Safe())
	}
	again, _ := forgotten(t, directory, end)
	passes := judge(t, directory, again)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		late.Run(ctx)
		close(done)
	}()
	realtest.Eventually(t, "pods that were guarded are shut", func() bool { return late.Safe() == nil })
	cancel()
	<-done
	if passes("10.0.0.9", "10.0.0.1", 80) {
		t.Error("it says that it is safe, and is open")
	}
}

func TestOneThatIsRefusedLeavesNobodyElseOpen(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	everybody(t, file, `"192.168.0.1"`)
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	// Somebody else has the address of a pod that was there.
	theirs := &quiver.Config{
		Acls:      []*quiver.Acl{{Name: "theirs", DefaultAction: quiver.AclDefault_ACL_DEFAULT_PERMIT}},
		Endpoints: []*quiver.Endpoint{{Name: "theirs", Addresses: []string{"10.0.0.1"}, IngressAcls: []string{"theirs"}}},
	}
	if err := quiverd.Apply(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	late := blind(t, file, quiverd)
	// The next one by its name is another one.
	late.Here(types.NamespacedName{Namespace: "x", Name: "a"}, "2", []netip.Addr{netip.MustParseAddr("10.0.0.7")})
	if err := late.Restore(t.Context()); !errors.Is(err, ErrShut) || late.Safe() != nil {
		t.Errorf("%v, %v: the one that is refused isn't here any more", err, late.Safe())
	}
	for to, want := range map[string]bool{"10.0.0.1": true, "10.0.0.2": false, "10.0.0.3": false} {
		if passes("10.0.0.9", to, 80) != want {
			t.Errorf("to %s: passes %v", to, !want)
		}
	}
	// As long as it is here it isn't safe.
	late = blind(t, file, quiverd)
	late.Here(types.NamespacedName{Namespace: "x", Name: "a"}, "1", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	if err := late.Restore(t.Context()); errors.Is(err, ErrShut) || late.Safe() == nil || !strings.Contains(late.Safe().Error(), "pod x/a was guarded") {
		t.Errorf("%v, %v", err, late.Safe())
	}
}

// An address that quiverd guards for a pod that came later is left to that one.
func TestAnAddressThatAnotherPodHasByNowIsLeftToIt(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	everybody(t, file, `"192.168.0.1"`)
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	of, _ := names(types.NamespacedName{Namespace: "x", Name: "new"}, "")
	now := &quiver.Config{
		Acls:      []*quiver.Acl{{Name: Ours + "some", DefaultAction: quiver.AclDefault_ACL_DEFAULT_PERMIT}},
		Endpoints: []*quiver.Endpoint{{Name: of, Addresses: []string{"10.0.0.1"}, IngressAcls: []string{Ours + "some"}}},
	}
	if err := quiverd.Apply(t.Context(), now, nil); err != nil {
		t.Fatal(err)
	}
	late := blind(t, file, quiverd)
	late.Here(types.NamespacedName{Namespace: "x", Name: "a"}, "", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	if err := late.Restore(t.Context()); !errors.Is(err, ErrShut) || late.Safe() != nil {
		t.Errorf("%v, %v", err, late.Safe())
	}
	if !passes("10.0.0.9", "10.0.0.1", 80) || passes("10.0.0.9", "10.0.0.2", 80) {
		t.Error("the new one is as it was, and the others are shut")
	}
}

func TestWithoutAddressesOfTheNodePodsAreShutAllTheSame(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	everybody(t, file, "")
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	if err := blind(t, file, quiverd).Restore(t.Context()); !errors.Is(err, ErrShut) {
		t.Error(err)
	}
	for _, to := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		if passes("10.0.0.9", to, 80) || !passes(to, to, 80) {
			t.Errorf("%s isn't shut, or not reached by itself", to)
		}
	}
}

// Nobody knows whom to shut: all have a network, and it is told that they are open.
func TestWithADamagedFilePodsAreNotHeldBack(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "guarded.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	quiverd, _ := realtest.Start(t, directory)
	late := blind(t, file, quiverd)
	err := late.Restore(t.Context())
	var damaged *DamagedError
	if !errors.As(err, &damaged) || errors.Is(err, ErrShut) || late.Safe() != nil {
		t.Errorf("%v, %v", err, late.Safe())
	}
}

// A disk that was full has who is guarded when it isn't any more, without anything else that changes.
func TestWhatCouldNotBeKeptIsWrittenLater(t *testing.T) {
	directory := t.TempDir()
	// (Nothing can be written to a directory that isn't there, by root neither.)
	file := filepath.Join(directory, "later", "guarded.json")
	quiverd, _ := realtest.Start(t, directory)
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, onA))
	keeper := writingDown(t, a, quiverd, file, presence{types.NamespacedName{Namespace: "x", Name: "a"}, "", []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
	realtest.Eventually(t, "it is told", func() bool {
		var unkept *UnkeptError
		return keeper.Loop.Ready() == nil && errors.As(keeper.Ready(), &unkept) && unkept.File == file
	})
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	realtest.Eventually(t, "it is written", func() bool { return keeper.Ready() == nil })
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"10.0.0.1"`) || time.Since(began) > 15*time.Second {
		t.Errorf("%q, %v, after %v", text, err, time.Since(began))
	}
}
