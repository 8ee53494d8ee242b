package policy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// tier asks a tier's policies one after the other, and each of their rules; empty: none of them is about it, or it is passed on.
func (o *world) tier(tier v1alpha2.Tier, of direction, guarded, other, to *Pod, protocol core.Protocol, port int32) v1alpha2.ClusterNetworkPolicyRuleAction {
	inOrder := slices.SortedFunc(maps.Values(o.tiered), func(a, b *clusterwide) int {
		return cmp.Or(cmp.Compare(a.spec.Priority, b.spec.Priority), cmp.Compare(a.name, b.name))
	})
	for _, policy := range inOrder {
		if policy.spec.Tier != tier || !o.named(otherEnd{Namespaces: policy.spec.Subject.Namespaces, Pods: policy.spec.Subject.Pods}, guarded) {
			continue
		}
		for _, rule := range tieredRules(policy, of) {
			is := func(peer otherEnd) bool { return o.named(peer, other) }
			if !slices.ContainsFunc(rule.peers, is) || !spoken(rule.protocols, to, protocol, port) {
				continue
			}
			if rule.action == v1alpha2.ClusterNetworkPolicyRuleActionPass {
				return ""
			}
			return rule.action
		}
	}
	return ""
}

func (o *world) named(peer otherEnd, pod *Pod) bool {
	switch {
	case peer.Namespaces != nil:
		return fits(peer.Namespaces, o.namespaces[pod.Key.Namespace])
	case peer.Pods != nil:
		return fits(&peer.Pods.NamespaceSelector, o.namespaces[pod.Key.Namespace]) && fits(&peer.Pods.PodSelector, pod.Labels)
	}
	return slices.ContainsFunc(peer.Networks, func(text v1alpha2.CIDR) bool { return netip.MustParsePrefix(string(text)).Contains(pod.Addresses[0]) })
}

func spoken(protocols []v1alpha2.ClusterNetworkPolicyProtocol, to *Pod, protocol core.Protocol, port int32) bool {
	among := func(asked *v1alpha2.Port) bool {
		return asked == nil || asked.Range == nil && asked.Number == port || asked.Range != nil && asked.Range.Start <= port && port <= asked.Range.End
	}
	return protocols == nil || slices.ContainsFunc(protocols, func(one v1alpha2.ClusterNetworkPolicyProtocol) bool {
		switch {
		case one.TCP != nil:
			return protocol == core.ProtocolTCP && among(one.TCP.DestinationPort)
		case one.UDP != nil:
			return protocol == core.ProtocolUDP && among(one.UDP.DestinationPort)
		}
		return slices.Contains(to.Ports, Port{one.DestinationNamedPort, protocol, port})
	})
}

// tiered makes a policy of an administrator.
func (d draw) tiered(name string) *clusterwide {
	policy := &clusterwide{kind: clusterKind, name: name}
	policy.spec.Tier = []v1alpha2.Tier{v1alpha2.AdminTier, v1alpha2.BaselineTier}[d.IntN(2)]
	policy.spec.Priority = d.Int32N(3)
	subject := d.otherEnd(false)
	policy.spec.Subject = v1alpha2.ClusterNetworkPolicySubject{Namespaces: subject.Namespaces, Pods: subject.Pods}
	verdict := func() v1alpha2.ClusterNetworkPolicyRuleAction {
		return v1alpha2.ClusterNetworkPolicyRuleAction(d.of("Accept", "Deny", "Pass"))
	}
	for range d.IntN(4) {
		var from []v1alpha2.ClusterNetworkPolicyIngressPeer
		for range 1 + d.IntN(2) {
			peer := d.otherEnd(false)
			from = append(from, v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: peer.Namespaces, Pods: peer.Pods})
		}
		policy.spec.Ingress = append(policy.spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Action: verdict(), From: from, Protocols: d.protocols(true)})
	}
	for range d.IntN(4) {
		var to []otherEnd
		networks := d.IntN(2) == 0
		for range 1 + d.IntN(2) {
			to = append(to, d.otherEnd(networks))
		}
		policy.spec.Egress = append(policy.spec.Egress, v1alpha2.ClusterNetworkPolicyEgressRule{Action: verdict(), To: to, Protocols: d.protocols(!networks)})
	}
	return policy
}

func (d draw) otherEnd(networks bool) otherEnd {
	switch {
	case networks && d.IntN(2) == 0:
		return otherEnd{Networks: []v1alpha2.CIDR{v1alpha2.CIDR(d.of("10.0.0.0/29", "10.0.0.0/8", "10.0.0.4/30", "10.0.1.0/24"))}}
	case d.IntN(2) == 0:
		return otherEnd{Namespaces: d.selector()}
	}
	return otherEnd{Pods: &v1alpha2.NamespacedPod{NamespaceSelector: *d.selector(), PodSelector: *d.selector()}}
}

func (d draw) protocols(names bool) (all []v1alpha2.ClusterNetworkPolicyProtocol) {
	for range d.IntN(3) {
		asked := &v1alpha2.Port{Number: 1 + d.Int32N(3)}
		switch d.IntN(3) {
		case 0:
			asked = &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: 1, End: 2 + d.Int32N(2)}}
		case 1:
			asked = nil
		}
		switch d.IntN(3) {
		case 0:
			all = append(all, v1alpha2.ClusterNetworkPolicyProtocol{TCP: &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: asked}})
		case 1:
			all = append(all, v1alpha2.ClusterNetworkPolicyProtocol{UDP: &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: asked}})
		case 2:
			if names {
				all = append(all, v1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: d.of("p", "q")})
			}
		}
	}
	return all
}
