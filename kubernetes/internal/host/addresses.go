package host

import (
	"net"
	"net/netip"
	"slices"
)

// Kernel are all addresses that the host's kernel has, but for loopback ones; ordered, none twice.
func Kernel() (all []netip.Addr, err error) {
	found, err := net.InterfaceAddrs()
	for _, one := range found {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			if address := prefix.Addr().Unmap(); !address.IsLoopback() {
				all = append(all, address)
			}
		}
	}
	// Two devices may have the same address of a link.
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), err
}

// Addresses are those of the host by which others can reach it, or it them.
func Addresses() (all []netip.Addr, err error) {
	all, err = Kernel()
	return Reachable(all), err
}

// Reachable are those among addresses by which others can reach a host, or it them.
func Reachable(all []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(all), func(address netip.Addr) bool { return !address.IsGlobalUnicast() })
}
