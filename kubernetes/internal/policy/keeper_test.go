package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/dial"
	"quiver/kubernetes/internal/keeping"
	"quiver/kubernetes/internal/realtest"
)

// api is an API server that has these objects, and tells of changes.
type api struct {
	pods       core.PodList
	namespaces core.NamespaceList
	policies   networking.NetworkPolicyList
	nodes      core.NodeList
	tiered     v1alpha2.ClusterNetworkPolicyList
	admin      v1alpha1.AdminNetworkPolicyList
	baseline   v1alpha1.BaselineAdminNetworkPolicyList
	changes    map[string]*watch.FakeWatcher
	told       sync.Map
	// How often anything was told.
	tellings atomic.Int32
}

func (a *api) TellPolicy(policy *core.ObjectReference, _, message string) {
	a.tellings.Add(1)
	a.told.Store(policy.Name, message)
}

// sources are where its objects come from.
func (a *api) sources() sources {
	a.changes = map[string]*watch.FakeWatcher{}
	from := sources{clusterwide: map[string]cache.ListerWatcher{}}
	source := func(name string, list runtime.Object, about *meta.ListMeta) (source cache.ListerWatcher) {
		about.ResourceVersion = "1"
		source, a.changes[name] = realtest.Source(list)
		return source
	}
	from.pods = source("pods", &a.pods, &a.pods.ListMeta)
	from.namespaces = source("namespaces", &a.namespaces, &a.namespaces.ListMeta)
	from.nodes = source("nodes", &a.nodes, &a.nodes.ListMeta)
	from.policies = source("policies", &a.policies, &a.policies.ListMeta)
	from.clusterwide[clusterKind] = source("tiered", &a.tiered, &a.tiered.ListMeta)
	from.clusterwide[adminKind] = source("admin", &a.admin, &a.admin.ListMeta)
	from.clusterwide[baselineKind] = source("baseline", &a.baseline, &a.baseline.ListMeta)
	return from
}

func (a *api) objects(t testing.TB) *Objects {
	objects, err := newObjects(a.sources())
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// small is a cluster with pods a to d in a namespace, at 10.0.0.1 and so on, labelled with their names.
func small() *api {
	a := &api{}
	a.namespaces.Items = []core.Namespace{{ObjectMeta: meta.ObjectMeta{Name: "x", ResourceVersion: "1"}}}
	for i, name := range []string{"a", "b", "c", "d"} {
		a.pods.Items = append(a.pods.Items, *podAt(name, i+1))
	}
	return a
}

func podAt(name string, number int) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Namespace: "x", Name: name, Labels: map[string]string{"pod": name}, ResourceVersion: "1"},
		Status:     core.PodStatus{PodIPs: []core.PodIP{{IP: fmt.Sprintf("10.0.0.%d", number)}, {IP: fmt.Sprintf("fd00::%d", number)}}},
	}
}

func read(t *testing.T, text string) *networking.NetworkPolicy {
	t.Helper()
	policy := &networking.NetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), policy); err != nil {
		t.Fatal(err)
	}
	policy.ResourceVersion = "1"
	return policy
}

// guarding keeps quiverd at what a cluster has for pod a, until the test ends.
func guarding(t *testing.T, a *api, quiverd *dataplane.Client) *Keeper {
	return following(t, a, quiverd, presence{types.NamespacedName{Namespace: "x", Name: "a"}, "", []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}})
}

// following does so for these pods.
func following(t testing.TB, a *api, quiverd *dataplane.Client, here ...presence) *Keeper {
	return writingDown(t, a, quiverd, "", here...)
}

