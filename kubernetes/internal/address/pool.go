// Package address chooses addresses for pods out of the ranges of their node. It keeps nothing but which was given last: who has which address is told
// by the attachments, so that the two can't disagree.
package address

import (
	"fmt"
	"net/netip"
)

// Pool hands out the addresses of one range, each once round before any comes again.
type Pool struct {
	prefix   netip.Prefix
	last     netip.Addr
	reserved netip.Addr
}

// ErrExhausted is a range without a free address.
type ErrExhausted struct {
	// Prefix is the range.
	Prefix netip.Prefix
}

func (e *ErrExhausted) Error() string { return fmt.Sprintf("no address is left in %s", e.Prefix) }

// NewPool makes a pool of a range that has room for a gateway and a pod at least. It goes on behind last, if that is valid.
func NewPool(prefix netip.Prefix, last netip.Addr) (*Pool, error) {
	if prefix != prefix.Masked() {
		return nil, fmt.Errorf("range %s: bits beyond the length are set; %s is meant", prefix, prefix.Masked())
	}
	if prefix.Addr().BitLen()-prefix.Bits() < 2 {
		return nil, fmt.Errorf("range %s has no room for pods", prefix)
	}
	if !prefix.Contains(last) {
		last = netip.Addr{}
	}
	return &Pool{prefix: prefix, last: last}, nil
}

// Prefix is the range.
func (p *Pool) Prefix() netip.Prefix { return p.prefix }

// Last is the address that was handed out last; not valid if none was.
func (p *Pool) Last() netip.Addr { return p.last }

// Gateway is the first address, which no pod gets.
func (p *Pool) Gateway() netip.Addr { return p.prefix.Addr().Next() }

// Reserve takes the highest address that isn't in use out of what pods get, and tells it: the same each time, since no pod has it from then
// on. It is not valid where the range has fewer than eight addresses, or none is left.
func (p *Pool) Reserve(inUse func(netip.Addr) bool) netip.Addr {
	if p.prefix.Addr().BitLen()-p.prefix.Bits() < 3 {
		return netip.Addr{}
	}
	bytes := p.prefix.Addr().AsSlice()
	for bit := p.prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	for ; address.Compare(p.Gateway()) > 0; address = address.Prev() {
		if p.usable(address) && !inUse(address) {
			p.reserved = address
			return address
		}
	}
	return netip.Addr{}
}

// Reserved is the address that no pod gets; not valid: there is none.
func (p *Pool) Reserved() netip.Addr { return p.reserved }

// Take chooses an address that isn't in use.
func (p *Pool) Take(inUse func(netip.Addr) bool) (netip.Addr, error) {
	start := p.next(p.last)
	address := start
	for inUse(address) || address == p.reserved {
		if address = p.next(address); address == start {
			return netip.Addr{}, &ErrExhausted{p.prefix}
		}
	}
	p.last = address
	return address, nil
}

// next is the address behind another one, round and round.
func (p *Pool) next(address netip.Addr) netip.Addr {
	if following := address.Next(); address.IsValid() && p.usable(following) {
		return following
	} else if following == p.reserved && p.usable(following.Next()) {
		return following.Next()
	}
	return p.Gateway().Next()
}

// usable tells whether a pod may have an address: not the network's own, the gateway's, the reserved one, or (IPv4) the broadcast one.
func (p *Pool) usable(address netip.Addr) bool {
	if !p.prefix.Contains(address) || address.Compare(p.Gateway()) <= 0 || address == p.reserved {
		return false
	}
	return address.Is6() || p.prefix.Contains(address.Next())
}
