// Package host keeps the node's own routes to the pods of other nodes: the kernel forwards between nodes.
package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/pods"
)

// Protocol marks the routes that are ours ("proto 81" in `ip route`): no other is ever changed or removed.
const Protocol = 81

// Route leads to the pods of another node.
type Route struct {
	// Prefix is a range of pods' addresses.
	Prefix netip.Prefix
	// Via is the node that has it, an address of the same family.
	Via netip.Addr
}

// Wanted are the routes to the pods of other nodes. An error names the nodes that have a range but no address of its
// family; the others' routes are complete nevertheless.
func Wanted(nodes []pods.Node) (wanted []Route, failed error) {
	for _, node := range nodes {
		for _, prefix := range node.Ranges {
			via := sameFamily(node.Addresses, prefix)
			if !via.IsValid() {
				failed = errors.Join(failed, fmt.Errorf("node %s has no InternalIP of the family of its podCIDR %s", node.Name, prefix))
				continue
			}
			wanted = append(wanted, Route{prefix, via})
		}
	}
	return wanted, failed
}

func sameFamily(addresses []netip.Addr, prefix netip.Prefix) netip.Addr {
	for _, address := range addresses {
		if address.Is4() == prefix.Addr().Is4() {
			return address
		}
	}
	return netip.Addr{}
}

// Table is the main routing table of a network namespace.
type Table struct {
	handle *netlink.Handle
}

// Open is the table of the namespace we are in.
func Open() (*Table, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	return &Table{handle}, err
}

// Close ends it; routes stay.
func (t *Table) Close() { t.handle.Close() }

// Bring makes our routes what is wanted. One that can't be doesn't stand in the way of the others.
func (t *Table) Bring(wanted []Route) error {
	there, err := t.ours()
	if err != nil {
		return err
	}
	keep := map[netip.Prefix]bool{}
	for _, route := range wanted {
		keep[route.Prefix] = true
	}
	var failed error
	for prefix, route := range there {
		if !keep[prefix] {
			if err := t.handle.RouteDel(kernel(route)); err != nil && !errors.Is(err, unix.ESRCH) {
				failed = errors.Join(failed, fmt.Errorf("removing route %s: %w", prefix, err))
			}
		}
	}
	for _, route := range wanted {
		before, exists := there[route.Prefix]
		if exists && before == route {
			continue
		}
		change := t.handle.RouteAdd
		if exists {
			change = t.handle.RouteReplace
		}
		if err := change(kernel(route)); err != nil {
			failed = errors.Join(failed, fmt.Errorf("route %s via %s: %s", route.Prefix, route.Via, worded(err)))
		}
	}
	return failed
}

// ours are the routes that an agent made, now or in an earlier life.
func (t *Table) ours() (map[netip.Prefix]Route, error) {
	routes, err := t.handle.RouteListFiltered(netlink.FAMILY_ALL,
		&netlink.Route{Protocol: Protocol, Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("reading routes: %w", err)
	}
	ours := map[netip.Prefix]Route{}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		address, _ := netip.AddrFromSlice(route.Dst.IP)
		length, _ := route.Dst.Mask.Size()
		via, _ := netip.AddrFromSlice(route.Gw)
		prefix := netip.PrefixFrom(address.Unmap(), length)
		ours[prefix] = Route{prefix, via.Unmap()}
	}
	return ours, nil
}

func kernel(route Route) *netlink.Route {
	return &netlink.Route{
		Dst:      &net.IPNet{IP: route.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(route.Prefix.Bits(), route.Prefix.Addr().BitLen())},
		Gw:       route.Via.AsSlice(),
		Protocol: Protocol,
		Table:    unix.RT_TABLE_MAIN,
	}
}

// worded says what the kernel means.
func worded(err error) string {
	switch {
	case errors.Is(err, unix.EEXIST):
		return "somebody else has made a route to the same prefix; it is left alone"
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL):
		return fmt.Sprintf("%v: the node is no direct neighbour of this one, and there are no tunnels yet", err)
	}
	return err.Error()
}

// Forwards tells whether the kernel forwards packets of both families at all. That is the host's own setting, which is not changed here.
func Forwards() error {
	var failed error
	for _, setting := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		text, err := os.ReadFile("/proc/sys/" + setting)
		if err == nil && len(text) > 0 && text[0] == '0' {
			failed = errors.Join(failed, fmt.Errorf("the host doesn't forward packets between pods and other nodes: sysctl -w %s=1", setting))
		}
	}
	return failed
}
