package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	core "k8s.io/api/core/v1"
)

// administrators reads objects of their kinds, as the API server would store them.
func administrators(t *testing.T, text string) (all []*clusterwide) {
	t.Helper()
	for part := range strings.SplitSeq(text, "---\n") {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal([]byte(part), &kind); err != nil {
			t.Fatal(err)
		}
		object, is := map[string]runtime.Object{
			"": &v1alpha2.ClusterNetworkPolicy{}, adminKind: &v1alpha1.AdminNetworkPolicy{}, baselineKind: &v1alpha1.BaselineAdminNetworkPolicy{},
		}[kind.Kind]
		if !is {
			t.Fatal(kind)
		}
		if err := yaml.UnmarshalStrict([]byte(part), object); err != nil {
			t.Fatal(err)
		}
		all = append(all, clusterwideOf(object))
	}
	return all
}

func (w *wanted) administer(t *testing.T, text string) {
	t.Helper()
	for _, policy := range administrators(t, text) {
		w.setClusterwide(policy.key(), policy)
	}
}

func head(name, tier string, priority string) string {
	return "metadata: {name: " + name + "}\nspec:\n  tier: " + tier + "\n  priority: " + priority + "\n"
}

const (
	subjectX  = "  subject: {namespaces: {matchLabels: {ns: ns-x}}}\n"
	subjectXA = "  subject: {pods: {namespaceSelector: {matchLabels: {ns: ns-x}}, podSelector: {matchLabels: {pod: a}}}}\n"
	nsY       = "{namespaces: {matchLabels: {ns: ns-y}}}"
	podYB     = "{pods: {namespaceSelector: {matchLabels: {ns: ns-y}}, podSelector: {matchLabels: {pod: b}}}}"
	noneOfX   = "metadata: {namespace: x, name: none}\nspec: {podSelector: {}, policyTypes: [Ingress, Egress]}\n"
	allOfX    = "metadata: {namespace: x, name: all}\nspec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}\n"
)

