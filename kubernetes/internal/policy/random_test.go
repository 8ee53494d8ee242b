package policy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// world is the objects as they are, and asks them directly.
type world struct {
	namespaces map[string]labels.Set
	pods       map[types.NamespacedName]*Pod
	policies   map[types.NamespacedName]*networking.NetworkPolicy
	tiered     map[types.NamespacedName]*clusterwide
}

func (o *world) allows(from, to *Pod, protocol core.Protocol, port int32) bool {
	if from.Key == to.Key {
		return true
	}
	for _, of := range []direction{ingress, egress} {
		guarded, other := to, from
		if of == egress {
			guarded, other = from, to
		}
		switch o.tier(v1alpha2.AdminTier, of, guarded, other, to, protocol, port) {
		case v1alpha2.ClusterNetworkPolicyRuleActionAccept:
			continue
		case v1alpha2.ClusterNetworkPolicyRuleActionDeny:
			return false
		}
		isolated, allowed := false, false
		for _, policy := range o.policies {
			if policy.Namespace != guarded.Key.Namespace || !fits(&policy.Spec.PodSelector, guarded.Labels) || !slices.Contains(directions(policy), of) {
				continue
			}
			isolated = true
			if of == ingress {
				for _, rule := range policy.Spec.Ingress {
					allowed = allowed || o.peers(policy, rule.From, other) && asked(rule.Ports, to, protocol, port)
				}
			} else {
				for _, rule := range policy.Spec.Egress {
					// Names of ports are those of pods, which blocks know nothing of.
					numbers := slices.DeleteFunc(slices.Clone(rule.Ports), named)
					names := slices.DeleteFunc(slices.Clone(rule.Ports), func(port networking.NetworkPolicyPort) bool { return !named(port) })
					peers := slices.DeleteFunc(slices.Clone(rule.To), func(peer networking.NetworkPolicyPeer) bool { return peer.IPBlock != nil })
					allowed = allowed || (len(numbers) > 0 || len(names) == 0) && o.peers(policy, rule.To, other) && asked(numbers, to, protocol, port) ||
						len(names) > 0 && (len(peers) > 0 || len(rule.To) == 0) && o.peers(policy, peers, other) && asked(names, to, protocol, port)
				}
			}
		}
		if isolated && !allowed || !isolated && o.tier(v1alpha2.BaselineTier, of, guarded, other, to, protocol, port) == v1alpha2.ClusterNetworkPolicyRuleActionDeny {
			return false
		}
	}
	return true
}

func fits(selector *meta.LabelSelector, set labels.Set) bool {
	made, err := meta.LabelSelectorAsSelector(selector)
	return err == nil && made.Matches(set)
}

func (o *world) peers(policy *networking.NetworkPolicy, peers []networking.NetworkPolicyPeer, other *Pod) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networking.NetworkPolicyPeer) bool {
		if peer.IPBlock != nil {
			within := func(text string) bool { return netip.MustParsePrefix(text).Contains(other.Addresses[0]) }
			return within(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, within)
		}
		if peer.NamespaceSelector == nil && other.Key.Namespace != policy.Namespace || peer.NamespaceSelector != nil && !fits(peer.NamespaceSelector, o.namespaces[other.Key.Namespace]) {
			return false
		}
		return peer.PodSelector == nil || fits(peer.PodSelector, other.Labels)
	})
}

func named(port networking.NetworkPolicyPort) bool {
	return port.Port != nil && port.Port.Type == intstr.String
}

func asked(ports []networking.NetworkPolicyPort, of *Pod, protocol core.Protocol, number int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(port networking.NetworkPolicyPort) bool {
		switch {
		case port.Protocol != nil && *port.Protocol != protocol || port.Protocol == nil && protocol != core.ProtocolTCP:
			return false
		case port.Port == nil:
			return true
		case port.Port.Type == intstr.String:
			return slices.Contains(of.Ports, Port{port.Port.StrVal, protocol, number})
		case port.EndPort != nil:
			return port.Port.IntVal <= number && number <= *port.EndPort
		}
		return port.Port.IntVal == number
	})
}

