package inspect

import "net/netip"

// vip is one as `quiver show vip` has it.
type vip struct {
	Address  netip.Addr
	Protocol string
	Port     uint16
	Backends []vipBackend
}

type vipBackend struct {
	Address        netip.Addr
	Port           uint16
	State, Clients string
	Leaving        bool
}

func (b vipBackend) at() netip.AddrPort { return netip.AddrPortFrom(b.Address, b.Port) }

// vipsOf are those of a node, or the one of a name.
func vipsOf(quiver func(words ...string) ([]byte, error), name ...string) ([]vip, error) {
	var found struct{ VIPs []vip }
	err := read(&found, quiver, append([]string{"show", "vip"}, name...)...)
	return found.VIPs, err
}
