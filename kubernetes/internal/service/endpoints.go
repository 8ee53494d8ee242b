package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// endpoint is one that a port of a Service has.
type endpoint struct {
	address              netip.Addr
	port                 uint16
	ready, serving, near bool
	// For which zones and nodes it is hinted.
	zones []discovery.ForZone
	nodes []discovery.ForNode
}

type endpoints []endpoint

// endpointsOf are those of a port in a family, each once and ordered. Terminating ones that don't serve are none.
func endpointsOf(all []*discovery.EndpointSlice, port *core.ServicePort, v4 bool, here *Here) endpoints {
	type at struct {
		address netip.Addr
		port    uint16
	}
	known := map[at]endpoint{}
	for _, slice := range all {
		if (slice.AddressType == discovery.AddressTypeIPv4) != v4 || slice.AddressType == discovery.AddressTypeFQDN {
			continue
		}
		for _, number := range portsOf(slice, port) {
			for i := range slice.Endpoints {
				one, usable := read(&slice.Endpoints[i], number, v4, here)
				if !usable {
					continue
				}
				// While endpoints move from slice to slice, one may be in two of them. Whichever says more of it is right.
				place := at{one.address, one.port}
				if before, twice := known[place]; twice {
					one.ready, one.serving = one.ready || before.ready, one.serving || before.serving
				}
				known[place] = one
			}
		}
	}
	found := make(endpoints, 0, len(known))
	for _, one := range known {
		found = append(found, one)
	}
	slices.SortFunc(found, func(a, b endpoint) int { return cmp.Or(a.address.Compare(b.address), cmp.Compare(a.port, b.port)) })
	return found
}

// near is how many pods of this node are ready, whatever their ports.
func near(all []*discovery.EndpointSlice, here *Here) int {
	ready := map[string]bool{}
	for _, slice := range all {
		for i := range slice.Endpoints {
			entry := &slice.Endpoints[i]
			if entry.NodeName != nil && *entry.NodeName == here.Name && (entry.Conditions.Ready == nil || *entry.Conditions.Ready) {
				name := fmt.Sprint(entry.Addresses)
				if entry.TargetRef != nil {
					// The same in slices of both families.
					name = string(entry.TargetRef.UID)
				}
				ready[name] = true
			}
		}
	}
	return len(ready)
}

// portsOf are the numbers that a Service's port has in a slice: those of its name, which the controller has looked up in pods.
func portsOf(slice *discovery.EndpointSlice, port *core.ServicePort) (numbers []uint16) {
	for _, entry := range slice.Ports {
		name, protocol := "", core.ProtocolTCP
		if entry.Name != nil {
			name = *entry.Name
		}
		if entry.Protocol != nil {
			protocol = *entry.Protocol
		}
		if name == port.Name && protocol == cmp.Or(port.Protocol, core.ProtocolTCP) && entry.Port != nil && *entry.Port > 0 && *entry.Port < 1<<16 {
			numbers = append(numbers, uint16(*entry.Port))
		}
	}
	return numbers
}

// read reads an endpoint. What isn't said means what the API says it does.
func read(entry *discovery.Endpoint, port uint16, v4 bool, here *Here) (one endpoint, usable bool) {
	if len(entry.Addresses) == 0 {
		return one, false
	}
	// All addresses of an endpoint are fungible, and clients may use the first only.
	address, err := netip.ParseAddr(entry.Addresses[0])
	if err != nil || address.Unmap().Is4() != v4 {
		return one, false
	}
	conditions := entry.Conditions
	said := func(condition *bool, otherwise bool) bool {
		if condition == nil {
			return otherwise
		}
		return *condition
	}
	one = endpoint{address: address.Unmap(), port: port, ready: said(conditions.Ready, true)}
	one.serving = said(conditions.Serving, true) && said(conditions.Terminating, false)
	one.near = entry.NodeName != nil && *entry.NodeName == here.Name
	if hints := entry.Hints; hints != nil {
		one.zones, one.nodes = hints.ForZones, hints.ForNodes
	}
	return one, one.ready || one.serving
}

