package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// cluster is three namespaces with pods a, b and c each, as Kubernetes' own tests of policies have it: all on this node, labelled with their
// names, serving 80 by the name serve-80 and 81, c 8080 by the name serve-80.
func cluster() *wanted {
	w := newWanted()
	w.setNode([]netip.Addr{netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("fd00:1::1")})
	for i, namespace := range []string{"x", "y", "z"} {
		w.setNamespace(namespace, labels.Set{"ns": "ns-" + namespace})
		for j, name := range []string{"a", "b", "c"} {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			addresses := []netip.Addr{netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i, j+1)), netip.MustParseAddr(fmt.Sprintf("fd00::%d:%d", i, j+1))}
			number := int32(80)
			if name == "c" {
				number = 8080
			}
			w.setHere(key, "", addresses)
			w.setPod(key, &Pod{key, "", labels.Set{"pod": name}, addresses, []Port{{"serve-80", core.ProtocolTCP, number}, {"serve-81", core.ProtocolTCP, 81}}})
		}
	}
	return w
}

func (w *wanted) apply(t *testing.T, text string) {
	t.Helper()
	policy := &networking.NetworkPolicy{}
	if err := yaml.UnmarshalStrict([]byte(text), policy); err != nil {
		t.Fatal(err)
	}
	w.setPolicy(types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}, policy)
}

// passes asks the lists as they are defined: what quiverd does with them is another test's. It knows nothing of how they were made.
func (w *wanted) passes(t *testing.T, from, to, protocol string, port int) bool {
	t.Helper()
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	sets := w.groups.sets
	in := func(address netip.Addr, prefixes, except, named []string) bool {
		if len(prefixes)+len(named) == 0 {
			return true
		}
		covers := func(text string) bool {
			if strings.Contains(text, "/") {
				return netip.MustParsePrefix(text).Contains(address)
			}
			return netip.MustParseAddr(text) == address
		}
		if slices.ContainsFunc(prefixes, covers) && !slices.ContainsFunc(except, covers) {
			return true
		}
		return slices.ContainsFunc(named, func(name string) bool {
			if _, is := sets[name]; !is {
				t.Errorf("there is no set %s", name)
			}
			return sets[name][address] > 0
		})
	}
	asked := func(ranges []string) bool {
		return len(ranges) == 0 || slices.ContainsFunc(ranges, func(text string) bool {
			first, last, many := strings.Cut(text, "-")
			if !many {
				last = first
			}
			low, _ := strconv.Atoi(first)
			high, _ := strconv.Atoi(last)
			return low <= port && port <= high
		})
	}
	let := func(lists []string) bool {
		if len(lists) == 0 {
			return true
		}
	lists:
		for _, name := range lists {
			if w.acls[name] == nil {
				t.Errorf("there is no list %s", name)
				continue
			}
			for _, rule := range w.acls[name].Rules {
				if (rule.Protocol == "" || rule.Protocol == protocol && asked(rule.DestinationPorts)) &&
					in(source, rule.Sources, rule.SourceExcept, rule.SourceSets) && in(destination, rule.Destinations, rule.DestinationExcept, rule.DestinationSets) {
					if rule.Action == quiver.AclAction_ACL_ACTION_NEXT {
						continue lists
					}
					return rule.Action == quiver.AclAction_ACL_ACTION_REFLECT
				}
			}
			if w.acls[name].DefaultAction == quiver.AclDefault_ACL_DEFAULT_REFLECT {
				return true
			}
		}
		return false
	}
	for _, endpoint := range w.endpoints {
		if slices.Contains(endpoint.Addresses, source.String()) && !let(endpoint.EgressAcls) || slices.Contains(endpoint.Addresses, destination.String()) && !let(endpoint.IngressAcls) {
			return false
		}
	}
	return true
}

// at is a pod's address; others are their own.
func at(who string, six bool) string {
	namespace, name, is := strings.Cut(who, "/")
	if !is {
		return who
	}
	form := "10.0.%d.%d"
	if six {
		form = "fd00::%d:%d"
	}
	return fmt.Sprintf(form, strings.Index("xyz", namespace), strings.Index("abc", name)+1)
}

