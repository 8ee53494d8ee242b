package host

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"quiver/kubernetes/internal/pods"
)

// claims are ranges of pods' addresses, and who has them.
type claims struct {
	// How long prefixes are of which anybody speaks.
	lengths []int
	// Whose a range is, and who has something in a block of one of these lengths.
	whole, within map[netip.Prefix]claim
}

type claim struct {
	prefix netip.Prefix
	whose  string
}

// distinct leaves out ranges of other nodes that overlap this node's own, or those of a node that comes before them: an address of both would be
// two pods'. Without that, routes would lead to the one and to the other by turns, and this node wouldn't be ready. Nodes with an address of this one are
// left out as a whole: what is for their pods would come back here. Doubts name both nodes.
func distinct(self pods.Node, others []pods.Node) (all []pods.Node, doubts error) {
	others = slices.DeleteFunc(slices.Clone(others), func(node pods.Node) bool {
		at := slices.IndexFunc(node.Addresses, func(address netip.Addr) bool { return slices.Contains(self.Addresses, address) })
		if at >= 0 {
			doubts = errors.Join(doubts, fmt.Errorf("node %s has the InternalIP %s of this node, %s: delete the node object that isn't in use any more", node.Name, node.Addresses[at], self.Name))
		}
		return at >= 0
	})
	lengths := map[int]bool{}
	for _, node := range append(slices.Clone(others), self) {
		for _, prefix := range node.Ranges {
			lengths[prefix.Bits()] = true
		}
	}
	known := &claims{slices.Collect(maps.Keys(lengths)), map[netip.Prefix]claim{}, map[netip.Prefix]claim{}}
	for _, prefix := range self.Ranges {
		known.add(prefix, "this node")
	}
	for _, node := range others {
		ranges := node.Ranges
		node.Ranges = nil
		for _, prefix := range ranges {
			if other, taken := known.of(prefix); taken {
				doubts = errors.Join(doubts, fmt.Errorf("podCIDR %s of node %s overlaps %s of %s, where these addresses lead: delete the node object that isn't in use any more", prefix, node.Name, other.prefix, other.whose))
				continue
			}
			node.Ranges = append(node.Ranges, prefix)
			known.add(prefix, "node "+node.Name)
		}
		all = append(all, node)
	}
	return all, doubts
}

func (c *claims) add(prefix netip.Prefix, whose string) {
	one := claim{prefix, whose}
	c.whole[prefix.Masked()] = one
	for _, length := range c.lengths {
		if length <= prefix.Bits() {
			c.within[netip.PrefixFrom(prefix.Addr(), length).Masked()] = one
		}
	}
}

// of is who has something of a range already. (Of two that overlap, one contains the other.)
func (c *claims) of(prefix netip.Prefix) (one claim, taken bool) {
	if one, taken = c.within[prefix.Masked()]; taken {
		return one, true
	}
	for _, length := range c.lengths {
		if length < prefix.Bits() {
			if one, taken = c.whole[netip.PrefixFrom(prefix.Addr(), length).Masked()]; taken {
				return one, true
			}
		}
	}
	return claim{}, false
}
