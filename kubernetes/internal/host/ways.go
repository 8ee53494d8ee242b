package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/overlay"
)

// ways are the host's own to peers' pods: by the device to quiverd, with an address of the node's range that only the host has, and that quiverd's
// device for tunnels is given. The kernel doesn't choose that by itself: everywhere else the host is seen with its own address.
// What fails of one family leaves the other's as they shall be.
func ways(plan *overlay.Plan, device string, ranges []netip.Prefix) (wanted []Route, failed error) {
	through := plan.Through()
	if len(through) == 0 {
		return nil, nil
	}
	to, err := netlink.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("device %s, by which the host reaches pods: %w", device, err)
	}
	below, err := netlink.LinkByName(dataplane.UnderlayDevice)
	if err != nil {
		return nil, fmt.Errorf("device %s, by which quiverd's tunnels reach other nodes: %w", dataplane.UnderlayDevice, err)
	}
	sources := map[bool]netip.Addr{}
	for _, prefix := range ranges {
		own := dataplane.HostAddress(prefix)
		if err := netlink.AddrReplace(below, quiet(own)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("address %s of device %s: %w", own, dataplane.UnderlayDevice, err))
			continue
		}
		sources[own.Is4()] = own
	}
	for _, peer := range through {
		for _, prefix := range peer.Ranges {
			if own := sources[prefix.Addr().Is4()]; own.IsValid() {
				wanted = append(wanted, Route{Prefix: prefix, Device: to.Attrs().Index, Source: own})
			}
		}
	}
	return wanted, failed
}

// quiet is an address that the kernel sends from only where a route says so: of no use outside, or deprecated.
func quiet(address netip.Addr) *netlink.Addr {
	whole := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(address.BitLen(), address.BitLen())}
	if address.Is4() {
		return &netlink.Addr{IPNet: whole, Scope: int(netlink.SCOPE_HOST)}
	}
	return &netlink.Addr{IPNet: whole, Flags: unix.IFA_F_NODAD, ValidLft: int(^uint32(0)), PreferedLft: 0}
}