// draw makes objects at random, of few names, so that they have much to do with each other.
type draw struct{ *rand.Rand }

func (d draw) of(all ...string) string { return all[d.IntN(len(all))] }

func (d draw) labels() labels.Set {
	set := labels.Set{}
	for _, key := range []string{"a", "b"} {
		if d.IntN(3) > 0 {
			set[key] = d.of("1", "2")
		}
	}
	return set
}

func (d draw) selector() *meta.LabelSelector {
	switch d.IntN(4) {
	case 0:
		return &meta.LabelSelector{}
	case 1:
		operator := []meta.LabelSelectorOperator{meta.LabelSelectorOpIn, meta.LabelSelectorOpNotIn}[d.IntN(2)]
		return &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{{Key: d.of("a", "b"), Operator: operator, Values: []string{d.of("1", "2")}}}}
	}
	return &meta.LabelSelector{MatchLabels: map[string]string{d.of("a", "b"): d.of("1", "2")}}
}

func (d draw) peers() (peers []networking.NetworkPolicyPeer) {
	for range d.IntN(3) {
		peer := networking.NetworkPolicyPeer{}
		switch d.IntN(4) {
		case 0:
			peer.IPBlock = &networking.IPBlock{CIDR: d.of("10.0.0.0/29", "10.0.0.0/8", "10.0.0.4/30"), Except: []string{"10.0.0.2/31", "10.0.0.5/32"}[:d.IntN(3)]}
			peer.IPBlock.Except = slices.DeleteFunc(peer.IPBlock.Except, func(string) bool { return peer.IPBlock.CIDR == "10.0.0.4/30" })
		case 1:
			peer.PodSelector = d.selector()
		case 2:
			peer.NamespaceSelector = d.selector()
		case 3:
			peer.PodSelector, peer.NamespaceSelector = d.selector(), d.selector()
		}
		peers = append(peers, peer)
	}
	return peers
}

func (d draw) ports() (ports []networking.NetworkPolicyPort) {
	for range d.IntN(3) {
		port := networking.NetworkPolicyPort{}
		if d.IntN(2) == 0 {
			protocol := []core.Protocol{core.ProtocolTCP, core.ProtocolUDP}[d.IntN(2)]
			port.Protocol = &protocol
		}
		switch d.IntN(4) {
		case 0:
			name := intstr.FromString(d.of("p", "q"))
			port.Port = &name
		case 1:
			number := intstr.FromInt32(1 + d.Int32N(3))
			port.Port = &number
		case 2:
			number, end := intstr.FromInt32(1+d.Int32N(2)), 2+d.Int32N(2)
			port.Port, port.EndPort = &number, &end
		}
		ports = append(ports, port)
	}
	return ports
}