const (
	header   = "metadata: {namespace: x, name: p}\n"
	onA      = header + "spec:\n  podSelector: {matchLabels: {pod: a}}\n"
	onAll    = header + "spec:\n  podSelector: {}\n"
	fromYB   = "  ingress:\n  - from:\n    - namespaceSelector: {matchLabels: {ns: ns-y}}\n      podSelector: {matchLabels: {pod: b}}\n"
	toNobody = "  policyTypes: [Egress]\n"
)

// What a policy lets pass, by what Kubernetes documents of it (https://kubernetes.io/docs/concepts/services-networking/network-policies/).
var cases = []struct {
	name, policy string
	// "FROM TO PORT", or with a protocol "FROM TO udp/PORT".
	pass, stop []string
}{
	{"nobody is kept from a pod that no policy selects", onA + "  ingress: []\n", []string{"y/a x/b 80", "x/a x/b 80", "x/a y/c 81"}, []string{"y/a x/a 80"}},
	{"default deny of ingress", onAll, []string{"x/a y/a 80", "192.168.0.1 x/a 80", "x/a x/a 80"}, []string{"y/a x/a 80", "x/b x/a 80", "8.8.8.8 x/c 80", "192.168.0.2 x/a 80"}},
	{"default deny of egress", onAll + toNobody, []string{"y/a x/a 80", "x/a x/a 80", "x/a 192.168.0.1 6443"}, []string{"x/a y/a 80", "x/a x/b 80", "x/a 8.8.8.8 udp/53"}},
	{"default deny of both", onAll + "  policyTypes: [Ingress, Egress]\n", []string{"x/a x/a 80", "y/a z/a 80"}, []string{"x/a y/a 80", "y/a x/a 80"}},
	{"all may come", onAll + "  ingress: [{}]\n", []string{"y/a x/a 80", "8.8.8.8 x/a sctp/9", "x/b x/a icmp/0"}, nil},
	{"all may be asked", onAll + "  policyTypes: [Egress]\n  egress: [{}]\n", []string{"x/a y/a 80", "x/a 8.8.8.8 udp/53"}, nil},
	{"pods of the same namespace", onA + "  ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}]}]\n", []string{"x/b x/a 80", "x/b x/a udp/1"}, []string{"y/b x/a 80", "x/c x/a 80"}},
	{"all pods of namespaces", onA + "  ingress: [{from: [{namespaceSelector: {matchLabels: {ns: ns-y}}}]}]\n", []string{"y/a x/a 80", "y/c x/a 81"}, []string{"x/b x/a 80", "z/a x/a 80"}},
	{"pods and namespaces in one peer: both", onA + fromYB, []string{"y/b x/a 80"}, []string{"y/a x/a 80", "x/b x/a 80", "z/b x/a 80"}},
	{"pods and namespaces in two peers: either",
		onA + "  ingress: [{from: [{namespaceSelector: {matchLabels: {ns: ns-y}}}, {podSelector: {matchLabels: {pod: b}}}]}]\n",
		[]string{"y/a x/a 80", "x/b x/a 80"}, []string{"z/b x/a 80", "x/c x/a 80"}},
	{"expressions", onA + "  ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: [ns-x]}]}}]}]\n",
		[]string{"y/a x/a 80", "z/a x/a 80"}, []string{"x/b x/a 80"}},
	{"a number", onA + "  ingress: [{ports: [{port: 81}]}]\n", []string{"y/a x/a 81", "8.8.8.8 x/a 81"}, []string{"y/a x/a 80", "y/a x/a udp/81"}},
	{"numbers of several protocols", onA + "  ingress: [{ports: [{port: 81, protocol: UDP}, {port: 80}, {protocol: SCTP}]}]\n",
		[]string{"y/a x/a udp/81", "y/a x/a 80", "y/a x/a sctp/7"}, []string{"y/a x/a 81", "y/a x/a udp/80", "y/a x/a icmp/0"}},
	{"a range, and one that it overlaps", onA + "  ingress: [{ports: [{port: 80, endPort: 90}, {port: 85, endPort: 100}, {port: 101}]}]\n",
		[]string{"y/a x/a 80", "y/a x/a 95", "y/a x/a 101"}, []string{"y/a x/a 79", "y/a x/a 102"}},
	{"a name is each pod's own number", onAll + "  ingress: [{ports: [{port: serve-80}]}]\n", []string{"y/a x/a 80", "y/a x/c 8080"}, []string{"y/a x/c 80", "y/a x/a 8080", "y/a x/a 81"}},
	{"a name that nobody has", onAll + "  ingress: [{ports: [{port: none}]}]\n", nil, []string{"y/a x/a 80"}},
	{"a name asked by whom it is asked", onA + "  policyTypes: [Egress]\n  egress: [{to: [{namespaceSelector: {matchLabels: {ns: ns-y}}}], ports: [{port: serve-80}]}]\n",
		[]string{"x/a y/a 80", "x/a y/c 8080"}, []string{"x/a y/c 80", "x/a z/a 80", "x/a y/a 81"}},
	{"a name asked of anybody", onA + "  policyTypes: [Egress]\n  egress: [{ports: [{port: serve-80}]}]\n", []string{"x/a z/c 8080", "x/a x/b 80"}, []string{"x/a z/c 80", "x/a 8.8.8.8 80"}},
	{"from and ports: both", onA + "  ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]\n", []string{"x/b x/a 80"}, []string{"x/b x/a 81", "y/b x/a 80"}},
	{"two rules: either", onA + "  ingress: [{from: [{podSelector: {}}]}, {ports: [{port: 80}]}]\n", []string{"x/b x/a 81", "y/b x/a 80"}, []string{"y/b x/a 81"}},
	{"a block with exceptions", onA + "  policyTypes: [Egress]\n  egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.0.1.0/24, 10.0.2.3/32]}}, {ipBlock: {cidr: 8.8.8.9/30}}, {ipBlock: {cidr: 10.0.1.3/32}}]}]\n",
		[]string{"10.0.0.1 10.0.0.2 80", "10.0.0.1 10.0.2.2 80", "10.0.0.1 8.8.8.8 80", "10.0.0.1 10.0.1.3 80"}, []string{"10.0.0.1 10.0.1.1 80", "10.0.0.1 10.0.2.3 80", "10.0.0.1 9.9.9.9 80"}},
	{"blocks of both families", onA + "  ingress: [{from: [{ipBlock: {cidr: 'fd00::1:0/112'}}, {ipBlock: {cidr: 10.0.2.0/24}}]}]\n", []string{"fd00::1:2 fd00::0:1 80", "10.0.2.1 10.0.0.1 80"},
		[]string{"fd00::2:1 fd00::0:1 80", "10.0.1.1 10.0.0.1 80"}},
}