// writingDown does so, and keeps in a file who is guarded.
func writingDown(t testing.TB, a *api, quiverd *dataplane.Client, file string, here ...presence) *Keeper {
	settings := Settings{Node: func() ([]netip.Addr, bool) { return []netip.Addr{netip.MustParseAddr("192.168.0.1")}, true }, Kept: file, Teller: a}
	keeper := New(settings, a.objects(t), quiverd, slog.New(slog.DiscardHandler))
	for _, pod := range here {
		keeper.Here(pod.key, pod.uid, pod.addresses)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		keeper.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return keeper
}

// judge asks a quiverd itself what it would do.
func judge(t testing.TB, directory string, quiverd *dataplane.Client) func(from, to string, port uint32) bool {
	chain := []string{"l4-lifecycle", "acl"}
	all := &quiver.Config{Tenants: []*quiver.Tenant{{Name: "all", ForwardServices: chain, ReverseServices: chain}}}
	if err := quiverd.Apply(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	connection, err := dial.Unix("quiverd", realtest.Socket(directory))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return func(from, to string, port uint32) bool {
		t.Helper()
		answer, err := quiver.NewQuiverClient(connection).AclMatch(t.Context(), &quiver.AclMatchRequest{Tenant: "all", Source: from, Destination: to, Protocol: "tcp", DestinationPort: port})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Verdict == quiver.AclVerdict_ACL_VERDICT_PASSES
	}
}

func TestQuiverdFollowsPolicies(t *testing.T) {
	directory := t.TempDir()
	quiverd, end := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, onA+"  ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}], ports: [{port: 80}]}]\n"))
	keeper := guarding(t, a, quiverd)
	realtest.Eventually(t, "all is there", func() bool { return keeper.Ready() == nil })
	expect := func(from, to string, port uint32, expected bool) {
		t.Helper()
		realtest.Eventually(t, fmt.Sprintf("%s to %s port %d: %v", from, to, port, expected), func() bool { return passes(from, to, port) == expected })
	}
	all := func() {
		t.Helper()
		for _, prefix := range []string{"10.0.0.", "fd00::"} {
			expect(prefix+"2", prefix+"1", 80, true)
			expect(prefix+"2", prefix+"1", 81, false)
			expect(prefix+"3", prefix+"1", 80, false)
			expect(prefix+"1", prefix+"1", 81, true)
			expect(prefix+"3", prefix+"2", 80, true)
		}
		expect("192.168.0.1", "10.0.0.1", 81, true)
		expect("192.168.0.2", "10.0.0.1", 81, false)
	}
	all()
	// A pod comes into a group, and goes.
	labelled := podAt("b", 3)
	labelled.Name, labelled.ResourceVersion = "c", "2"
	a.changes["pods"].Modify(labelled)
	expect("10.0.0.3", "10.0.0.1", 80, true)
	a.changes["pods"].Delete(labelled)
	expect("10.0.0.3", "10.0.0.1", 80, false)
	// A second policy, and it changes.
	second := read(t, strings.Replace(onA, "name: p", "name: q", 1)+"  ingress: [{ports: [{port: 81}]}]\n")
	a.changes["policies"].Add(second)
	expect("10.0.0.4", "10.0.0.1", 81, true)
	second = read(t, strings.Replace(onA, "name: p", "name: q", 1)+"  policyTypes: [Ingress, Egress]\n  ingress: [{ports: [{port: 82, endPort: 90}]}]\n")
	second.ResourceVersion = "2"
	a.changes["policies"].Modify(second)
	expect("10.0.0.4", "10.0.0.1", 81, false)
	expect("10.0.0.4", "10.0.0.1", 85, true)
	expect("10.0.0.1", "10.0.0.4", 80, false)
	a.changes["policies"].Delete(second)
	expect("10.0.0.1", "10.0.0.4", 80, true)
	all()
	// A pod that comes is covered when Cover returns.
	a.changes["policies"].Add(read(t, strings.Replace(onAll, "name: p", "name: r", 1)))
	realtest.Eventually(t, "the policy for all is there", func() bool {
		found, err := quiverd.ACLs(t.Context(), Ours)
		return err == nil && found.ACLs[listName(types.NamespacedName{Namespace: "x", Name: "r"}, ingress)] != nil
	})
	if err := keeper.Cover(t.Context(), types.NamespacedName{Namespace: "x", Name: "d"}, "", []netip.Addr{netip.MustParseAddr("10.0.0.4")}); err != nil {
		t.Fatal(err)
	}
	if passes("10.0.0.2", "10.0.0.4", 80) {
		t.Error("a pod that has been covered can be reached")
	}
	keeper.Here(types.NamespacedName{Namespace: "x", Name: "d"}, "", nil)
	expect("10.0.0.2", "10.0.0.4", 80, true)
	// A quiverd that begins with nothing.
	end()
	if err := os.RemoveAll(filepath.Join(directory, "state")); err != nil {
		t.Fatal(err)
	}
	again, _ := realtest.Start(t, directory)
	passes = judge(t, directory, again)
	keeper.Compare()
	all()
	// One that has lost a list and a member, and has one too many.
	found, err := again.ACLs(t.Context(), Ours)
	if err != nil {
		t.Fatal(err)
	}
	for name := range found.Sets {
		wrong := &quiver.Config{AddressSets: []*quiver.AddressSet{{Name: name, Add: []string{"10.0.0.3"}, Remove: []string{"fd00::2"}}}}
		wrong.Acls = []*quiver.Acl{{Name: listName(types.NamespacedName{Namespace: "x", Name: "p"}, ingress)}, {Name: Ours + "left"}}
		if err := again.Apply(t.Context(), wrong, nil); err != nil {
			t.Fatal(err)
		}
	}
	expect("10.0.0.2", "10.0.0.1", 80, false)
	keeper.Compare()
	all()
	if found, err = again.ACLs(t.Context(), Ours); err != nil || found.ACLs[Ours+"left"] != nil {
		t.Errorf("%v, %v", found, err)
	}
}

