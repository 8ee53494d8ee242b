package main

import (
	"log/slog"
	"net/netip"
	"slices"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/host"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/policy"
)

// guard makes who keeps policies on this node, and in a file who is guarded.
func guard(cluster *pods.Cluster, objects *policy.Objects, quiverd *dataplane.Client, file string, log *slog.Logger) *policy.Keeper {
	settings := policy.Settings{Teller: cluster, Kept: file, Node: func() ([]netip.Addr, bool) { return ownAddresses(cluster) }}
	return policy.New(settings, objects, quiverd, log)
}

// ownAddresses are those of this node, as its node object and its kernel have them: pods see it with any.
func ownAddresses(cluster *pods.Cluster) ([]netip.Addr, bool) {
	self, known := cluster.Self()
	here, err := host.Addresses()
	if !known || err != nil {
		return nil, false
	}
	all := append(slices.Clone(self.Addresses), here...)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), true
}