func TestPoliciesLetPassWhatKubernetesSays(t *testing.T) {
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			w := cluster()
			w.apply(t, one.policy)
			w.settle()
			if len(w.problems) > 0 {
				t.Error(w.problems)
			}
			w.expect(t, one.pass, one.stop)
		})
	}
}

// expect asks about sessions, of both families where pods are at both ends.
func (w *wanted) expect(t *testing.T, pass, stop []string) {
	t.Helper()
	for _, expected := range []bool{true, false} {
		ways := pass
		if !expected {
			ways = stop
		}
		for _, way := range ways {
			words := strings.Fields(way)
			protocol, port, said := strings.Cut(words[2], "/")
			if !said {
				protocol, port = "tcp", words[2]
			}
			number, _ := strconv.Atoi(port)
			for _, six := range []bool{false, true} {
				from, to := at(words[0], six), at(words[1], six)
				if strings.Contains(from, ":") == strings.Contains(to, ":") && w.passes(t, from, to, protocol, number) != expected {
					t.Errorf("%s (%s to %s): expected %v", way, from, to, expected)
				}
			}
		}
	}
}

func TestChangesAreFollowed(t *testing.T) {
	w := cluster()
	expect := func(way string, expected bool) {
		t.Helper()
		w.settle()
		words := strings.Fields(way)
		if w.passes(t, at(words[0], false), at(words[1], false), "tcp", 80) != expected {
			t.Errorf("%s: expected %v", way, expected)
		}
	}
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	w.apply(t, onA+fromYB)
	expect("y/b x/a", true)
	expect("y/a x/a", false)
	// A pod's labels.
	w.setPod(key("y", "a"), &Pod{key("y", "a"), "", labels.Set{"pod": "b"}, []netip.Addr{netip.MustParseAddr("10.0.1.1")}, nil})
	expect("y/a x/a", true)
	w.setPod(key("y", "a"), nil)
	expect("y/a x/a", false)
	// Its address.
	w.setPod(key("y", "b"), &Pod{key("y", "b"), "", labels.Set{"pod": "b"}, []netip.Addr{netip.MustParseAddr("10.0.9.9")}, nil})
	expect("y/b x/a", false)
	expect("10.0.9.9 x/a", true)
	// A namespace's labels.
	w.setNamespace("y", labels.Set{"ns": "other"})
	expect("10.0.9.9 x/a", false)
	w.setNamespace("z", labels.Set{"ns": "ns-y"})
	expect("z/b x/a", true)
	// Another policy beside it: either.
	w.apply(t, strings.Replace(onA, "name: p", "name: q", 1)+"  ingress: [{from: [{podSelector: {}}]}]\n")
	expect("x/c x/a", true)
	expect("z/b x/a", true)
	expect("z/a x/a", false)
	// The pod that it is for.
	w.setPod(key("x", "a"), &Pod{key("x", "a"), "", labels.Set{"pod": "d"}, []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil})
	expect("z/a x/a", true)
	if len(w.endpoints) != 0 || len(w.groups.inUse) != 0 || len(w.acls) != 1 {
		t.Errorf("no policy selects a pod of this node, but there are %v, %v, %v", w.endpoints, w.groups.inUse, w.acls)
	}
	w.setHere(key("x", "b"), "", nil)
	w.apply(t, onAll)
	expect("z/a x/a", false)
	expect("z/a x/b", true)
	// It goes.
	w.setPolicy(key("x", "p"), nil)
	expect("z/a x/a", true)
	w.setPolicy(key("x", "q"), nil)
	w.settle()
	if len(w.policies) != 0 || len(w.endpoints) != 0 || len(w.acls) != 1 {
		t.Errorf("nothing is left, but there are %v, %v", w.policies, w.endpoints)
	}
}

