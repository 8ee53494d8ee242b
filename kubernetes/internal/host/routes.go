// Package host keeps what the node's kernel has to do: routes to the pods of other nodes, between which it forwards, its ways to Services,
// and the translation of what pods send out of the cluster.
package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/pods"
)

// What marks routes that are ours ("proto 81" in `ip route`): no other is ever changed or removed.
const (
	// NodeProtocol is that of routes to other nodes' pods.
	NodeProtocol = 81
	// ServiceProtocol is that of routes to addresses of Services.
	ServiceProtocol = 82
)

// Route leads to the pods of another node, or to where a Service is asked.
type Route struct {
	// Prefix is a range of pods' addresses, or a Service's address.
	Prefix netip.Prefix
	// Via is the node that has it, an address of the same family; not valid: what is behind the device.
	Via netip.Addr
	// Source that the host has when it sends there; not valid: the kernel chooses.
	Source netip.Addr
	// Device is the number of the one that leads there; 0: that by which Via is reached.
	Device int
}

func (r Route) String() string {
	if r.Via.IsValid() {
		return fmt.Sprintf("%s via %s", r.Prefix, r.Via)
	}
	return r.Prefix.String()
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
			wanted = append(wanted, Route{Prefix: prefix, Via: via})
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
	handle   *netlink.Handle
	protocol netlink.RouteProtocol
}

// Open is the table of the namespace we are in, in which routes with that mark are ours.
func Open(protocol int) (*Table, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	return &Table{handle, netlink.RouteProtocol(protocol)}, err
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
			failed = errors.Join(failed, t.remove(route))
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
		if err := change(t.kernel(route)); err != nil {
			failed = errors.Join(failed, worded(route, err))
			if exists {
				// Where it led before is wrong by now.
				failed = errors.Join(failed, t.remove(before))
			}
		}
	}
	return failed
}

// remove removes a route, if it is there still.
func (t *Table) remove(route Route) error {
	if err := t.handle.RouteDel(t.kernel(route)); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("removing route %s: %w", route, err)
	}
	return nil
}

// ours are the routes that an agent made, now or in an earlier life.
func (t *Table) ours() (map[netip.Prefix]Route, error) {
	routes, err := t.handle.RouteListFiltered(netlink.FAMILY_ALL,
		&netlink.Route{Protocol: t.protocol, Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
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
		source, _ := netip.AddrFromSlice(route.Src)
		prefix := netip.PrefixFrom(address.Unmap(), length)
		found := Route{Prefix: prefix, Via: via.Unmap(), Source: source.Unmap()}
		if !via.IsValid() {
			found.Device = route.LinkIndex
		}
		ours[prefix] = found
	}
	return ours, nil
}

func (t *Table) kernel(route Route) *netlink.Route {
	asked := &netlink.Route{
		Dst:       &net.IPNet{IP: route.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(route.Prefix.Bits(), route.Prefix.Addr().BitLen())},
		LinkIndex: route.Device,
		Protocol:  t.protocol,
		Table:     unix.RT_TABLE_MAIN,
	}
	if route.Source.IsValid() {
		asked.Src = route.Source.AsSlice()
	}
	if route.Via.IsValid() {
		asked.Gw = route.Via.AsSlice()
	} else if route.Prefix.Addr().Is4() {
		// As ip(8) does: who has the address is on the link.
		asked.Scope = netlink.SCOPE_LINK
	}
	return asked
}

// worded says what the kernel means.
func worded(route Route, err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("route %s: somebody else has made a route to the same prefix; it is left alone: remove that one, if the agent's shall be there", route)
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL):
		if route.Via.IsValid() {
			return fmt.Errorf("route %s: %w: the node is no direct neighbour of this one; tunnels lead there nevertheless (--overlay=vxlan or cross-subnet, on all nodes)", route, err)
		}
		if route.Source.IsValid() {
			return fmt.Errorf("route %s: %w: see whether the host has its source %s (ip address)", route, err, route.Source)
		}
		return fmt.Errorf("route %s: %w: see whether device number %d is there and up (ip link)", route, err, route.Device)
	}
	return fmt.Errorf("route %s: %w", route, err)
}

// forwards tells whether the kernel forwards packets of the families of pods' ranges at all. That is the host's own setting, which is not changed here.
func forwards(ranges []netip.Prefix) error {
	var failed error
	for _, v4 := range []bool{true, false} {
		setting := "net/ipv6/conf/all/forwarding"
		if v4 {
			setting = "net/ipv4/ip_forward"
		}
		if !slices.ContainsFunc(ranges, func(prefix netip.Prefix) bool { return prefix.Addr().Is4() == v4 }) {
			continue
		}
		text, err := os.ReadFile("/proc/sys/" + setting)
		if err == nil && len(text) > 0 && text[0] == '0' {
			failed = errors.Join(failed, fmt.Errorf("the host doesn't forward packets between pods and other nodes: sysctl -w %s=1", setting))
		}
	}
	return failed
}
