package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// ResolversFile names the resolvers of a host; in a pod, as the agent is one (dnsPolicy: Default), it is the copy that kubelet made of its own
	// resolvConf when the pod was made: what the host changes later isn't in it, and where kubelet reads another file than the host's programs, such as
	// systemd-resolved's, it has the resolvers of that one.
	ResolversFile = "/etc/resolv.conf"
	// This often Needed looks again.
	needsAnew = 30 * time.Second
	// This often, until all has been found out once, for as long as this: Services wait for it, but not for a name that nobody knows.
	needsSoon, needsPatience = time.Second, time.Minute
	// So long a name is asked for.
	nameTime = 5 * time.Second
)

// Needed are addresses outside of the cluster without which this node comes to nothing: somebody's Service must not take them from it, since an
// agent that can't reach the API server wouldn't learn that the Service is gone.
type Needed struct {
	// Server is the host of the API server, by address or name.
	Server string
	// Port is where it is asked there.
	Port uint16
	// Resolvers is the file that names the host's: see ResolversFile.
	Resolvers string
	// Log is told of what can't be found out.
	Log *slog.Logger

	mutex sync.Mutex
	// All has been found out once, or there is no more waiting for it.
	looked bool
	// What the name of the API server has stood for, also earlier: it may be balanced by names.
	servers map[netip.Addr]bool
	// As they are now.
	resolvers, routers map[netip.Addr]bool
	// What was told last.
	trouble string
}

// Run looks at them now and then, until the context ends.
func (n *Needed) Run(ctx context.Context) {
	begin := time.Now()
	for {
		n.look(ctx)
		wait := needsAnew
		if !n.settled(time.Since(begin)) {
			wait = needsSoon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// settled tells whether there is no more to wait for, after so long.
func (n *Needed) settled(waited time.Duration) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	// Each is there, maybe empty, once it has been read.
	if !n.looked && (n.servers != nil && n.resolvers != nil && n.routers != nil || waited >= needsPatience) {
		n.looked = true
	}
	return n.looked
}

// Addresses are those that must stay as they are, with what they are, and those of resolvers; false: not all of them have been found out yet.
func (n *Needed) Addresses() (needed map[netip.Addr]string, resolvers map[netip.Addr]bool, known bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	needed = map[netip.Addr]string{}
	for address := range n.routers {
		needed[address] = "a router of this node"
	}
	for address := range n.servers {
		needed[address] = "an address of the API server"
	}
	return needed, maps.Clone(n.resolvers), n.looked
}

// look finds them out. What can't be found out stays as it was: whoever resolves names may be down, as may be all else.
func (n *Needed) look(ctx context.Context) {
	short, cancel := context.WithTimeout(ctx, nameTime)
	defer cancel()
	servers, unnamed := addressesOf(short, n.Server)
	resolvers, unread := readResolvers(n.Resolvers)
	routers, unrouted := readRouters()
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if unnamed == nil && n.servers == nil {
		n.servers = map[netip.Addr]bool{}
	}
	for _, address := range servers {
		n.servers[address.Unmap()] = true
	}
	if unread == nil {
		n.resolvers = resolvers
	}
	if unrouted == nil {
		n.routers = routers
	}
	trouble := ""
	if err := errors.Join(unnamed, unread, unrouted); err != nil {
		trouble = err.Error()
	}
	if trouble != n.trouble && trouble != "" && ctx.Err() == nil {
		n.Log.Warn("not all addresses are known that this node needs, and that no Service may take", "why", trouble)
	}
	n.trouble = trouble
}

// addressesOf are those of a host.
func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// readResolvers reads the addresses of `nameserver` in a file; without the file, there are none.
func readResolvers(file string) (map[netip.Addr]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("resolvers: %w", err)
	}
	found := map[netip.Addr]bool{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if address, err := netip.ParseAddr(words[1]); err == nil {
			found[address.Unmap()] = true
		}
	}
	return found, nil
}

// readRouters reads the next hops of the host's default routes.
func readRouters() (map[netip.Addr]bool, error) {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("default routes: %w", err)
	}
	found := map[netip.Addr]bool{}
	add := func(hop net.IP, other netlink.Destination) {
		if via, is := other.(*netlink.Via); is {
			hop = via.Addr
		}
		if address, is := netip.AddrFromSlice(hop); is {
			found[address.Unmap()] = true
		}
	}
	for i := range routes {
		if !isDefault(routes[i].Dst) {
			continue
		}
		add(routes[i].Gw, routes[i].Via)
		for _, hop := range routes[i].MultiPath {
			add(hop.Gw, hop.Via)
		}
	}
	return found, nil
}
