package policy

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/realtest"
)

// A thousand policies in twenty namespaces, each of which has a pod on this node and fifty elsewhere; one namespace more whose policies are for
// nobody here; and a set of ten thousand pods. (Ten times as many are for the benchmarks.)
const (
	someNamespaces = 20
	somePolicies   = 50
	somePods       = 51
	nobodysHere    = someNamespaces
	crowded        = someNamespaces + 1
	crowdOfPods    = 10_000
)

// both are a pod's addresses, of both families.
func both(n, p int) []netip.Addr {
	four := netip.AddrFrom4([4]byte{10, 128 + byte(n), byte(p >> 8), byte(p)})
	return []netip.Addr{four, netip.MustParseAddr(fmt.Sprintf("fd00:128:%x::%x", n, p+1))}
}

// dualPod is a pod of both families: of the crowd, or as those of the large cluster.
func dualPod(n, p int, in bool, version string) *core.Pod {
	pod := largePod(n, p, in && n != crowded, version)
	if in && n == crowded {
		pod.Labels["in"] = "yes"
	}
	pod.Status.PodIPs = nil
	for _, address := range both(n, p) {
		pod.Status.PodIPs = append(pod.Status.PodIPs, core.PodIP{IP: address.String()})
	}
	return pod
}

// moderate is that cluster.
func moderate() *api {
	a := &api{}
	for n := range crowded + 1 {
		a.namespaces.Items = append(a.namespaces.Items, core.Namespace{ObjectMeta: meta.ObjectMeta{Name: fmt.Sprintf("n%d", n), ResourceVersion: "1"}})
		pods, policies := somePods, somePolicies
		if n == crowded {
			pods, policies = crowdOfPods+1, 0
		}
		for p := range pods {
			a.pods.Items = append(a.pods.Items, *dualPod(n, p, p > 0, "1"))
		}
		for i := range policies {
			a.policies.Items = append(a.policies.Items, *largePolicy(n, i, "1"))
		}
	}
	policy := largePolicy(crowded, 0, "1")
	policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels = map[string]string{"in": "yes"}
	a.policies.Items = append(a.policies.Items, *policy)
	return a
}

// work is what a change has cost: policies that were compiled, objects that were sent by kind, members among them that sets were given as a
// whole, or that came and went, and objects that were deleted.
type work struct{ compiled, lists, endpoints, sets, members, come, gone, deleted int }

// observed is a keeper whose steps are taken by hand, so that when one is done nothing else is on its way.
type observed struct {
	*Keeper
	api     *api
	applied *realtest.Applied
	version int
	passes  func(from, to string, port uint32) bool
}

