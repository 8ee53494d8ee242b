package host

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Routes of others may change often: at most this often is looked at them.
const calm = time.Second

// changes tells when something of the host's may not be any more what the ways to other nodes rest upon: another MTU of a device by which they are
// reached, another route, another Ethernet address of a node that the port on the uplink sends to, or rules that somebody has taken away.
type changes struct {
	told chan struct{}
	// ports tells that ports of the node don't lead to Services any more; nil: nobody.
	ports func()
	mutex sync.Mutex
	sizes map[int]uint32
	// There is to be a port on the uplink, which rests upon neighbours besides.
	beside     bool
	neighbours neighbours
}

// know says by which devices others are reached.
func (c *changes) know(uplink *Uplink) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.sizes = uplink.sizes
}

func (c *changes) tell() {
	select {
	case c.told <- struct{}{}:
	default:
	}
}

// watch does so until the context ends. Where the kernel can't be listened to, whoever looks now and then sees it.
func (c *changes) watch(ctx context.Context, log *slog.Logger) {
	listeners := map[string]func(context.Context) (func(), error){"devices": c.links, "routes": c.routes, "nftables": c.rules}
	if c.beside {
		listeners["neighbours"] = c.hosts
	}
	for what, listen := range listeners {
		watch(ctx, what, listen, c.tell, log)
	}
}

// watch follows one thing until the context ends, again and again if that ends before.
func watch(ctx context.Context, what string, listen func(context.Context) (follow func(), err error), tell func(), log *slog.Logger) {
	follow, err := listen(ctx)
	go func() {
		for ctx.Err() == nil {
			if err == nil {
				follow()
				err = fmt.Errorf("the kernel tells nothing any more")
			}
			if ctx.Err() != nil {
				return
			}
			log.Warn("changes are seen after half a minute", "of", what, "why", err)
			select {
			case <-ctx.Done():
			case <-time.After(resync):
			}
			if follow, err = listen(ctx); err == nil {
				// In between something may have happened.
				tell()
			}
		}
	}()
}

// WatchAddresses tells of addresses of the host's that come and go, until the context ends.
func WatchAddresses(ctx context.Context, tell func(), log *slog.Logger) {
	watch(ctx, "addresses", func(ctx context.Context) (func(), error) {
		updates := make(chan netlink.AddrUpdate)
		if err := netlink.AddrSubscribe(updates, ctx.Done()); err != nil {
			return nil, err
		}
		return func() {
			for range updates {
				tell()
			}
		}, nil
	}, tell, log)
}

// links follows devices.
func (c *changes) links(ctx context.Context) (follow func(), err error) {
	updates := make(chan netlink.LinkUpdate)
	if err := netlink.LinkSubscribe(updates, ctx.Done()); err != nil {
		return nil, err
	}
	return func() {
		for update := range updates {
			attributes := update.Attrs()
			c.mutex.Lock()
			size, ours := c.sizes[attributes.Index]
			c.mutex.Unlock()
			if ours && (size != uint32(attributes.MTU) || attributes.RawFlags&unix.IFF_UP == 0) || c.neighbours.changed(attributes) {
				c.tell()
			}
		}
	}, nil
}

// routes follows those of others.
func (c *changes) routes(ctx context.Context) (follow func(), err error) {
	updates := make(chan netlink.RouteUpdate)
	if err := netlink.RouteSubscribe(updates, ctx.Done()); err != nil {
		return nil, err
	}
	return func() {
		soon := time.NewTicker(calm)
		defer soon.Stop()
		changed := false
		for {
			select {
			case update, more := <-updates:
				if !more {
					return
				}
				ours := update.Protocol == NodeProtocol || update.Protocol == ServiceProtocol
				changed = changed || update.Table == unix.RT_TABLE_MAIN && !ours
			case <-soon.C:
				if changed {
					c.tell()
				}
				changed = false
			}
		}
	}, nil
}

// rules follows tables of ours that go, or lose something.
func (c *changes) rules(ctx context.Context) (follow func(), err error) {
	connection, err := nftables.New()
	if err != nil {
		return nil, err
	}
	monitor := nftables.NewMonitor()
	events, err := connection.AddGenerationalMonitor(monitor)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = monitor.Close() })
	return func() {
		for event := range events {
			gone := lost(event.Changes)
			if gone[tableName] && c.ports != nil {
				c.ports()
			}
			if delete(gone, tableName); len(gone) > 0 {
				c.tell()
			}
		}
	}, nil
}

// lost are tables of ours of which something went with a change, but for those that it makes anew: that is how we do it ourselves. (Of elements it isn't
// known which table's they are.)
func lost(events []*nftables.MonitorEvent) map[string]bool {
	gone := map[string]bool{}
	for _, event := range events {
		switch event.Type {
		case nftables.MonitorEventTypeDelTable, nftables.MonitorEventTypeDelChain, nftables.MonitorEventTypeDelRule:
			if name := tableOf(event); strings.HasPrefix(name, "quiver-") {
				gone[name] = true
			}
		}
	}
	for _, event := range events {
		if event.Type == nftables.MonitorEventTypeNewTable {
			delete(gone, tableOf(event))
		}
	}
	return gone
}

// tableOf is the name of the table that an event is about.
func tableOf(event *nftables.MonitorEvent) string {
	switch what := event.Data.(type) {
	case *nftables.Table:
		return what.Name
	case *nftables.Chain:
		return what.Table.Name
	case *nftables.Rule:
		return what.Table.Name
	}
	return ""
}