func (d draw) policy(key types.NamespacedName) *networking.NetworkPolicy {
	policy := &networking.NetworkPolicy{ObjectMeta: meta.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	policy.Spec.PodSelector = *d.selector()
	for range d.IntN(3) {
		policy.Spec.Ingress = append(policy.Spec.Ingress, networking.NetworkPolicyIngressRule{From: d.peers(), Ports: d.ports()})
	}
	for range d.IntN(3) {
		policy.Spec.Egress = append(policy.Spec.Egress, networking.NetworkPolicyEgressRule{To: d.peers(), Ports: d.ports()})
	}
	policy.Spec.PolicyTypes = [][]networking.PolicyType{nil, {networking.PolicyTypeIngress}, {networking.PolicyTypeEgress}, {networking.PolicyTypeIngress, networking.PolicyTypeEgress}}[d.IntN(4)]
	return policy
}

// Whatever happens one after the other, in the end what passes is what the objects say that are there.
func TestAnyChangesLeadToWhatTheObjectsSay(t *testing.T) {
	for seed := range uint64(12) {
		d := draw{rand.New(rand.NewPCG(seed, 0))}
		o := &world{map[string]labels.Set{}, map[types.NamespacedName]*Pod{}, map[types.NamespacedName]*networking.NetworkPolicy{}, map[types.NamespacedName]*clusterwide{}}
		w := newWanted()
		w.setNode([]netip.Addr{netip.MustParseAddr("192.168.0.1")})
		for step := range 60 {
			for range 1 + d.IntN(3) {
				change(d, o, w)
			}
			w.settle()
			compareAll(t, o, w, fmt.Sprintf("seed %d, step %d", seed, step))
			if t.Failed() {
				return
			}
		}
		// Nothing stays behind.
		for key := range o.policies {
			w.setPolicy(key, nil)
		}
		for key := range o.tiered {
			w.setClusterwide(key, nil)
		}
		w.settle()
		if len(w.tiers.policies)+len(w.tiers.chains)+len(w.acls)-1+len(w.endpoints)+len(w.groups.inUse)+len(w.policies)+len(w.groups.sets) > 0 {
			t.Fatalf("seed %d: without a policy there are %v, %v, %v", seed, w.acls, w.endpoints, w.groups.inUse)
		}
	}
}

func change(d draw, o *world, w *wanted) {
	namespace := d.of("m", "n")
	switch d.IntN(8) {
	case 6, 7:
		policy := d.tiered(d.of("t", "u", "v", "w"))
		if d.IntN(3) == 0 {
			delete(o.tiered, policy.key())
			w.setClusterwide(policy.key(), nil)
			return
		}
		o.tiered[policy.key()] = policy
		w.setClusterwide(policy.key(), policy)
	case 0:
		set := d.labels()
		o.namespaces[namespace] = set
		w.setNamespace(namespace, set)
	case 1, 2:
		number := d.IntN(6)
		key := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("pod-", number)}
		if d.IntN(4) == 0 {
			delete(o.pods, key)
			w.setPod(key, nil)
			w.setHere(key, "", nil)
			return
		}
		address := netip.AddrFrom4([4]byte{10, 0, 0, byte(number)})
		if namespace == "n" {
			address = netip.AddrFrom4([4]byte{10, 0, 1, byte(number)})
		}
		pod := &Pod{Key: key, Labels: d.labels(), Addresses: []netip.Addr{address}}
		for _, name := range []string{"p", "q"} {
			if d.IntN(2) == 0 {
				pod.Ports = append(pod.Ports, Port{name, []core.Protocol{core.ProtocolTCP, core.ProtocolUDP}[d.IntN(2)], 1 + d.Int32N(3)})
			}
		}
		o.pods[key] = pod
		// Either may be known first.
		if d.IntN(2) == 0 {
			w.setHere(key, "", pod.Addresses)
		}
		w.setPod(key, pod)
		w.setHere(key, "", pod.Addresses)
	default:
		key := types.NamespacedName{Namespace: namespace, Name: d.of("r", "s", "t")}
		if d.IntN(4) == 0 {
			delete(o.policies, key)
			w.setPolicy(key, nil)
			return
		}
		policy := d.policy(key)
		o.policies[key] = policy
		w.setPolicy(key, policy)
	}
}

func compareAll(t *testing.T, o *world, w *wanted, when string) {
	t.Helper()
	pods := slices.SortedFunc(maps.Values(o.pods), func(a, b *Pod) int { return a.Addresses[0].Compare(b.Addresses[0]) })
	for _, from := range pods {
		for _, to := range pods {
			for name, protocol := range map[string]core.Protocol{"tcp": core.ProtocolTCP, "udp": core.ProtocolUDP} {
				for port := range int32(4) {
					expected := o.allows(from, to, protocol, port)
					if w.passes(t, from.Addresses[0].String(), to.Addresses[0].String(), name, int(port)) != expected {
						t.Errorf("%s: %s to %s %s/%d: expected %v", when, from.Key, to.Key, name, port, expected)
						return
					}
				}
			}
		}
	}
}
