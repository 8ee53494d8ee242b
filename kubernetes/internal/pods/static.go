package pods

import (
	"fmt"
	"net/netip"
	"strings"
)

// Static are nodes that are known by themselves, without an API server.
type Static struct {
	// This node, and the others.
	This Node
	Rest []Node
}

// Self is this node.
func (s *Static) Self() (Node, bool) { return s.This, true }

// Others are the others.
func (s *Static) Others() ([]Node, bool) { return s.Rest, true }

// NodesChanged never tells anything.
func (*Static) NodesChanged() <-chan struct{} { return nil }

// ParsePeer reads another node: "192.0.2.2,fd00::2=10.244.2.0/24,fd00:10:244:2::/64", its addresses and the ranges of its pods. Its name is its first address.
func ParsePeer(text string) (Node, error) {
	addresses, ranges, told := strings.Cut(text, "=")
	if !told {
		return Node{}, fmt.Errorf("%q: write ADDRESS,…=RANGE,…, for example 192.0.2.2=10.244.2.0/24", text)
	}
	own, err := ParseAddresses(addresses)
	if err != nil {
		return Node{}, err
	}
	of, err := ParseRanges(strings.Split(ranges, ","))
	if err != nil {
		return Node{}, err
	}
	return Node{Name: own[0].String(), Addresses: own, Ranges: of}, nil
}

// ParseAddresses reads addresses of a node, one at least.
func ParseAddresses(text string) (all []netip.Addr, err error) {
	for word := range strings.SplitSeq(text, ",") {
		address, err := netip.ParseAddr(word)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		all = append(all, address.Unmap())
	}
	return all, nil
}