// What the API says of tiers, priorities and rules (https://network-policy-api.sigs.k8s.io).
var tierCases = []struct {
	name, administrators, policy string
	pass, stop                   []string
}{
	{"deny of ingress, by namespaces", head("p", "Admin", "1") + subjectX + "  ingress: [{action: Deny, from: [" + nsY + "]}]\n", "",
		[]string{"z/a x/a 80", "x/b x/a 80", "y/a z/a 80", "x/a y/a 80", "8.8.8.8 x/a 80", "192.168.0.1 x/a 80"}, []string{"y/a x/a 80", "y/c x/b udp/53"}},
	{"a subject by namespaces and pods, a peer likewise", head("p", "Admin", "1") + subjectXA + "  egress: [{action: Deny, to: [" + podYB + "]}]\n", "",
		[]string{"x/a y/a 80", "x/b y/b 80", "y/b x/a 80"}, []string{"x/a y/b 80", "x/a y/b icmp/0"}},
	{"the first rule decides", head("p", "Admin", "1") + subjectX + "  ingress: [{action: Accept, from: [" + podYB + "]}, {action: Deny, from: [" + nsY + "]}]\n", "",
		[]string{"y/b x/a 80", "z/a x/a 80"}, []string{"y/a x/a 80"}},
	{"accept comes before NetworkPolicies", head("p", "Admin", "1") + subjectX + "  ingress: [{action: Accept, from: [" + nsY + "]}]\n", noneOfX,
		[]string{"y/a x/a 80"}, []string{"z/a x/a 80", "x/a y/a 80"}},
	{"deny comes before NetworkPolicies", head("p", "Admin", "1") + subjectX + "  ingress: [{action: Deny, from: [" + nsY + "]}]\n", allOfX,
		[]string{"z/a x/a 80"}, []string{"y/a x/a 80"}},
	{"pass leaves it to NetworkPolicies, past all rules of the tier",
		head("p", "Admin", "1") + subjectX + "  ingress: [{action: Pass, from: [" + podYB + "]}, {action: Deny, from: [" + nsY + "]}]\n---\n" +
			head("q", "Admin", "2") + subjectX + "  ingress: [{action: Deny, from: [" + podYB + "]}]\n", "metadata: {namespace: x, name: a}\nspec: {podSelector: {matchLabels: {pod: a}}}\n",
		[]string{"y/b x/b 80", "z/a x/b 80"}, []string{"y/b x/a 80", "y/a x/b 80", "z/a x/a 80"}},
	{"pass leaves it to the baseline where no NetworkPolicy is",
		head("p", "Admin", "1") + subjectX + "  egress: [{action: Pass, to: [" + nsY + "]}]\n---\n" + head("b", "Baseline", "1") + subjectX + "  egress: [{action: Deny, to: [" + nsY + "]}]\n", "",
		[]string{"x/a z/a 80"}, []string{"x/a y/a 80"}},
	{"lower priorities are asked first",
		head("second", "Admin", "2") + subjectX + "  ingress: [{action: Deny, from: [" + nsY + "]}]\n---\n" + head("first", "Admin", "1") + subjectXA + "  ingress: [{action: Accept, from: [" + nsY + "]}]\n", "",
		[]string{"y/a x/a 80"}, []string{"y/a x/b 80"}},
	{"the baseline comes behind NetworkPolicies", head("p", "Baseline", "1") + subjectX + "  ingress: [{action: Deny, from: [" + nsY + "]}]\n",
		"metadata: {namespace: x, name: a}\nspec: {podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{namespaceSelector: {}}]}]}\n",
		[]string{"y/a x/a 80", "z/a x/b 80"}, []string{"y/a x/b 80", "8.8.8.8 x/a 80"}},
	{"a NetworkPolicy of one direction leaves the other to the baseline", head("p", "Baseline", "1") + subjectX + "  egress: [{action: Deny, to: [" + nsY + "]}]\n",
		"metadata: {namespace: x, name: a}\nspec: {podSelector: {}, ingress: [{}]}\n", []string{"y/a x/a 80", "x/a z/a 80"}, []string{"x/a y/a 80"}},
	{"numbers, ranges, and all of a protocol",
		head("p", "Admin", "1") + subjectX + "  ingress: [{action: Deny, from: [" + nsY + "], protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {destinationPort: {range: {start: 50, end: 60}}}}, {sctp: {}}]}]\n", "",
		[]string{"y/a x/a 81", "y/a x/a udp/61", "y/a x/a icmp/0"}, []string{"y/a x/a 80", "y/a x/a udp/53", "y/a x/a sctp/9"}},
	{"names of the subject's ports", head("p", "Admin", "1") + subjectX + "  ingress: [{action: Deny, from: [" + nsY + "], protocols: [{destinationNamedPort: serve-80}]}]\n", "",
		[]string{"y/a x/a 8080", "y/a x/c 80"}, []string{"y/a x/a 80", "y/a x/c 8080"}},
	{"names of peers' ports", head("p", "Admin", "1") + subjectX + "  egress: [{action: Deny, to: [" + nsY + "], protocols: [{destinationNamedPort: serve-80}]}]\n", "",
		[]string{"x/a y/a 8080", "x/a y/c 80", "x/a z/a 80"}, []string{"x/a y/a 80", "x/a y/c 8080"}},
	{"networks, of both families", head("p", "Admin", "1") + subjectX + "  egress: [{action: Accept, to: [{networks: [10.0.1.1/32, 'fd00::1:1/128']}]}, {action: Deny, to: [{networks: [0.0.0.0/0, '::/0']}]}]\n", "",
		[]string{"x/a y/a 80", "y/a x/a 80", "x/a x/a 80"}, []string{"x/a y/b 80", "x/a 8.8.8.8 80", "x/a fd00:9::1 80"}},
	{"nodes by labels, also the pod's own", head("p", "Admin", "1") + subjectX + "  egress: [{action: Deny, to: [{nodes: {matchLabels: {role: worker}}}]}]\n", "",
		[]string{"x/a 192.168.0.2 80", "192.168.0.1 x/a 80", "y/a 192.168.0.1 80"}, []string{"x/a 192.168.0.1 80", "x/a fd00:1::1 80"}},
	{"all nodes are no pods, and all pods no nodes",
		head("p", "Admin", "1") + subjectX + "  egress: [{action: Accept, to: [{nodes: {}}]}, {action: Deny, to: [{namespaces: {}}]}]\n", "",
		[]string{"x/a 192.168.0.1 80", "x/a 192.168.0.2 80", "x/a 8.8.8.8 80"}, []string{"x/a y/a 80"}},
	{"AdminNetworkPolicy",
		"kind: AdminNetworkPolicy\nmetadata: {name: p}\nspec:\n  priority: 1\n" + subjectX +
			"  ingress: [{action: Allow, from: [" + podYB + "], ports: [{portNumber: {port: 80}}, {portRange: {protocol: UDP, start: 1, end: 9}}, {namedPort: serve-81}]}, {action: Deny, from: [" + nsY + "]}]\n" +
			"  egress: [{action: Deny, to: [{nodes: {}}, {networks: [8.0.0.0/8]}]}]\n", noneOfX,
		[]string{"y/b x/a 80", "y/b x/a udp/9", "y/b x/a 81"}, []string{"y/b x/a 82", "y/a x/a 80", "x/a 192.168.0.1 80", "x/a 8.8.8.8 80"}},
	{"BaselineAdminNetworkPolicy is asked behind ClusterNetworkPolicies",
		"kind: BaselineAdminNetworkPolicy\nmetadata: {name: default}\nspec:\n" + subjectX + "  egress: [{action: Deny, to: [" + nsY + ", {networks: [8.0.0.0/8]}]}]\n---\n" +
			head("p", "Baseline", "1000") + subjectX + "  egress: [{action: Accept, to: [" + podYB + "]}]\n", "",
		[]string{"x/a y/b 80", "x/a z/a 80"}, []string{"x/a y/a 80", "x/a 8.8.8.8 80"}},
}