func TestAPodIsGuardedByItsOwnLabelsAsLongAsItIsHere(t *testing.T) {
	w := cluster()
	key := types.NamespacedName{Namespace: "x", Name: "web-0"}
	own, next := []netip.Addr{netip.MustParseAddr("10.0.0.9")}, []netip.Addr{netip.MustParseAddr("10.0.0.10")}
	w.apply(t, onA)
	w.setHere(key, "first", own)
	w.setPod(key, &Pod{key, "first", labels.Set{"pod": "a"}, own, nil})
	expect := func(address string, expected bool) {
		t.Helper()
		w.settle()
		if w.passes(t, "8.8.8.8", address, "tcp", 80) != expected {
			t.Errorf("%s: expected %v", address, expected)
		}
	}
	expect("10.0.0.9", false)
	// The API server has forgotten it, by force; it still runs.
	w.setPod(key, nil)
	expect("10.0.0.9", false)
	// One made anew by its name, with other labels, and the other way round.
	w.setHere(key, "second", next)
	w.setPod(key, &Pod{key, "second", labels.Set{"pod": "z"}, next, nil})
	expect("10.0.0.10", true)
	expect("10.0.0.9", false)
	w.setPod(key, &Pod{key, "third", labels.Set{"pod": "a"}, nil, nil})
	expect("10.0.0.10", true)
	w.setHere(key, "first", nil)
	expect("10.0.0.9", true)
}

