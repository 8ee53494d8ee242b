package pods

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Node is what there is to know of a node to reach its pods and Services.
type Node struct {
	// Name of the node.
	Name string
	// Zone that it is in; empty: none is said.
	Zone string
	// Ranges of its pods' addresses, at most one per family.
	Ranges []netip.Prefix
	// Addresses of the node itself (InternalIP), in the order of the node object, and External ones (ExternalIP).
	Addresses, External []netip.Addr
	// Kubelet is the TCP port of its kubelet; 0: its object doesn't tell.
	Kubelet uint16
}

func newNodes(nodes cache.ListerWatcher, changed chan<- struct{}) (cache.SharedInformer, error) {
	informer := cache.NewSharedInformer(nodes, &core.Node{}, 0)
	err := informer.SetTransform(func(object any) (any, error) {
		if node, is := object.(*core.Node); is {
			return &core.Node{
				ObjectMeta: meta.ObjectMeta{Name: node.Name, ResourceVersion: node.ResourceVersion, Labels: zone(node.Labels)},
				Spec:       core.NodeSpec{PodCIDRs: node.Spec.PodCIDRs},
				Status:     core.NodeStatus{Addresses: node.Status.Addresses, DaemonEndpoints: node.Status.DaemonEndpoints},
			}, nil
		}
		return object, nil
	})
	if err != nil {
		return nil, err
	}
	// What changed doesn't matter: whoever is told looks at all of it. One word is enough for any number of changes.
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { tell() },
		UpdateFunc: func(before, after any) {
			// Kubelets write a heartbeat every few seconds, which changes nothing here.
			old, was := before.(*core.Node)
			new, is := after.(*core.Node)
			if !was || !is || !reflect.DeepEqual(nodeOf(old), nodeOf(new)) {
				tell()
			}
		},
		DeleteFunc: func(any) { tell() },
	})
	return informer, err
}

// NodesChanged tells that Others may have another answer than before.
func (c *Cluster) NodesChanged() <-chan struct{} { return c.changed }

// Self is this node. Nothing is known before the API server has answered once.
func (c *Cluster) Self() (self Node, known bool) {
	object, known, _ := c.nodes.GetStore().GetByKey(c.node)
	if !known {
		return self, false
	}
	return nodeOf(object.(*core.Node)), true
}

// Others are all nodes but this one, by name. Nothing is known before the API server has answered once.
func (c *Cluster) Others() (others []Node, known bool) {
	if !c.nodes.HasSynced() {
		return nil, false
	}
	for _, object := range c.nodes.GetStore().List() {
		node := object.(*core.Node)
		if node.Name == c.node {
			continue
		}
		others = append(others, nodeOf(node))
	}
	slices.SortFunc(others, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return others, true
}

func nodeOf(node *core.Node) Node {
	// A node whose ranges can't be read is one without ranges: its own agent says what is wrong with them.
	ranges, _ := ParseRanges(node.Spec.PodCIDRs)
	return Node{
		Name: node.Name, Zone: node.Labels[core.LabelTopologyZone], Ranges: ranges, Addresses: addresses(node, core.NodeInternalIP), External: addresses(node, core.NodeExternalIP),
		Kubelet: uint16(node.Status.DaemonEndpoints.KubeletEndpoint.Port),
	}
}

// zone is all that is wanted of a node's labels.
func zone(labels map[string]string) map[string]string {
	if name, said := labels[core.LabelTopologyZone]; said {
		return map[string]string{core.LabelTopologyZone: name}
	}
	return nil
}

func addresses(node *core.Node, of core.NodeAddressType) (all []netip.Addr) {
	for _, address := range node.Status.Addresses {
		if parsed, err := netip.ParseAddr(address.Address); err == nil && address.Type == of {
			all = append(all, parsed.Unmap())
		}
	}
	return all
}
