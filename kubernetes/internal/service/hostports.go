package service

import (
	"fmt"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is one of this node, to which ports of the node lead (hostPort).
type Pod struct {
	// Attachment tells it from others, also from those of its name.
	Attachment string
	// Name of the pod.
	Name types.NamespacedName
	// UID of the pod; empty: not known.
	UID string
	// Addresses of the pod.
	Addresses []netip.Addr
	// Ports of the node.
	Ports []PodPort
}

// PodPort is a port of the node that leads to a pod's.
type PodPort struct {
	// Protocol of both.
	Protocol core.Protocol
	// Node is the node's address. Not valid: all of them, but for loopback ones; the unspecified one: likewise, of its family.
	Node netip.Addr
	// Port of the node, Target that of the pod.
	Port, Target uint16
}

// HostPort is a port of the node's own addresses that the host leads to a pod.
type HostPort struct {
	// Place is an address of the node, or the unspecified one of a family, which stands for all but loopback ones.
	Place
	// To is the pod.
	To netip.AddrPort
}

// Covers tells whether it leads away who asks at a place of the node's own.
func (p HostPort) Covers(place Place) bool {
	at := p.Place
	if at.Address == Unspecified(place.Address.Is4()) {
		at.Address = place.Address
	}
	return at == place
}

// Unspecified is a family's address that stands for all of them.
func Unspecified(v4 bool) netip.Addr {
	if v4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// OfPod works out what a node does for a pod that has ports of the node. The host leads whoever asks from elsewhere, or from the host itself;
// pods of this node are answered before they reach the host, since answers wouldn't come by there.
func OfPod(pod *Pod, here *Here) Set {
	var set Set
	for _, port := range pod.Ports {
		if strange(port.Node, here) {
			who := "nobody is"
			if slices.Contains(here.Addresses, port.Node) {
				who = "only pods of this node are"
			}
			set.problem("host port %d: hostIP %s is no address of this node's kernel: %s led to the pod there as long as it isn't", port.Port, port.Node, who)
		}
		draft := VIP{Service: pod.Name, PortOf: fmt.Sprintf("%d-host", port.Port)}
		for _, address := range pod.Addresses {
			node := port.Node
			if !node.IsValid() {
				node = Unspecified(address.Is4())
			}
			if node.Is4() != address.Is4() {
				continue
			}
			place := Place{node, port.Protocol, port.Port}
			set.HostPorts = append(set.HostPorts, HostPort{place, netip.AddrPortFrom(address, port.Target)})
			for _, own := range here.Addresses {
				if own == node || node.IsUnspecified() && own.Is4() == node.Is4() {
					place.Address = own
					set.add(draft, place, []Backend{{Address: address, Port: port.Target}})
				}
			}
		}
	}
	set.added()
	return set
}

// strange tells whether what a pod calls an address of the node isn't one to its kernel, which is asked whether it is, loopback ones apart. Not so the
// addresses that a node is asked at: a node object tells of others, and a host has an address among those of pods, too.
func strange(address netip.Addr, here *Here) bool {
	return address.IsValid() && !address.IsUnspecified() && !address.IsLoopback() && !slices.Contains(here.Kernel, address.WithZone(""))
}