func TestQuiverdFollowsTiers(t *testing.T) {
	directory := t.TempDir()
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	a := small()
	a.namespaces.Items[0].Labels = map[string]string{"ns": "ns-x"}
	keeper := guarding(t, a, quiverd)
	realtest.Eventually(t, "all is there", func() bool { return keeper.Ready() == nil })
	expect := func(from, to string, port uint32, expected bool) {
		t.Helper()
		realtest.Eventually(t, fmt.Sprintf("%s to %s port %d: %v", from, to, port, expected), func() bool { return passes(from, to, port) == expected })
	}
	const of = "{pods: {namespaceSelector: {}, podSelector: {matchLabels: {pod: %s}}}}"
	b, c := fmt.Sprintf(of, "b"), fmt.Sprintf(of, "c")
	tiered := func(text, version string) *v1alpha2.ClusterNetworkPolicy {
		policy := &v1alpha2.ClusterNetworkPolicy{}
		if err := yaml.UnmarshalStrict([]byte(text), policy); err != nil {
			t.Fatal(err)
		}
		policy.ResourceVersion = version
		return policy
	}
	a.changes["tiered"].Add(tiered(head("p", "Admin", "2")+subjectX+"  ingress: [{action: Pass, from: ["+b+"]}, {action: Deny, from: ["+c+"], protocols: [{tcp: {destinationPort: {number: 80}}}]}]\n", "1"))
	for _, prefix := range []string{"10.0.0.", "fd00::"} {
		expect(prefix+"3", prefix+"1", 80, false)
		expect(prefix+"3", prefix+"1", 81, true)
		expect(prefix+"2", prefix+"1", 80, true)
		expect(prefix+"1", prefix+"1", 80, true)
	}
	// What is passed on is judged by the tiers behind.
	a.changes["tiered"].Add(tiered(head("q", "Baseline", "1")+subjectX+"  ingress: [{action: Deny, from: ["+b+"]}]\n", "1"))
	expect("10.0.0.2", "10.0.0.1", 80, false)
	a.changes["policies"].Add(read(t, onA+"  ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]\n"))
	expect("10.0.0.2", "10.0.0.1", 80, true)
	expect("10.0.0.3", "10.0.0.1", 81, false)
	expect("192.168.0.1", "10.0.0.1", 80, true)
	a.changes["tiered"].Modify(tiered(head("p", "Admin", "2")+subjectX+"  ingress: [{action: Accept, from: ["+c+"]}]\n", "2"))
	expect("10.0.0.3", "10.0.0.1", 80, true)
	// The first kinds, beside it.
	admin := &v1alpha1.AdminNetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte("metadata: {name: r}\nspec:\n  priority: 1\n"+subjectX+"  egress: [{action: Deny, to: [{nodes: {}}]}]\n"), admin); err != nil {
		t.Fatal(err)
	}
	admin.ResourceVersion = "1"
	a.changes["admin"].Add(admin)
	a.changes["nodes"].Add(&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1", ResourceVersion: "1"}, Status: core.NodeStatus{Addresses: []core.NodeAddress{{Type: core.NodeInternalIP, Address: "192.168.0.1"}}}})
	expect("10.0.0.1", "192.168.0.1", 10250, false)
	a.changes["admin"].Delete(admin)
	expect("10.0.0.1", "192.168.0.1", 10250, true)
}

