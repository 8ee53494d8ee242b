package overlay

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"quiver/kubernetes/internal/pods"
)

const (
	// Bytes in front of a packet in a tunnel over IPv4: its headers, UDP's, VXLAN's and Ethernet's.
	headers4 = 20 + 8 + 8 + 14
	headers6 = headers4 + 20
)

// Headers tells how many bytes a tunnel puts in front of packets, whose ends have such addresses.
func Headers(end netip.Addr) uint32 {
	if end.Is4() {
		return headers4
	}
	return headers6
}

// Peer is another node, to which a tunnel leads.
type Peer struct {
	// Node is its name.
	Node string
	// Local and Remote are the tunnel's ends as the network sees them: an address of ours and one of the peer's, of one family.
	Local, Remote netip.Addr
	// Ranges of its pods.
	Ranges []netip.Prefix
	// Direct has what is for the ranges go without the tunnel, which takes what comes by it nevertheless: the peer may see that otherwise.
	Direct bool
}

// Plan is how a node reaches the others' pods.
type Plan struct {
	// Locals are this node's ends of tunnels, at most one per family; one at least, even if there are no peers yet. None: there are no tunnels.
	Locals []netip.Addr
	// Peers to which tunnels lead.
	Peers []Peer
	// Routed are nodes whose pods are reached by the network's routes.
	Routed []pods.Node
}

// For plans for a node among others. Its networks are those that its addresses are in. An error names whom no tunnel can lead to, or a doubtful one; the plan is good without them.
func (s *Settings) For(self pods.Node, others []pods.Node, networks []netip.Prefix) (plan Plan, failed error) {
	if !s.On() {
		return Plan{Routed: others}, nil
	}
	own := firsts(self.Addresses)
	if len(own) == 0 {
		return plan, fmt.Errorf("node %s has no InternalIP, where its tunnels could end: give its kubelet --node-ip (standalone: the agent --address)", self.Name)
	}
	for _, node := range others {
		if len(node.Ranges) == 0 {
			continue
		}
		peer := Peer{Node: node.Name, Ranges: node.Ranges}
		theirs := firsts(node.Addresses)
		for _, end := range own {
			// IPv4 first: its headers are shorter.
			if at := slices.IndexFunc(theirs, func(other netip.Addr) bool { return other.Is4() == end.Is4() }); at >= 0 {
				peer.Local, peer.Remote = end, theirs[at]
				break
			}
		}
		if !peer.Remote.IsValid() {
			failed = errors.Join(failed, fmt.Errorf("node %s has no InternalIP of a family that this node has one of: no tunnel can lead there; give both one of IPv4, or both one of IPv6 (kubelet's --node-ip)", node.Name))
			continue
		}
		if s.Mode == CrossSubnet && near(node, networks) {
			peer.Direct = true
			plan.Routed = append(plan.Routed, node)
		}
		if at := slices.IndexFunc(plan.Peers, func(other Peer) bool { return other.Remote == peer.Remote }); at >= 0 {
			// A tunnel to an address is one: what comes by it can't be told apart.
			other := &plan.Peers[at]
			failed = errors.Join(failed, fmt.Errorf("nodes %s and %s have the same InternalIP %s: delete the node object that isn't in use any more", other.Node, node.Name, peer.Remote))
			if other.Direct == peer.Direct {
				other.Ranges = slices.Concat(other.Ranges, peer.Ranges)
			}
			continue
		}
		plan.Peers = append(plan.Peers, peer)
		if !slices.Contains(plan.Locals, peer.Local) {
			plan.Locals = append(plan.Locals, peer.Local)
		}
	}
	if plan.Locals == nil {
		plan.Locals = own[:1]
	}
	slices.SortFunc(plan.Locals, netip.Addr.Compare)
	return plan, failed
}

// firsts are the first addresses of each family, IPv4 before IPv6.
func firsts(addresses []netip.Addr) (first []netip.Addr) {
	for _, v4 := range []bool{true, false} {
		if at := slices.IndexFunc(addresses, func(address netip.Addr) bool { return address.Is4() == v4 }); at >= 0 {
			first = append(first, addresses[at])
		}
	}
	return first
}

// Ends are the addresses by which the network between leads to others' pods: those of tunnels, and next hops.
func (p *Plan) Ends() (all []netip.Addr) {
	for _, peer := range p.Peers {
		all = append(all, peer.Remote)
	}
	for _, node := range p.Routed {
		for _, end := range firsts(node.Addresses) {
			if slices.ContainsFunc(node.Ranges, func(prefix netip.Prefix) bool { return prefix.Addr().Is4() == end.Is4() }) && !slices.Contains(all, end) {
				all = append(all, end)
			}
		}
	}
	return all
}

// near tells whether a node is in our networks with each family that it needs an address of as next hop.
func near(node pods.Node, networks []netip.Prefix) bool {
	theirs := firsts(node.Addresses)
	for _, prefix := range node.Ranges {
		is := slices.ContainsFunc(theirs, func(address netip.Addr) bool {
			return address.Is4() == prefix.Addr().Is4() && slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(address) })
		})
		if !is {
			return false
		}
	}
	return true
}

// Headers tells how many bytes of a packet on the wire tunnels need: 0 without any.
func (p *Plan) Headers() (most uint32) {
	for _, end := range p.Locals {
		most = max(most, Headers(end))
	}
	return most
}

// Through are the peers that are reached through their tunnels.
func (p *Plan) Through() []Peer {
	return slices.DeleteFunc(slices.Clone(p.Peers), func(peer Peer) bool { return peer.Direct })
}
