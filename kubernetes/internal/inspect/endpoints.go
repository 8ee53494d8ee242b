package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	"quiver/kubernetes/internal/service"
)

// As many endpoints that are left out are told of in a sentence; JSON has all.
const mostLeftOut = 5

// Why an endpoint isn't given that its node, its state and the Service's policies don't leave out.
const notGiven = "quiverd on the node doesn't give it"

// endpoints are those of the port that is asked, in the family of who asks: which of them a node would give, and why not the others.
func (b behind) endpoints(node string, from netip.Addr, takers []netip.AddrPort, chosen netip.AddrPort) (all []Endpoint) {
	known, hinted := map[netip.AddrPort]bool{}, b.hintedForOthers(node, from.Is4())
	for _, slice := range b.slices {
		for _, number := range portsOf(slice, b.asked) {
			for _, endpoint := range slice.Endpoints {
				if len(endpoint.Addresses) == 0 {
					continue
				}
				// All addresses of an endpoint are fungible, and clients may use the first only.
				address, err := netip.ParseAddr(endpoint.Addresses[0])
				at := netip.AddrPortFrom(address, number)
				if err != nil || address.Is4() != from.Is4() || known[at] {
					continue
				}
				known[at] = true
				one := Endpoint{Address: at, Node: valueOf(endpoint.NodeName), Chosen: at == chosen}
				if !slices.Contains(takers, at) {
					one.LeftOut = b.whyLeftOut(endpoint, node, slices.Contains(hinted, at))
				}
				all = append(all, one)
			}
		}
	}
	for _, at := range takers {
		if !known[at] {
			// Quiver may know of one that has just gone.
			all = append(all, Endpoint{Address: at, Chosen: at == chosen})
		}
	}
	slices.SortFunc(all, func(a, b Endpoint) int { return a.Address.Compare(b.Address) })
	return all
}

// hintedForOthers are those that a node leaves out for their hints.
func (b behind) hintedForOthers(node string, v4 bool) []netip.AddrPort {
	here := service.Here{Name: node}
	if i := slices.IndexFunc(b.nodes, func(one Node) bool { return one.Name == node }); i >= 0 {
		here.Zone = b.nodes[i].Zone
	}
	all := make([]*discovery.EndpointSlice, len(b.slices))
	for i := range b.slices {
		all[i] = &b.slices[i]
	}
	return service.HintedForOthers(all, b.asked, v4, &here)
}

// local is the field of the Service that keeps such clients to endpoints of the node, and whether it does.
func (b behind) local() (field string, is bool) {
	spec := &b.service.Spec
	if b.outside {
		return "externalTrafficPolicy", spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal
	}
	return "internalTrafficPolicy", valueOf(spec.InternalTrafficPolicy) == core.ServiceInternalTrafficPolicyLocal
}

// whyLeftOut says why a node doesn't give an endpoint.
func (b behind) whyLeftOut(endpoint discovery.Endpoint, node string, hinted bool) string {
	conditions := endpoint.Conditions
	field, local := b.local()
	switch {
	case valueOf(conditions.Terminating):
		return "it is terminating"
	case conditions.Ready != nil && !*conditions.Ready:
		return "it isn't ready"
	case local && valueOf(endpoint.NodeName) != node:
		return "it is on another node, and " + field + " is Local"
	case !local && hinted:
		// (Where endpoints of the node alone are given, hints mean nothing.)
		return "it is hinted for others"
	}
	return notGiven
}

// leftOut tells of the endpoints that aren't given; where none is, of those whose reason is another than that.
func leftOut(all []Endpoint, none bool) string {
	var words []string
	for _, one := range all {
		if one.LeftOut != "" && !(none && one.LeftOut == notGiven) {
			words = append(words, fmt.Sprintf("%v (%s)", one.Address, one.LeftOut))
		}
	}
	if words == nil {
		return ""
	}
	if more := len(words) - mostLeftOut; more > 0 {
		words = append(words[:mostLeftOut], fmt.Sprintf("%d more", more))
	}
	return "; not given: " + strings.Join(words, ", ")
}