func TestWhatAnEarlierAgentLeftStaysUntilAllIsKnown(t *testing.T) {
	directory := t.TempDir()
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	t.Run("earlier", func(t *testing.T) {
		a := small()
		a.policies.Items = append(a.policies.Items, *read(t, onA))
		keeper := guarding(t, a, quiverd)
		realtest.Eventually(t, "all is there", func() bool { return keeper.Ready() == nil })
	})
	silent := New(Settings{Node: func() ([]netip.Addr, bool) { return nil, true }}, small().objects(t), quiverd, slog.New(slog.DiscardHandler))
	if err := silent.bring(t.Context(), true); !errors.Is(err, keeping.ErrUnknown) {
		t.Error(err)
	}
	if err := silent.Cover(t.Context(), types.NamespacedName{Namespace: "x", Name: "a"}, "", nil); !errors.Is(err, keeping.ErrUnknown) {
		t.Error(err)
	}
	if unknown := silent.Known(); !errors.Is(unknown, keeping.ErrUnknown) || !strings.HasPrefix(unknown.Error(), "NetworkPolicies: ") {
		t.Error(unknown)
	}
	if passes("10.0.0.2", "10.0.0.1", 80) {
		t.Error("nobody has said yet that the pod isn't guarded any more")
	}
	t.Run("later", func(t *testing.T) {
		keeper := guarding(t, small(), quiverd)
		realtest.Eventually(t, "all is there", func() bool { return keeper.Ready() == nil })
	})
	if found, err := quiverd.ACLs(t.Context(), Ours); err != nil || len(found.ACLs) != 1 || len(found.Sets)+len(found.Endpoints) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// A quiverd that hangs: it takes connections and says nothing. Who adds a pod then hears of it in time, and who tells of pods isn't held up.
func TestNobodyWaitsForAQuiverdThatHangs(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "quiver.sock")
	silent, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	quiverd, err := dataplane.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer quiverd.Close()
	a := small()
	keeper := guarding(t, a, quiverd)
	realtest.Eventually(t, "the keeper hangs", func() bool { return keeper.objects.Known() && len(keeper.turn) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	key := types.NamespacedName{Namespace: "x", Name: "b"}
	err = keeper.Cover(ctx, key, "", []netip.Addr{netip.MustParseAddr("10.0.0.2")})
	if err == nil || !strings.HasSuffix(err.Error(), "an earlier change isn't in force yet") {
		t.Errorf("told %v", err)
	}
	keeper.Here(key, "", nil)
	if len(keeper.turn) != 1 {
		t.Error("it doesn't hang")
	}
}

// watched is a context that tells when somebody waits for its end.
type watched struct {
	context.Context
	tell func()
}

func (w watched) Done() <-chan struct{} {
	w.tell()
	return w.Context.Done()
}

// Who adds a pod may wait for others. What is heard of the pod meanwhile is newer than what was known when it began.
func TestLabelsThatChangeWhileAPodIsAddedAreInForce(t *testing.T) {
	directory := t.TempDir()
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, onA))
	keeper := guarding(t, a, quiverd)
	realtest.Eventually(t, "all is there", func() bool { return keeper.Ready() == nil })
	if err := keeper.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: "x", Name: "d"}
	covered := make(chan error, 1)
	waits := make(chan struct{})
	ctx := watched{t.Context(), sync.OnceFunc(func() { close(waits) })}
	go func() { covered <- keeper.Cover(ctx, key, "", []netip.Addr{netip.MustParseAddr("10.0.0.4")}) }()
	// It has read the pod by then.
	<-waits
	labelled := podAt("d", 4)
	labelled.Labels, labelled.ResourceVersion = map[string]string{"pod": "a"}, "2"
	a.changes["pods"].Modify(labelled)
	realtest.Eventually(t, "it is heard of", func() bool { return keeper.objects.pod(key).Labels["pod"] == "a" })
	keeper.give()
	if err := <-covered; err != nil {
		t.Fatal(err)
	}
	if passes("10.0.0.2", "10.0.0.4", 80) {
		t.Error("the pod is guarded as it was labelled when it began")
	}
}
