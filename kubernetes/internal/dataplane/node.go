package dataplane

import (
	"net/netip"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

const (
	// The interface that carries the addresses from which pods are told of errors.
	gateway = ours + "gateway"
	// The interface that leads to the host, and through it everywhere else.
	uplink = ours + "host"
	// Address that every pod can take for its router.
	routerAddress4 = "169.254.1.1/32"
)

// Range of pods' addresses of one family.
type Range struct {
	// Prefix of the range.
	Prefix netip.Prefix
	// Gateway is the address in it that is the router's.
	Gateway netip.Addr
}

// Uplink is the device by which pods and host reach each other.
type Uplink struct {
	// Device is its name on the host; empty: pods reach each other only.
	Device string
	// MTU of the device, in bytes.
	MTU uint32
}

// Node is what the dataplane has besides pods: the router's addresses; to the host, a tun in quiverd's own network namespace, which the
// host has for its way to the ranges, and quiverd for its way to everything else.
func Node(ranges []Range, to Uplink) *quiver.Config {
	// What is first tells of errors: pods of other nodes believe that only of an address of this node's range.
	var own []string
	for _, r := range ranges {
		own = append(own, host(r.Gateway))
	}
	own = append(own, routerAddress4)
	config := &quiver.Config{Interfaces: []*quiver.Interface{
		{Name: gateway, Addresses: own, Port: &quiver.Interface_Loopback{Loopback: &quiver.Loopback{}}},
	}}
	if to.Device == "" {
		return config
	}
	tun := &quiver.Tap{HostName: to.Device, Mode: quiver.TapMode_TAP_MODE_TUN, HostMtu: to.MTU}
	for _, r := range ranges {
		tun.HostRoutes = append(tun.HostRoutes, &quiver.HostRoute{Prefix: r.Prefix.String()})
		config.Routes = append(config.Routes,
			&quiver.Route{Prefix: everything(r.Gateway), NextHops: []*quiver.NextHop{{Interface: uplink}}},
			// An address that no pod has must not go back to the host, which would send it here again.
			&quiver.Route{Prefix: r.Prefix.String(), Action: quiver.RouteAction_ROUTE_ACTION_UNREACHABLE})
	}
	config.Interfaces = append(config.Interfaces, &quiver.Interface{Name: uplink, Mtu: to.MTU, Port: &quiver.Interface_Tap{Tap: tun}})
	return config
}

// Spare leaves out default routes that somebody else has made: then pods' way out is theirs.
func Spare(config *quiver.Config, others []*quiver.ObjectRef) *quiver.Config {
	taken := map[string]bool{}
	for _, ref := range others {
		taken[refName(ref)] = true
	}
	spared := &quiver.Config{Vrfs: config.Vrfs, Interfaces: config.Interfaces, Neighbors: config.Neighbors, Tenants: config.Tenants}
	for _, route := range config.Routes {
		if !taken[refName(Refs(&quiver.Config{Routes: []*quiver.Route{route}})[0])] {
			spared.Routes = append(spared.Routes, route)
		}
	}
	return spared
}
