package dataplane

import (
	"net/netip"
	"strings"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// Found are the objects in the dataplane by whose they are. The agent's own may be of an earlier life of it.
type Found struct {
	// Pods are the agent's, made for pods.
	Pods []*quiver.ObjectRef
	// Node are the agent's, made for the node as a whole.
	Node []*quiver.ObjectRef
	// ToNodes are interfaces by which packets of other nodes' pods come in, by name: some of those in Node.
	ToNodes []string
	// Others are none of the agent's business.
	Others []*quiver.ObjectRef
}

// Ours are all that the agent made.
func (f *Found) Ours() []*quiver.ObjectRef {
	return append(append([]*quiver.ObjectRef(nil), f.Pods...), f.Node...)
}

// isPods tells whether the agent calls an interface of a pod so.
func isPods(device string) bool {
	its := device == gateway || device == uplink || device == underlay || leadsToNodes(device)
	return strings.HasPrefix(device, ours) && !its
}

// sort tells whose objects are. The agent's are interfaces and tenants with names of a certain form, what leads through them, and routes without
// a next hop for the ranges that the host is told to reach through quiverd.
func sort(all *quiver.Config) *Found {
	pods, node, others := &quiver.Config{}, &quiver.Config{}, &quiver.Config{}
	whose := func(device string) *quiver.Config {
		switch {
		case isPods(device):
			return pods
		case strings.HasPrefix(device, ours):
			return node
		}
		return others
	}
	ranges := map[string]bool{}
	var toNodes []string
	for _, device := range all.Interfaces {
		to := whose(device.Name)
		to.Interfaces = append(to.Interfaces, device)
		if leadsToNodes(device.Name) {
			toNodes = append(toNodes, device.Name)
		}
		if device.Name == uplink {
			for _, route := range device.GetTap().GetHostRoutes() {
				ranges[route.Prefix] = true
			}
		}
	}
	for _, vrf := range all.Vrfs {
		to := whose(vrf.Name)
		to.Vrfs = append(to.Vrfs, vrf)
	}
	for _, route := range all.Routes {
		to := others
		if hops := route.NextHops; len(hops) == 1 {
			to = whose(hops[0].Interface)
		} else if len(hops) == 0 && ranges[route.Prefix] {
			to = node
		}
		to.Routes = append(to.Routes, route)
	}
	for _, tenant := range all.Tenants {
		to := whose(tenant.Name)
		if tenant.Name == everybody {
			to = node
		}
		to.Tenants = append(to.Tenants, tenant)
	}
	for _, neighbor := range all.Neighbors {
		to := whose(neighbor.Interface)
		to.Neighbors = append(to.Neighbors, neighbor)
	}
	return &Found{Refs(pods), Refs(node), toNodes, Refs(others)}
}

// leadsToNodes tells whether an interface is a tunnel to another node, or the port on the uplink.
func leadsToNodes(name string) bool { return name == uplinkPort || IsTunnel(name) }

// Hosts are the addresses to which routes among these lead, one each: those of pods.
func Hosts(refs []*quiver.ObjectRef) (all []netip.Addr) {
	for _, ref := range refs {
		_, text, _ := strings.Cut(ref.Name, "/")
		if prefix, err := netip.ParsePrefix(text); err == nil && ref.Kind == quiver.Kind_KIND_ROUTE && prefix.IsSingleIP() {
			all = append(all, prefix.Addr())
		}
	}
	return all
}