// choose says who answers: those that are ready, of these the near ones where all are hinted. If none is, those that go, but serve still.
func (e endpoints) choose(here *Here) []Backend {
	return e.hinted(here).backends()
}

// chooseNear says the same of those on this node.
func (e endpoints) chooseNear() []Backend {
	return e.only(func(one *endpoint) bool { return one.near }).backends()
}

func (e endpoints) backends() []Backend {
	anyReady := slices.ContainsFunc(e, func(one endpoint) bool { return one.ready })
	backends := make([]Backend, 0, len(e))
	for _, one := range e {
		backends = append(backends, Backend{Address: one.address, Port: one.port, Draining: anyReady && !one.ready})
	}
	return backends
}

// eachFor are backends of whom some are for those inside, and some for those outside: each for whom it takes sessions.
func eachFor(inside, outside []Backend) (all []Backend) {
	at := func(backend Backend) netip.AddrPort { return netip.AddrPortFrom(backend.Address, backend.Port) }
	takes := map[netip.AddrPort]Clients{}
	for _, one := range inside {
		if !one.Draining {
			takes[at(one)] = Inside
		}
	}
	for _, one := range outside {
		if one.Draining {
			continue
		}
		if _, both := takes[at(one)]; both {
			takes[at(one)] = Everybody
		} else {
			takes[at(one)] = Outside
		}
	}
	for _, one := range slices.Concat(inside, outside) {
		clients, any := takes[at(one)]
		all = append(all, Backend{one.Address, one.Port, !any, clients})
	}
	slices.SortFunc(all, func(a, b Backend) int { return at(a).Compare(at(b)) })
	return slices.Compact(all)
}

func (e endpoints) only(wanted func(*endpoint) bool) endpoints {
	return slices.DeleteFunc(slices.Clone(e), func(one endpoint) bool { return !wanted(&one) })
}

// HintedForOthers are endpoints of a port, in a family, that a node doesn't give because they are hinted for others; it is known by its name and zone.
func HintedForOthers(all []*discovery.EndpointSlice, port *core.ServicePort, v4 bool, here *Here) (found []netip.AddrPort) {
	every := endpointsOf(all, port, v4, here)
	given := every.hinted(here)
	for _, one := range every {
		if !slices.ContainsFunc(given, func(other endpoint) bool { return other.address == one.address && other.port == one.port }) {
			found = append(found, netip.AddrPortFrom(one.address, one.port))
		}
	}
	return found
}

// hinted leaves out ready ones that are hinted for others: by node, or else by zone. Only if every ready one is hinted and one of them
// for us; in all other cases hints mean nothing.
func (e endpoints) hinted(here *Here) endpoints {
	forNode := func(one *endpoint) bool {
		return slices.ContainsFunc(one.nodes, func(hint discovery.ForNode) bool { return hint.Name == here.Name })
	}
	forZone := func(one *endpoint) bool {
		return slices.ContainsFunc(one.zones, func(hint discovery.ForZone) bool { return hint.Name == here.Zone })
	}
	ready := e.only(func(one *endpoint) bool { return one.ready })
	for _, level := range []struct {
		said func(endpoint) bool
		ours func(*endpoint) bool
	}{
		{func(one endpoint) bool { return len(one.nodes) > 0 }, forNode},
		{func(one endpoint) bool { return len(one.zones) > 0 && here.Zone != "" }, forZone},
	} {
		unsaid := func(one endpoint) bool { return !level.said(one) }
		if len(ready) > 0 && !slices.ContainsFunc(ready, unsaid) && len(ready.only(level.ours)) > 0 {
			return e.only(func(one *endpoint) bool { return !one.ready || level.ours(one) })
		}
	}
	return e
}
