package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quiver/kubernetes/internal/realtest"
)

// Namespaces of a large cluster, its pods and policies in each. The first pod of each namespace is on this node.
const (
	largeNamespaces = 100
	largePods       = 101
	largePolicies   = 100
)

// large is a cluster of 10000 policies in 100 namespaces. Each is for all pods of its namespace, of which one is on this node, and lets ten
// others in: 10000 sets with 100000 members. Pod p of a namespace n is 10.128.n.p.
func large() *api {
	a := &api{}
	for n := range largeNamespaces {
		namespace := fmt.Sprintf("n%d", n)
		a.namespaces.Items = append(a.namespaces.Items, core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace, ResourceVersion: "1"}})
		for p := range largePods {
			a.pods.Items = append(a.pods.Items, *largePod(n, p, p > 0, "1"))
		}
		for i := range largePolicies {
			a.policies.Items = append(a.policies.Items, *largePolicy(n, i, "1"))
		}
	}
	return a
}

// largePod is one of its pods. If it is let in, ten policies of its namespace say so.
func largePod(n, p int, in bool, version string) *core.Pod {
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: fmt.Sprintf("n%d", n), Name: fmt.Sprintf("pod%d", p), Labels: map[string]string{}, ResourceVersion: version}}
	pod.Status.PodIPs = []core.PodIP{{IP: largeAddress(n, p).String()}}
	for i := range 10 {
		if in {
			pod.Labels[fmt.Sprintf("in-%d", i)] = strconv.Itoa((p - 1) / 10)
		}
	}
	return pod
}

// largePolicy is one of its policies, which may let everybody in at some port besides.
func largePolicy(n, i int, version string, ports ...int32) *networking.NetworkPolicy {
	peer := networking.NetworkPolicyPeer{PodSelector: &meta.LabelSelector{MatchLabels: map[string]string{fmt.Sprintf("in-%d", i%10): strconv.Itoa(i / 10)}}}
	policy := &networking.NetworkPolicy{ObjectMeta: meta.ObjectMeta{Namespace: fmt.Sprintf("n%d", n), Name: fmt.Sprintf("p%d", i), ResourceVersion: version}}
	policy.Spec.Ingress = []networking.NetworkPolicyIngressRule{{From: []networking.NetworkPolicyPeer{peer}}}
	for _, port := range ports {
		policy.Spec.Ingress = append(policy.Spec.Ingress, networking.NetworkPolicyIngressRule{Ports: []networking.NetworkPolicyPort{{Port: new(intstr.FromInt32(port))}}})
	}
	return policy
}

func largeAddress(n, p int) netip.Addr { return netip.AddrFrom4([4]byte{10, 128, byte(n), byte(p)}) }

// crowd is a cluster of 100000 pods and one on this node, all of which a policy lets in there: one set with as many members.
func crowd() *api {
	a := &api{}
	a.namespaces.Items = []core.Namespace{{ObjectMeta: meta.ObjectMeta{Name: "n0", ResourceVersion: "1"}}}
	for p := range 100_001 {
		a.pods.Items = append(a.pods.Items, *crowdPod(p, p > 0, "1"))
	}
	policy := largePolicy(0, 0, "1")
	policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels = map[string]string{"in": "yes"}
	a.policies.Items = append(a.policies.Items, *policy)
	return a
}

func crowdPod(p int, in bool, version string) *core.Pod {
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "n0", Name: fmt.Sprintf("pod%d", p), ResourceVersion: version}}
	if in {
		pod.Labels = map[string]string{"in": "yes"}
	}
	pod.Status.PodIPs = []core.PodIP{{IP: crowdAddress(p).String()}}
	return pod
}

func crowdAddress(p int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 128 + byte(p>>16), byte(p >> 8), byte(p)})
}

// The same for one set of 100000 members, and a pod that goes from it or comes into it.
func BenchmarkSetOfAHundredThousand(b *testing.B) {
	s := scale(b, crowd(), []presence{{types.NamespacedName{Namespace: "n0", Name: "pod0"}, "", []netip.Addr{crowdAddress(0)}}}, crowdAddress(1))
	var each []time.Duration
	for i := range max(b.N, 20) {
		for round, in := range []bool{false, true} {
			s.api.changes["pods"].Modify(crowdPod(50_000, in, strconv.Itoa(2+2*i+round)))
			each = append(each, s.until(crowdAddress(50_000), crowdAddress(0), in))
		}
	}
	realtest.ReportTimes(b, "pod", each)
	s.flow.End(b).Report(b)
}

// scaled is a quiverd that has all of a large cluster, with packets that go on.
type scaled struct {
	api    *api
	flow   *realtest.Flow
	passes func(from, to string, port uint32) bool
}

// scale has a quiverd get all of a cluster, with the pods that are on this node, and tells how long that takes. Meanwhile the first of these is
// sent packets by somebody whom policies let in.
func scale(b *testing.B, a *api, here []presence, client netip.Addr) *scaled {
	directory := b.TempDir()
	quiverd, _ := realtest.Start(b, directory)
	s := &scaled{api: a, passes: judge(b, directory, quiverd)}
	server := here[0].addresses[0]
	s.flow = realtest.StartFlow(b, directory, quiverd, "flow", client, netip.AddrPortFrom(server, 80), server)
	begin := time.Now()
	keeper := following(b, a, quiverd, here...)
	realtest.Eventually(b, "all are there", func() bool { return keeper.Ready() == nil })
	b.ReportMetric(time.Since(begin).Seconds(), "s/sync")
	return s
}

// until is how long it takes until quiverd lets one reach another, or not any more.
func (s *scaled) until(from, to netip.Addr, passes bool) time.Duration {
	begin := time.Now()
	for s.passes(from.String(), to.String(), 80) != passes {
	}
	return time.Since(begin)
}

// How long it takes until quiverd has 10000 policies with 100000 members of sets, and then to follow one change: of a pod that goes from ten sets or
// comes into them, and of a policy. What is lost meanwhile of sessions that policies let pass is told, too.
func BenchmarkTenThousandPolicies(b *testing.B) {
	var here []presence
	for n := range largeNamespaces {
		here = append(here, presence{types.NamespacedName{Namespace: fmt.Sprintf("n%d", n), Name: "pod0"}, "", []netip.Addr{largeAddress(n, 0)}})
	}
	s := scale(b, large(), here, largeAddress(0, 1))
	outside := netip.MustParseAddr("203.0.113.1")
	var ofPods, ofPolicies []time.Duration
	for i := range max(b.N, 20) {
		n := 1 + i%(largeNamespaces-1)
		for round, in := range []bool{false, true} {
			version := strconv.Itoa(2 + 2*i + round)
			s.api.changes["pods"].Modify(largePod(n, 50, in, version))
			ofPods = append(ofPods, s.until(largeAddress(n, 50), largeAddress(n, 0), in))
			var ports []int32
			if round == 0 {
				ports = []int32{80}
			}
			s.api.changes["policies"].Modify(largePolicy(n, 50, version, ports...))
			ofPolicies = append(ofPolicies, s.until(outside, largeAddress(n, 0), round == 0))
		}
	}
	realtest.ReportTimes(b, "pod", ofPods)
	realtest.ReportTimes(b, "policy", ofPolicies)
	s.flow.End(b).Report(b)
}