// withNodes is a cluster with two nodes, of which the first is this one.
func withNodes() *wanted {
	w := cluster()
	for i, role := range []string{"worker", "control"} {
		name := "n" + string(rune('1'+i))
		addresses := []core.NodeAddress{{Type: core.NodeHostName, Address: name}, {Type: core.NodeInternalIP, Address: "192.168.0." + name[1:]}, {Type: core.NodeInternalIP, Address: "fd00:1::" + name[1:]}}
		node := nodeOf(&core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels.Set{"role": role}}, Status: core.NodeStatus{Addresses: addresses}})
		w.setPod(node.Key, node)
	}
	return w
}

func TestTiersLetPassWhatTheAPISays(t *testing.T) {
	for _, one := range tierCases {
		t.Run(one.name, func(t *testing.T) {
			w := withNodes()
			w.administer(t, one.administrators)
			if one.policy != "" {
				w.apply(t, one.policy)
			}
			w.settle()
			if len(w.problems) > 0 {
				t.Error(w.problems)
			}
			w.expect(t, one.pass, one.stop)
		})
	}
}

func TestChangesOfTiersAreFollowed(t *testing.T) {
	w := withNodes()
	w.administer(t, head("p", "Admin", "10")+subjectXA+"  ingress: [{action: Deny, from: ["+nsY+"]}]\n---\n"+head("q", "Admin", "20")+subjectX+"  ingress: [{action: Accept, from: ["+podYB+"]}]\n")
	then := func(pass, stop []string) {
		t.Helper()
		w.settle()
		w.expect(t, pass, stop)
	}
	then([]string{"y/b x/b 80", "z/a x/a 80"}, []string{"y/b x/a 80", "y/a x/a 80"})
	// Priorities.
	w.administer(t, head("q", "Admin", "5")+subjectX+"  ingress: [{action: Accept, from: ["+podYB+"]}]\n")
	then([]string{"y/b x/a 80"}, []string{"y/a x/a 80"})
	// Rules, and a direction that had none.
	w.administer(t, head("q", "Admin", "5")+subjectX+"  ingress: [{action: Pass, from: ["+nsY+"]}]\n  egress: [{action: Deny, to: ["+nsY+"]}]\n")
	then([]string{"y/a x/a 80"}, []string{"x/b y/a 80"})
	// Labels of the namespace that a policy is for, and of a pod.
	w.setNamespace("x", labels.Set{"ns": "other"})
	then([]string{"y/a x/a 80", "x/b y/a 80"}, nil)
	w.setNamespace("z", labels.Set{"ns": "ns-x"})
	then(nil, []string{"z/b y/a 80"})
	w.setNamespace("x", labels.Set{"ns": "ns-x"})
	w.setPod(types.NamespacedName{Namespace: "y", Name: "b"}, nil)
	then([]string{"x/b y/b 80"}, []string{"x/b y/a 80"})
	// A namespace that is forgotten while its pods are still here.
	w.setNamespace("x", nil)
	then(nil, []string{"x/b y/a 80"})
	// Tiers.
	w.administer(t, head("q", "Baseline", "5")+subjectX+"  egress: [{action: Deny, to: ["+nsY+"]}]\n")
	w.apply(t, allOfX)
	then([]string{"x/b y/a 80"}, []string{"y/a x/a 80", "z/b y/a 80"})
	// Pods with the same policies share lists.
	if w.apply(t, strings.ReplaceAll(allOfX, "namespace: x", "namespace: z")); len(w.tiers.chains) != 2 {
		t.Errorf("%v", w.tiers.chains)
	}
	// They go.
	for _, name := range []string{"p", "q"} {
		w.setClusterwide(clusterKey(clusterKind, name), nil)
	}
	for _, namespace := range []string{"x", "z"} {
		w.setPolicy(types.NamespacedName{Namespace: namespace, Name: "all"}, nil)
	}
	then([]string{"y/a x/a 80", "z/b y/a 80"}, nil)
	if len(w.acls) != 1 || len(w.endpoints)+len(w.groups.inUse)+len(w.tiers.policies)+len(w.tiers.chains)+len(w.tiers.rest) != 0 {
		t.Errorf("nothing is left, but there are %v, %v, %v", w.acls, w.endpoints, w.tiers)
	}
}

