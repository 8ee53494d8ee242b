package host

import (
	"net"
	"net/netip"
)

// Addresses are those of the host by which others can reach it, or it them.
func Addresses() (all []netip.Addr, err error) {
	found, err := net.InterfaceAddrs()
	for _, one := range found {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			if address := prefix.Addr().Unmap(); address.IsGlobalUnicast() {
				all = append(all, address)
			}
		}
	}
	return all, err
}
