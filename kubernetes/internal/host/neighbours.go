package host

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// In these states the kernel sends to a neighbour where it has found it.
const isFound = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT | netlink.NUD_NOARP

// In these somebody has told the kernel where a neighbour is, or that nobody needs to be asked.
const isFixed = netlink.NUD_PERMANENT | netlink.NUD_NOARP

// stations are neighbours of a device as the kernel knows them.
func stations(device int) (map[netip.Addr]*netlink.Neigh, error) {
	found := map[netip.Addr]*netlink.Neigh{}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.NeighList(device, family)
		if err != nil {
			return nil, fmt.Errorf("reading neighbours: %w", err)
		}
		for i := range all {
			if address, is := netip.AddrFromSlice(all[i].IP); is {
				found[address.Unmap()] = &all[i]
			}
		}
	}
	return found, nil
}

// stationOf is where the kernel sends to a neighbour; empty: it doesn't know. Nor does it know of nil.
func stationOf(neighbour *netlink.Neigh) string {
	if neighbour == nil || neighbour.State&isFound == 0 || len(neighbour.HardwareAddr) != stationLength {
		return ""
	}
	return neighbour.HardwareAddr.String()
}

// resolve has the kernel look for a neighbour, or see whether it is still there if it hasn't for a while: its own packets may go nowhere near it. What somebody has
// told it is left alone: it would forget that.
func resolve(address netip.Addr, device int, known *netlink.Neigh) error {
	if known != nil && known.State&isFixed != 0 {
		return nil
	}
	return netlink.NeighSet(&netlink.Neigh{LinkIndex: device, IP: address.AsSlice(), Flags: netlink.NTF_USE})
}

// neighbours are what a port on a device rests upon.
type neighbours struct {
	mutex sync.Mutex
	// Name of the device, its number, and its own station; 0 and empty: it isn't known yet.
	name    string
	index   int
	station string
	// Where others are, as it was last; empty: not found yet.
	used map[netip.Addr]string
	// It is just being read: whatever changes may or may not be in what is read.
	reading bool
}

// read says that it is read from now on, for await.
func (n *neighbours) read() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.reading = true
}

// await says what was read, and is looked at from now on.
func (n *neighbours) await(name string, index int, station string, used map[netip.Addr]string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.name, n.index, n.station, n.used, n.reading = name, index, station, maps.Clone(used), false
}

// moved tells whether what the kernel says of a neighbour is news.
func (n *neighbours) moved(update *netlink.NeighUpdate) bool {
	address, is := netip.AddrFromSlice(update.IP)
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.reading {
		return true
	}
	before, ours := n.used[address.Unmap()]
	if !is || !ours || update.LinkIndex != n.index {
		return false
	}
	// One that the kernel was asked for, and has forgotten, it has to be asked for once more.
	return update.Type == unix.RTM_DELNEIGH || stationOf(&update.Neigh) != before
}

// changed tells whether what the kernel says of a device is news.
func (n *neighbours) changed(device *netlink.LinkAttrs) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.name != "" && device.Name == n.name && (device.Index != n.index || device.HardwareAddr.String() != n.station || device.RawFlags&unix.IFF_UP == 0)
}

// hosts follows neighbours of the port on the uplink.
func (c *changes) hosts(ctx context.Context) (follow func(), err error) {
	updates := make(chan netlink.NeighUpdate)
	if err := netlink.NeighSubscribe(updates, ctx.Done()); err != nil {
		return nil, err
	}
	return func() {
		for update := range updates {
			if c.neighbours.moved(&update) {
				c.tell()
			}
		}
	}, nil
}
