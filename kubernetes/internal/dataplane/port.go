package dataplane

import (
	"net/netip"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// uplinkPort is quiverd's own port on the device by which the host reaches other nodes, beside the kernel.
const uplinkPort = ours + "uplink"

// IsUplink tells whether an interface is that port.
func IsUplink(name string) bool { return name == uplinkPort }

// Port is what quiverd needs to know to exchange packets with other nodes' pods by a device of the host's.
type Port struct {
	// Device of the host, its Ethernet address, and its MTU in bytes.
	Device, Station string
	MTU             uint32
	// Hops by which pods of other nodes are reached.
	Hops []Hop
}

// Hop is another node in the network of a port.
type Hop struct {
	// Address of the node, and the Ethernet address that the host's kernel has found there.
	Address netip.Addr
	Station string
	// Ranges of its pods of the address's family.
	Ranges []netip.Prefix
}

// Beside are the objects of a port on a node with these ranges. It has no addresses, and sees nothing but what is for pods of the node: all else, ARP
// included, is the kernel's. Only what comes from pods that are reached by it is believed.
func Beside(p *Port, ranges []Range) *quiver.Config {
	socket := &quiver.AfPacket{HostInterface: p.Device}
	for _, r := range ranges {
		socket.Destinations = append(socket.Destinations, r.Prefix.String())
	}
	config := &quiver.Config{Interfaces: []*quiver.Interface{{
		Name: uplinkPort,
		// Others know this station by the host's address.
		Mac:  p.Station,
		Mtu:  p.MTU,
		Rpf:  quiver.ReversePathFilter_REVERSE_PATH_FILTER_STRICT,
		Port: &quiver.Interface_AfPacket{AfPacket: socket},
	}}}
	for _, hop := range p.Hops {
		config.Neighbors = append(config.Neighbors, &quiver.Neighbor{Interface: uplinkPort, Address: hop.Address.String(), Mac: hop.Station})
		for _, prefix := range hop.Ranges {
			config.Routes = append(config.Routes, &quiver.Route{
				Prefix: prefix.String(), NextHops: []*quiver.NextHop{{Interface: uplinkPort, Address: hop.Address.String()}},
			})
		}
	}
	return config
}