// Of a pod that has ended there is an object still, with an address that another one may have by then.
func TestWhoHasEndedHasNoAddressAnyMore(t *testing.T) {
	w := cluster()
	w.apply(t, onA+"  ingress: [{from: [{podSelector: {matchLabels: {pod: job}}}]}]\n")
	tell := func(name, address string, phase core.PodPhase, ofNode bool) {
		object := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "x", Name: name, Labels: map[string]string{"pod": strings.TrimRight(name, "0123456789")}}}
		object.Spec.HostNetwork = ofNode
		object.Status = core.PodStatus{Phase: phase, PodIPs: []core.PodIP{{IP: address}}}
		w.setPod(types.NamespacedName{Namespace: "x", Name: name}, PodOf(object))
	}
	expect := func(from string, expected bool) {
		t.Helper()
		w.settle()
		if w.passes(t, from, "10.0.0.1", "tcp", 80) != expected {
			t.Errorf("%s: expected %v", from, expected)
		}
	}
	tell("job", "10.0.7.7", core.PodRunning, false)
	expect("10.0.7.7", true)
	for _, ended := range []core.PodPhase{core.PodSucceeded, core.PodFailed} {
		tell("job", "10.0.7.7", ended, false)
		expect("10.0.7.7", false)
		// Another one has it, who may, and then one who may not.
		tell("job2", "10.0.7.7", core.PodRunning, false)
		expect("10.0.7.7", true)
		tell("job2", "10.0.7.7", ended, false)
		tell("stranger", "10.0.7.7", core.PodRunning, false)
		expect("10.0.7.7", false)
		tell("job", "10.0.7.7", core.PodRunning, false)
		expect("10.0.7.7", true)
	}
	// One with the host's network is the node, whose address isn't its own.
	tell("job", "192.168.0.9", core.PodRunning, true)
	expect("192.168.0.9", false)
}

// The runtime deletes a pod's sandbox and makes another one at once: it is the same pod, and both are heard of together.
func TestAPodThatIsMadeAnewStaysGuarded(t *testing.T) {
	w := cluster()
	key := types.NamespacedName{Namespace: "x", Name: "a"}
	w.apply(t, onA)
	for number := range byte(50) {
		w.settle()
		w.setHere(key, "", nil)
		next := netip.AddrFrom4([4]byte{10, 0, 7, number})
		w.setHere(key, "", []netip.Addr{next})
		w.settle()
		if w.passes(t, "8.8.8.8", next.String(), "tcp", 80) {
			t.Fatalf("after %d times it isn't guarded", number)
		}
	}
}

func TestNumbersOfANameAreFollowed(t *testing.T) {
	w := cluster()
	w.apply(t, onAll+"  ingress: [{ports: [{port: serve-80}]}]\n")
	w.settle()
	key := types.NamespacedName{Namespace: "x", Name: "b"}
	w.setPod(key, &Pod{key, "", labels.Set{"pod": "b"}, []netip.Addr{netip.MustParseAddr("10.0.0.2")}, []Port{{"serve-80", core.ProtocolTCP, 9000}}})
	w.settle()
	for port, expected := range map[int]bool{80: false, 9000: true} {
		if w.passes(t, "8.8.8.8", "10.0.0.2", "tcp", port) != expected {
			t.Errorf("port %d: expected %v", port, expected)
		}
	}
	if w.passes(t, "8.8.8.8", "10.0.0.1", "tcp", 9000) || !w.passes(t, "8.8.8.8", "10.0.0.1", "tcp", 80) {
		t.Error("another pod has another number than it had")
	}
}

func TestWhatCantBeUnderstoodPermitsNothingAndIsTold(t *testing.T) {
	w := cluster()
	w.apply(t, onA+"  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/33}}, {podSelector: {matchLabels: {pod: b}}}]}, {ports: [{port: 90, endPort: 80}]}]\n")
	w.settle()
	problems := strings.Join(w.problems[types.NamespacedName{Namespace: "x", Name: "p"}], "; ")
	for _, expected := range []string{"ingress-0, peer 0: ipBlock", "10.0.0.0/33", "ingress-1, port 0: 90-80 is no range of ports"} {
		if !strings.Contains(problems, expected) {
			t.Errorf("%q isn't in %q", expected, problems)
		}
	}
	if !w.passes(t, "10.0.0.2", "10.0.0.1", "tcp", 80) || w.passes(t, "10.0.1.1", "10.0.0.1", "tcp", 85) {
		t.Error("the rest of it isn't in force")
	}
}

func TestNamesAreShortAndOnePolicyIsNotTakenForAnother(t *testing.T) {
	long := strings.Repeat("long-", 50)
	seen := map[string]bool{}
	for _, key := range []types.NamespacedName{{Namespace: long, Name: "a"}, {Namespace: long, Name: "b"}, {Namespace: "a.b", Name: "c"}, {Namespace: "a", Name: "b.c"}} {
		for _, of := range []direction{ingress, egress} {
			name := listName(key, of)
			if len(name) > longestName || !strings.HasPrefix(name, Ours) || seen[name] {
				t.Errorf("%q", name)
			}
			seen[name] = true
		}
	}
}
