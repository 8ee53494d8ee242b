package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"k8s.io/client-go/rest"

	"quiver/kubernetes/internal/agent"
	"quiver/kubernetes/internal/balance"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/health"
	"quiver/kubernetes/internal/host"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/service"
)

// keep makes who keeps Services on this node.
func keep(o options, server *agent.Agent, cluster *pods.Cluster, needed *host.Needed, objects *balance.Objects, quiverd *dataplane.Client, log *slog.Logger) (*balance.Keeper, error) {
	settings := balance.Settings{
		Teller: cluster, Pods: server.HostPorts, Here: func() (service.Here, bool) { return here(server, cluster, needed) }, Occupied: host.Occupied,
		Healthy: health.Share(server.Serves),
	}
	if o.device != "" {
		kernel, err := host.OpenServices(o.device)
		if err != nil {
			return nil, err
		}
		settings.Host = kernel
	}
	return balance.New(settings, objects, quiverd, log), nil
}

// needs is what this node needs outside of the cluster, and can't lose to a Service.
func needs(access *rest.Config, log *slog.Logger) (*host.Needed, error) {
	server, _, err := rest.DefaultServerUrlFor(access)
	if err != nil {
		return nil, fmt.Errorf("where the API server is: %w", err)
	}
	port, err := net.LookupPort("tcp", cmp.Or(server.Port(), server.Scheme))
	if err != nil {
		return nil, fmt.Errorf("where the API server is: %w", err)
	}
	return &host.Needed{Server: server.Hostname(), Port: uint16(port), Resolvers: host.ResolversFile, Log: log}, nil
}

// here is this node, as soon as its ranges, all nodes and what it needs are known.
func here(server *agent.Agent, cluster *pods.Cluster, needed *host.Needed) (service.Here, bool) {
	sources, ranges := server.Sources()
	self, known := cluster.Self()
	others, listed := cluster.Others()
	needs, resolvers, looked := needed.Addresses()
	if len(ranges) == 0 || !known || !listed || !looked {
		return service.Here{}, false
	}
	nodes, all := map[netip.Addr]bool{}, slices.Clone(ranges)
	for _, node := range append(others, self) {
		for _, address := range slices.Concat(node.Addresses, node.External) {
			nodes[address] = true
		}
		all = append(all, node.Ranges...)
	}
	// There may be more than the node object tells.
	kernel, err := host.Kernel()
	if err != nil {
		return service.Here{}, false
	}
	own := host.Reachable(kernel)
	told := slices.Concat(self.Addresses, self.External)
	return service.Here{
		Name: self.Name, Zone: self.Zone, Addresses: service.Asked(own, told, all), Own: service.Asked(own, nil, all), Kernel: kernel, Nodes: nodes,
		Needed: needs, Resolvers: resolvers, ServerPort: needed.Port, Kubelet: self.Kubelet, Ranges: ranges, Pods: all, Sources: sources,
	}, true
}
