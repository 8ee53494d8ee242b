package inspect

import (
	"net/netip"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// Hints are told as the reason only where the node itself heeds them, and they leave it out.
func TestAnEndpointIsHintedForOthersOnlyWhereHintsAreInForce(t *testing.T) {
	const others = "it is hinted for others"
	zone := func(name string) *discovery.EndpointHints {
		return &discovery.EndpointHints{ForZones: []discovery.ForZone{{Name: name}}}
	}
	node := func(name string) *discovery.EndpointHints {
		return &discovery.EndpointHints{ForNodes: []discovery.ForNode{{Name: name}}}
	}
	local := core.ServiceInternalTrafficPolicyLocal
	for _, c := range []struct {
		// Hints of two ready endpoints, both on the node that is asked.
		first, second *discovery.EndpointHints
		zone          string
		policy        *core.ServiceInternalTrafficPolicy
		// Why each isn't given.
		want [2]string
	}{
		{zone("z1"), zone("z2"), "z1", nil, [2]string{notGiven, others}},
		{zone("z1"), zone("z2"), "z2", nil, [2]string{others, notGiven}},
		{node("n1"), node("n2"), "", nil, [2]string{notGiven, others}},
		{zone("z1"), nil, "z1", nil, [2]string{notGiven, notGiven}},
		{zone("z2"), zone("z2"), "z1", nil, [2]string{notGiven, notGiven}},
		{zone("z1"), zone("z2"), "", nil, [2]string{notGiven, notGiven}},
		{zone("z1"), zone("z2"), "z1", &local, [2]string{notGiven, notGiven}},
	} {
		b := web("10.96.0.1")
		b.service.Spec.InternalTrafficPolicy, b.asked = c.policy, &b.service.Spec.Ports[0]
		b.nodes = []Node{{Name: "n1", Zone: c.zone}}
		b.slices[0].AddressType = discovery.AddressTypeIPv4
		b.slices[0].Endpoints = []discovery.Endpoint{
			{Addresses: []string{"10.0.0.7"}, NodeName: new("n1"), Hints: c.first}, {Addresses: []string{"10.0.0.8"}, NodeName: new("n1"), Hints: c.second},
		}
		all := b.endpoints("n1", netip.MustParseAddr("10.0.0.5"), nil, netip.AddrPort{})
		if len(all) != 2 || all[0].LeftOut != c.want[0] || all[1].LeftOut != c.want[1] {
			t.Errorf("zone %q: %+v, not %q", c.zone, all, c.want)
		}
	}
}