// What isn't understood accepts nobody, or denies all, as the API asks for.
func TestRulesOfTiersThatCantBeUnderstoodFailClosedAndAreTold(t *testing.T) {
	for _, one := range []struct {
		name, text, problem string
		pass, stop          []string
	}{
		{"domain names, accepted", "  egress: [{action: Accept, to: [{domainNames: ['*.example.org']}]}, {action: Deny, to: [{networks: [0.0.0.0/0]}]}]\n",
			"egress-0, peer 0: domainNames aren't supported: say networks; egress-0 accepts nobody", []string{"y/a x/a 80"}, []string{"10.0.0.1 8.8.8.8 80"}},
		{"a peer of another version, denied", "  ingress: [{action: Deny, from: [{}]}]\n", "ingress-0, peer 0: neither namespaces nor pods; ingress-0 denies all",
			[]string{"x/a y/a 80", "x/a x/a 80", "192.168.0.1 x/a 80"}, []string{"y/a x/a 80", "8.8.8.8 x/a 80"}},
		{"the same, passed on", "  ingress: [{action: Pass, from: [{}]}]\n", "ingress-0 denies all", nil, []string{"y/a x/a 80"}},
		{"the same, accepted", "  ingress: [{action: Accept, from: [{}]}, {action: Deny, from: [{namespaces: {}}]}]\n", "ingress-0 accepts nobody", []string{"8.8.8.8 x/a 80"}, []string{"y/a x/a 80"}},
		{"a protocol of another version", "  ingress: [{action: Deny, from: [" + nsY + "], protocols: [{}]}]\n", "ingress-0, protocol 0: none of tcp, udp, sctp and destinationNamedPort", nil, []string{"z/a x/a 80"}},
		{"an operator that there isn't", "  ingress: [{action: Deny, from: [{namespaces: {matchExpressions: [{key: a, operator: Like}]}}]}]\n", "namespaceSelector", nil, []string{"z/a x/a 80"}},
		{"an action that there isn't", "  ingress: [{action: Log, from: [" + nsY + "]}]\n", `action "Log" isn't known`, nil, []string{"z/a x/a 80"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			w := withNodes()
			w.administer(t, head("p", "Admin", "1")+subjectX+one.text)
			w.settle()
			if problems := strings.Join(w.problems[clusterKey(clusterKind, "p")], "; "); !strings.Contains(problems, one.problem) {
				t.Errorf("%q isn't in %q", one.problem, problems)
			}
			w.expect(t, one.pass, one.stop)
		})
	}
	// Nobody knows for whom it is: it is for nobody.
	w := withNodes()
	w.administer(t, head("p", "Admin", "1")+"  subject: {}\n  ingress: [{action: Deny, from: [{namespaces: {}}]}]\n")
	w.settle()
	if problems := strings.Join(w.problems[clusterKey(clusterKind, "p")], "; "); !strings.Contains(problems, "it is for nobody") {
		t.Error(problems)
	}
	w.expect(t, []string{"y/a x/a 80"}, nil)
}

// Two policies' rules are told apart, and who asks hears whose a rule is.
func TestRulesOfTiersSayWhoseTheyAre(t *testing.T) {
	w := withNodes()
	w.administer(t, head("p", "Admin", "1")+subjectX+"  ingress: [{name: no-y, action: Deny, from: ["+nsY+"]}]\n---\n"+head("q", "Admin", "2")+subjectX+"  ingress: [{action: Deny, from: ["+nsY+"]}]\n")
	w.settle()
	var said []string
	for name := range w.tiers.chains {
		for _, rule := range w.acls[name].Rules {
			said = append(said, rule.Name+": "+rule.Remark)
		}
	}
	want := "0.ingress-0.0: ingress-0 of ClusterNetworkPolicy p (no-y)|1.ingress-0.0: ingress-0 of ClusterNetworkPolicy q"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestANodesAddressesAreThoseThatAreSome(t *testing.T) {
	node := nodeOf(&core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}, Status: core.NodeStatus{Addresses: []core.NodeAddress{
		{Type: core.NodeHostName, Address: "n"}, {Type: core.NodeInternalIP, Address: "10.0.0.1"}, {Type: core.NodeExternalIP, Address: "10.0.0.1"},
	}}, Spec: core.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "?"}}})
	// The other one is what its host has in tunnels.
	if want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.244.1.0")}; !slices.Equal(node.Addresses, want) {
		t.Error(node.Addresses)
	}
}
