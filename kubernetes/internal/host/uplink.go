package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Uplink is by which devices this node and others reach each other.
type Uplink struct {
	// Name of the one that has room for least.
	Name string
	// MTU of it, in bytes, or of the way by it.
	MTU uint32
	// sizes of all of them, by number.
	sizes map[int]uint32
}

// only is the name of the one device, if there is no other; else empty.
func (u *Uplink) only() string {
	if len(u.sizes) != 1 {
		return ""
	}
	return u.Name
}

// What quiverd's interfaces, and the kernel's packets, have at most.
const greatestMTU = 65535

var errNoUplink = errors.New("no device but a loopback has the node's InternalIP, and there is no default route: it isn't known by which device other nodes are reached; " +
	"give the node an InternalIP (standalone: --address), or the MTU of pods (--mtu)")

// devices are those of the namespace we are in, loopbacks apart.
type devices struct {
	byIndex map[int]net.Interface
	// Which of them has an address, and in which network.
	holders map[netip.Addr]int
	within  map[netip.Addr]netip.Prefix
}

func readDevices() (*devices, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("reading devices: %w", err)
	}
	found := &devices{map[int]net.Interface{}, map[netip.Addr]int{}, map[netip.Addr]netip.Prefix{}}
	for _, device := range all {
		if device.Flags&net.FlagLoopback != 0 {
			// Routers with several uplinks have the address there; nobody is reached by it.
			continue
		}
		found.byIndex[device.Index] = device
		own, err := device.Addrs()
		if err != nil {
			// It has just gone.
			continue
		}
		for _, one := range own {
			if prefix, err := netip.ParsePrefix(one.String()); err == nil {
				address := prefix.Addr().Unmap()
				found.holders[address], found.within[address] = device.Index, netip.PrefixFrom(address, prefix.Bits()).Masked()
			}
		}
	}
	return found, nil
}

// networks that these addresses are in.
func (d *devices) networks(addresses []netip.Addr) (all []netip.Prefix) {
	for _, address := range addresses {
		if network, is := d.within[address]; is {
			all = append(all, network)
		}
	}
	return all
}

// uplink is by which devices the ends are reached, as the kernel's routes say; where they say nothing, what has one of the node's own addresses; else
// that of the default route.
func (d *devices) uplink(own, ends []netip.Addr) (*Uplink, error) {
	found := &Uplink{sizes: map[int]uint32{}}
	for _, end := range ends {
		routes, err := netlink.RouteGetWithOptions(end.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		if err != nil {
			// There is none. Whoever needs it says so.
			continue
		}
		for _, route := range routes {
			d.add(found, route.LinkIndex, route.MTU)
			for _, hop := range route.MultiPath {
				d.add(found, hop.LinkIndex, route.MTU)
			}
		}
	}
	if found.Name != "" {
		return found, nil
	}
	for _, address := range own {
		if index, is := d.holders[address]; is {
			d.add(found, index, 0)
		}
	}
	if found.Name != "" {
		return found, nil
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("reading routes: %w", err)
	}
	for _, route := range routes {
		if isDefault(route.Dst) && found.Name == "" {
			d.add(found, route.LinkIndex, route.MTU)
		}
	}
	if found.Name == "" {
		return nil, errNoUplink
	}
	return found, nil
}

// add takes a device in; a way by it may have less room than it has itself.
func (d *devices) add(to *Uplink, index, way int) {
	device, is := d.byIndex[index]
	if !is {
		return
	}
	to.sizes[index] = uint32(device.MTU)
	size := uint32(min(device.MTU, greatestMTU))
	if way > 0 {
		size = min(size, uint32(way))
	}
	if to.Name == "" || size < to.MTU {
		to.Name, to.MTU = device.Name, size
	}
}

// isDefault tells whether a route's prefix is that of all addresses, said or not.
func isDefault(prefix *net.IPNet) bool {
	if prefix == nil {
		return true
	}
	length, _ := prefix.Mask.Size()
	return length == 0
}