// step does what has changed, and tells what that took.
func (o *observed) step(t *testing.T, all bool) (w work) {
	t.Helper()
	// A policy that is compiled gets other lists, even if they say the same.
	before := map[*rules]*quiver.Acl{}
	for _, policies := range o.wanted.policies {
		for _, policy := range policies {
			before[policy] = policy.lists[ingress]
		}
	}
	if err := o.bring(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, policies := range o.wanted.policies {
		for _, policy := range policies {
			if policy.lists[ingress] != before[policy] {
				w.compiled++
			}
		}
	}
	batch := o.applied.Take()
	w.lists, w.endpoints, w.sets, w.deleted = len(batch.Upserts.Acls), len(batch.Upserts.Endpoints), len(batch.Upserts.AddressSets), len(batch.Deletes)
	for _, set := range batch.Upserts.AddressSets {
		w.members, w.come, w.gone = w.members+len(set.Members), w.come+len(set.Add), w.gone+len(set.Remove)
	}
	if others := len(dataplane.Refs(batch.Upserts)) - w.lists - w.endpoints - w.sets; others != 0 {
		t.Errorf("%d objects of other kinds", others)
	}
	return w
}

// expect takes a step that must have cost so much.
func (o *observed) expect(t *testing.T, what string, want work) {
	t.Helper()
	if got := o.step(t, false); got != want {
		t.Errorf("%s: %+v, not %+v", what, got, want)
	}
}

// changes has the API server tell of a pod, and waits until it is heard of.
func (o *observed) changes(t *testing.T, n, p int, tell func(version string)) {
	t.Helper()
	o.version++
	tell(fmt.Sprint(o.version))
	key := types.NamespacedName{Namespace: fmt.Sprintf("n%d", n), Name: fmt.Sprintf("pod%d", p)}
	realtest.Eventually(t, "it is heard of", func() bool {
		o.objects.mutex.Lock()
		defer o.objects.mutex.Unlock()
		return o.objects.dirty.pods[key]
	})
}

// reaches judges by quiverd itself, in both families.
func (o *observed) reaches(t *testing.T, n, from, to int, want bool) {
	t.Helper()
	source, destination := both(n, from), both(n, to)
	for family := range source {
		if got := o.passes(source[family].String(), destination[family].String(), 80); got != want {
			t.Errorf("%s reaches %s: %v", source[family], destination[family], got)
		}
	}
}

func TestAChangeOfOneAmongManyCostsWhatItConcerns(t *testing.T) {
	directory := t.TempDir()
	quiverd, _ := realtest.Start(t, directory)
	recorded, applied := realtest.Recorded(t, directory)
	a := moderate()
	settings := Settings{Node: func() ([]netip.Addr, bool) { return []netip.Addr{netip.MustParseAddr("192.168.0.1")}, true }, Teller: a}
	o := &observed{Keeper: New(settings, a.objects(t), recorded, slog.New(slog.DiscardHandler)), api: a, applied: applied, version: 1, passes: judge(t, directory, quiverd)}
	here := func(n, p int, is bool) {
		var addresses []netip.Addr
		if is {
			addresses = both(n, p)
		}
		o.Here(types.NamespacedName{Namespace: fmt.Sprintf("n%d", n), Name: fmt.Sprintf("pod%d", p)}, "", addresses)
	}
	for n := range crowded + 1 {
		here(n, 0, n != nobodysHere)
	}
	go o.objects.Run(t.Context())
	realtest.Eventually(t, "all is known", o.objects.Known)
	// Besides each policy's, there is a list for each pod itself, and the node's. In each set of a namespace are ten pods.
	const policies, pods = someNamespaces*somePolicies + 1, someNamespaces + 1
	want := work{compiled: policies, lists: policies + pods + 1, endpoints: pods, sets: policies, members: 2 * (10*(policies-1) + crowdOfPods)}
	if got := o.step(t, true); got != want {
		t.Fatalf("all of it: %+v, not %+v", got, want)
	}

	pod := func(n, p int, in bool) {
		t.Helper()
		o.changes(t, n, p, func(version string) { a.changes["pods"].Modify(dualPod(n, p, in, version)) })
	}
	// One elsewhere goes from the ten sets that it was in by its labels, and comes back.
	o.reaches(t, 7, 23, 0, true)
	pod(7, 23, false)
	o.expect(t, "a pod loses its labels", work{sets: 10, gone: 20})
	o.reaches(t, 7, 23, 0, false)
	o.reaches(t, 7, 24, 0, true)
	pod(7, 23, true)
	o.expect(t, "a pod has its labels again", work{sets: 10, come: 20})
	o.reaches(t, 7, 23, 0, true)
	// One of the crowd goes for good, and one comes that hadn't been.
	o.changes(t, crowded, 5000, func(version string) { a.changes["pods"].Delete(dualPod(crowded, 5000, true, version)) })
	o.expect(t, "one of ten thousand goes", work{sets: 1, gone: 2})
	o.reaches(t, crowded, 5000, 0, false)
	o.changes(t, crowded, 20_000, func(version string) { a.changes["pods"].Add(dualPod(crowded, 20_000, true, version)) })
	o.expect(t, "one comes among ten thousand", work{sets: 1, come: 2})
	o.reaches(t, crowded, 20_000, 0, true)
	pod(crowded, 20_000, false)
	o.expect(t, "one of ten thousand loses its label", work{sets: 1, gone: 2})
	// What says nothing new.
	o.changes(t, 3, 11, func(version string) { a.changes["pods"].Modify(dualPod(3, 11, true, version)) })
	o.expect(t, "a pod that is as it was", work{})
	// One of a namespace without policies that speak of it.
	o.changes(t, nobodysHere, 60, func(version string) { a.changes["pods"].Add(dualPod(nobodysHere, 60, true, version)) })
	o.expect(t, "a pod that concerns nobody here", work{})

	// One comes to this node whose policies are there already, and goes: only it itself is told.
	here(7, 23, true)
	o.expect(t, "a pod comes to the node", work{lists: 1, endpoints: 1})
	o.reaches(t, 7, 24, 23, true)
	here(7, 23, false)
	o.expect(t, "a pod goes from the node", work{deleted: 2})
	// One whose policies nobody needed here so far: these, and no others. With it they go again.
	here(nobodysHere, 0, true)
	o.expect(t, "the first pod of a namespace comes", work{compiled: somePolicies, lists: somePolicies + 1, endpoints: 1, sets: somePolicies, members: 2 * 10 * somePolicies})
	o.reaches(t, nobodysHere, 24, 0, true)
	here(nobodysHere, 0, false)
	o.expect(t, "the last pod of a namespace goes", work{compiled: somePolicies, deleted: 2 + 2*somePolicies})

	// When everything is compared, what is as it shall be isn't sent again.
	if got := o.step(t, true); got != (work{}) {
		t.Errorf("nothing has changed: %+v", got)
	}
}

// Prefixes and ports are said in any order and form; quiverd has its own.
func TestWhatIsAsItShallBeIsNotSentAgainHoweverPoliciesSayIt(t *testing.T) {
	directory := t.TempDir()
	_, _ = realtest.Start(t, directory)
	recorded, applied := realtest.Recorded(t, directory)
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, onA+`  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - ipBlock: {cidr: 10.1.2.3/8, except: [10.9.0.0/16, 10.10.0.0/16, 10.0.0.9/32]}
    - ipBlock: {cidr: 192.0.2.7/32}
    - ipBlock: {cidr: 9.0.0.0/8}
    - ipBlock: {cidr: 198.51.100.0/24}
    - ipBlock: {cidr: "2001:db8:0:0:1::/64"}
    - ipBlock: {cidr: "2001:db8::1/128"}
    ports: [{port: 443}, {port: 80}, {port: 8000, endPort: 8080}, {port: 53, protocol: UDP}]
  egress:
  - to: [{ipBlock: {cidr: 0.0.0.0/0}}, {ipBlock: {cidr: "::/0", except: ["fd00::/8", "fc00::/8"]}}, {podSelector: {}}]
`))
	networks := v1alpha2.ClusterNetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte(head("p", "Admin", "2")+subjectX+"  egress: [{action: Deny, to: [{networks: [100.64.0.1/32, 20.0.0.0/8, 100.0.0.0/16, 'fd00:1::1/128']}]}]\n"), &networks); err != nil {
		t.Fatal(err)
	}
	networks.ResourceVersion = "1"
	a.tiered.Items = append(a.tiered.Items, networks)
	a.namespaces.Items[0].Labels = map[string]string{"ns": "ns-x"}
	node := []netip.Addr{netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("fd00:200::1")}
	settings := Settings{Node: func() ([]netip.Addr, bool) { return node, true }, Teller: a}
	o := &observed{Keeper: New(settings, a.objects(t), recorded, slog.New(slog.DiscardHandler)), api: a, applied: applied}
	// A pod of a cluster whose first family is IPv6.
	o.Here(types.NamespacedName{Namespace: "x", Name: "a"}, "", []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.0.0.1")})
	go o.objects.Run(t.Context())
	realtest.Eventually(t, "all is known", o.objects.Known)
	// The policy's two lists, the administrator's, and those of the node and of the pod itself.
	if got := o.step(t, true); got.lists != 5 || got.endpoints != 1 || len(o.refused)+len(o.wanted.problems) != 0 {
		t.Fatalf("all of it: %+v, refused %v, problems %v", got, o.refused, o.wanted.problems)
	}
	if got := o.step(t, true); got != (work{}) {
		t.Errorf("nothing has changed: %+v", got)
	}
}
