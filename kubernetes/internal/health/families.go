package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Forwards tells whether addresses answer, one of each family at least that the host has: one family may be dead while the other is well. A family of which
// the host has no address isn't asked, since there is none to ask from; if it has none of them all, all are asked, and the error says so.
func Forwards(ctx context.Context, addresses []netip.Addr) error {
	byFamily := map[bool][]netip.Addr{}
	for _, address := range addresses {
		byFamily[address.Is4()] = append(byFamily[address.Is4()], address)
	}
	asks := map[bool]bool{}
	for v4 := range byFamily {
		has, err := hasFamily(v4)
		if err != nil {
			return fmt.Errorf("addresses of the host: %w", err)
		}
		asks[v4] = has
	}
	all := !asks[true] && !asks[false]
	var failed error
	for _, v4 := range []bool{true, false} {
		if !all && !asks[v4] {
			continue
		}
		if err := anyOf(ctx, byFamily[v4]); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", familyName(v4), err))
		}
	}
	return failed
}

// anyOf is nil if one of several addresses answers, or there are none.
func anyOf(ctx context.Context, addresses []netip.Addr) (failed error) {
	for _, address := range addresses {
		err := Echo(ctx, address)
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// hasFamily tells whether the host has an address of a family from which others can be asked. One that the kernel still tests for being somebody else's
// counts, as it will be there in a second, but not on a device without a carrier, where that test has no end: a device that nothing is plugged into may have
// an address of IPv6 on a host which has none otherwise.
func hasFamily(v4 bool) (bool, error) {
	family := netlink.FAMILY_V6
	if v4 {
		family = netlink.FAMILY_V4
	}
	found, err := netlink.AddrList(nil, family)
	// Where one comes or goes meanwhile, the others are there all the same.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return false, err
	}
	for _, one := range found {
		if address, is := netip.AddrFromSlice(one.IP); !is || !address.IsGlobalUnicast() {
			continue
		}
		if one.Flags&unix.IFA_F_DADFAILED != 0 {
			// Somebody else's, for good.
			continue
		}
		if one.Flags&unix.IFA_F_TENTATIVE == 0 {
			return true, nil
		}
		if device, err := net.InterfaceByIndex(one.LinkIndex); err == nil && device.Flags&net.FlagRunning != 0 {
			return true, nil
		}
	}
	return false, nil
}

func familyName(v4 bool) string {
	if v4 {
		return "IPv4"
	}
	return "IPv6"
}
