package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"quiver/kubernetes/internal/agent"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/host"
	"quiver/kubernetes/internal/pods"
)

// reach keeps the ways to other nodes' pods, and the host's translation of what leaves the cluster, of families that translate changes, until the context ends. The
// cluster is nil where there is none.
func reach(
	ctx context.Context, o options, server *agent.Agent, nodes host.Nodes, cluster *pods.Cluster, of host.Families, registry *prometheus.Registry, log *slog.Logger,
) (translate func(host.Families), err error) {
	if o.device == "" {
		// Pods reach each other only. An agent before this one may have had more.
		table, err := host.Open(host.NodeProtocol)
		if err != nil {
			return nil, fmt.Errorf("--host-device: routes of the host: %w", err)
		}
		defer table.Close()
		if err := errors.Join(table.Bring(nil), host.WithdrawOverlay(), host.WithdrawOutgoing(), host.WithdrawUplink()); err != nil {
			return nil, fmt.Errorf("--host-device: %w", err)
		}
		_, err = server.SetPaths(dataplane.Paths{MTU: uint32(cmp.Or(o.mtu, host.LonelyMTU))})
		return func(host.Families) {}, err
	}
	outgoing := &host.Outgoing{Families: of}
	// At once: other nodes may not be known for long.
	if err := outgoing.Resume(); err != nil {
		return nil, fmt.Errorf("natOutgoing: %w", err)
	}
	follower := host.NewFollower(nodes, o.device, log)
	follower.Overlay, follower.MTU, follower.Outgoing = o.overlay, uint32(o.mtu), outgoing
	follower.Carrier, follower.UplinkInterface = o.carrier, o.uplink
	follower.Tell, follower.Carries, follower.Lost = server.Follow, server.Port, server.CompareServices
	if cluster != nil {
		follower.Warn = func(about error) { cluster.TellNode("QuiverHost", about.Error()) }
	}
	if err := follower.Figures(registry); err != nil {
		return nil, err
	}
	server.Following(follower)
	go follower.Run(ctx)
	return func(of host.Families) {
		outgoing.Translate(of)
		follower.Compare()
	}, nil
}

// checkUplink refuses what can't be.
func checkUplink(o options) error {
	switch {
	case o.carrier != host.ByPort && o.uplink != "":
		return fmt.Errorf("--uplink-interface %s: it is for --uplink %s alone: leave it out, or say that, too", o.uplink, host.ByPort)
	case o.carrier == host.ByPort && o.overlay.On():
		return fmt.Errorf("--uplink %s with --overlay %s: what tunnels have packed goes through the host's kernel: leave out one of the two", host.ByPort, o.overlay.Mode)
	case o.carrier == host.ByPort && o.device == "":
		return fmt.Errorf("--uplink %s: what isn't for other nodes' pods goes through the host, which has no device towards pods: say what it is called by --host-device", host.ByPort)
	}
	return nil
}

// static are this node and others where there is no cluster.
func static(o options, ranges []netip.Prefix) (*pods.Static, error) {
	name, err := os.Hostname()
	if err != nil {
		name = "(without a name)"
	}
	seen := map[string]bool{}
	for _, peer := range o.peers {
		if seen[peer.Name] {
			return nil, fmt.Errorf("--peer %s: it is given twice: give each node once, with all its addresses and ranges", peer.Name)
		}
		seen[peer.Name] = true
	}
	nodes := &pods.Static{This: pods.Node{Name: name, Ranges: ranges}, Rest: o.peers}
	if o.addresses == "" {
		return nodes, nil
	}
	own, err := pods.ParseAddresses(o.addresses)
	if err != nil {
		return nil, fmt.Errorf("--address: %w", err)
	}
	nodes.This.Addresses = own
	return nodes, nil
}
