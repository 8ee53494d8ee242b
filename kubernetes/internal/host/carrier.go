package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/pods"
)

// Carrier says who carries packets between pods of this node and of others. It is a flag's value.
type Carrier string

const (
	// ByKernel: it is that of the host: quiverd hands it packets by the host's device, and is handed them by it.
	ByKernel Carrier = "kernel"
	// ByPort: it is quiverd itself, by a port on the host's uplink, beside the kernel.
	ByPort Carrier = "af_packet"
)

func (c *Carrier) String() string { return string(*c) }

// Set reads it.
func (c *Carrier) Set(text string) error {
	switch carrier := Carrier(text); carrier {
	case ByKernel, ByPort:
		*c = carrier
		return nil
	}
	return fmt.Errorf("%q: take %s or %s", text, ByKernel, ByPort)
}

// What a station of Ethernet has for an address, in bytes.
const stationLength = 6

// port is what quiverd needs for the one on the uplink; nil where the kernel carries everything. An error says why there is none, or whose pods the
// kernel carries packets for nevertheless.
func (f *Follower) port(devices *devices, self pods.Node, routed []pods.Node) (*dataplane.Port, error) {
	if f.Carrier != ByPort {
		return nil, nil
	}
	f.changes.neighbours.read()
	device, err := devices.ethernet(self.Addresses, f.UplinkInterface)
	if err != nil {
		f.changes.neighbours.await(f.UplinkInterface, 0, "", nil)
		return nil, err
	}
	known, err := stations(device.Index)
	if err != nil {
		f.changes.neighbours.await(device.Name, 0, "", nil)
		return nil, err
	}
	port := &dataplane.Port{Device: device.Name, Station: device.HardwareAddr.String(), MTU: uint32(min(device.MTU, greatestMTU))}
	// As they are used now: another one is news.
	used := map[netip.Addr]string{}
	var failed error
	for _, node := range routed {
		hops := hopsOf(node)
		for _, via := range slices.SortedFunc(maps.Keys(hops), netip.Addr.Compare) {
			if !isNeighbour(via, device.Index) {
				failed = errors.Join(failed, fmt.Errorf("node %s: %s is no direct neighbour by %s", node.Name, via, device.Name))
				continue
			}
			used[via] = stationOf(known[via])
			if used[via] == "" {
				failed = errors.Join(failed, fmt.Errorf("node %s: nobody has answered for %s by %s yet", node.Name, via, device.Name))
				continue
			}
			port.Hops = append(port.Hops, dataplane.Hop{Address: via, Station: used[via], Ranges: hops[via]})
		}
	}
	slices.SortFunc(port.Hops, func(a, b dataplane.Hop) int { return a.Address.Compare(b.Address) })
	f.changes.neighbours.await(device.Name, device.Index, port.Station, used)
	// Only now: what comes of it is news.
	for _, via := range slices.SortedFunc(maps.Keys(used), netip.Addr.Compare) {
		if err := resolve(via, device.Index, known[via]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("asking for the Ethernet address of %s by %s: %w", via, device.Name, err))
		}
	}
	return port, failed
}

// hopsOf are the addresses by which a node's pods are reached, and their ranges.
func hopsOf(node pods.Node) map[netip.Addr][]netip.Prefix {
	hops := map[netip.Addr][]netip.Prefix{}
	for _, prefix := range node.Ranges {
		if via := sameFamily(node.Addresses, prefix); via.IsValid() {
			hops[via] = append(hops[via], prefix)
		}
	}
	return hops
}

// carried has the kernel leave to the port what comes by it, if packets can pass there; else the kernel goes on as without. The port's own troubles are told,
// and no reason for the node not to be ready: pods are reached nevertheless.
func (f *Follower) carried(ctx context.Context, port *dataplane.Port, amiss error, self pods.Node, others []pods.Node) error {
	wanted := &beside{device: f.Device}
	carried := 0
	if f.Carrier == ByPort {
		wanted.ours, wanted.nodes = self.Ranges, nodesOf(others)
	}
	if port != nil {
		if err := f.Carries(ctx); err != nil {
			amiss = err
		} else {
			wanted.uplink, carried = port.Device, len(port.Hops)
			for _, hop := range port.Hops {
				wanted.theirs = append(wanted.theirs, hop.Ranges...)
			}
			wanted.theirs = disjoint(wanted.theirs)
		}
	}
	if f.Carrier == ByPort {
		f.tell("the host's kernel carries packets of other nodes' pods that the port on the uplink should", "the port on the uplink carries packets of other nodes' pods", amiss)
	}
	f.mutex.Lock()
	f.hops = carried
	f.mutex.Unlock()
	if err := f.beside.bring(wanted, true); err != nil {
		return fmt.Errorf("the port on the uplink beside the kernel, by nftables: %w (without it: --uplink=%s)", err, ByKernel)
	}
	return nil
}

// ethernet is the device of a name; without, the one that has an address of the node's.
func (d *devices) ethernet(own []netip.Addr, name string) (*net.Interface, error) {
	for _, device := range d.byIndex {
		holds := slices.ContainsFunc(own, func(address netip.Addr) bool { return d.holders[address] == device.Index })
		if name != device.Name && (name != "" || !holds) {
			continue
		}
		switch {
		case len(device.HardwareAddr) != stationLength:
			return nil, fmt.Errorf("device %s is no Ethernet device: quiverd can have a port only on those; name another one (--uplink-interface)", device.Name)
		case device.Flags&net.FlagUp == 0:
			return nil, fmt.Errorf("device %s is down: ip link set %s up", device.Name, device.Name)
		}
		return &device, nil
	}
	if name != "" {
		return nil, fmt.Errorf("--uplink-interface %s: the host has no such device (ip link)", name)
	}
	return nil, errors.New("no device has the node's InternalIP (standalone: --address): say by --uplink-interface which one leads to other nodes")
}

// isNeighbour tells whether an address is reached by a device, and no router in between.
func isNeighbour(address netip.Addr, device int) bool {
	routes, err := netlink.RouteGetWithOptions(address.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	return err == nil && len(routes) > 0 && routes[0].LinkIndex == device && routes[0].Gw == nil && routes[0].Via == nil && routes[0].MultiPath == nil
}

// nodesOf are all addresses of nodes, ordered.
func nodesOf(nodes []pods.Node) []netip.Addr {
	all := map[netip.Addr]bool{}
	for _, node := range nodes {
		for _, address := range slices.Concat(node.Addresses, node.External) {
			all[address] = true
		}
	}
	return ordered(all)
}
