package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// receiver is whom packets are for.
type receiver struct {
	// Addresses that packets have when they are sent, and when they arrive; nil: any.
	asked, answers []netip.Addr
	// Nodes on which the latter are; nil: not known.
	nodes []string
	// It is a Service: packets arrive at other ports than were asked for.
	service bool
}

// plan finds out where to look.
func (c *Cluster) plan(ctx context.Context, order Order) (*plan, []Node, error) {
	sender, err := c.end(ctx, order.From)
	if err != nil {
		return nil, nil, err
	}
	if sender.node == "" {
		return nil, nil, fmt.Errorf("%s is an address: what is traced is what a pod sends; name it, as pod or namespace/pod", order.From)
	}
	if order.Port != 0 && order.Protocol != "" && order.Protocol != "tcp" && order.Protocol != "udp" {
		return nil, nil, fmt.Errorf("--port %d with --proto %s: traces show ports of TCP and UDP alone; leave --port out", order.Port, order.Protocol)
	}
	to, err := c.receiver(ctx, order.To)
	if err != nil {
		return nil, nil, err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := spots(order, sender, to, nodes)
	if err != nil {
		return nil, nil, err
	}
	elsewhere := len(to.nodes) > 0 && !slices.Contains(to.nodes, sender.node)
	return &plan{order, found, elsewhere, look}, nodes, nil
}

// receiver finds whom packets are for.
func (c *Cluster) receiver(ctx context.Context, text string) (receiver, error) {
	if text == "" {
		return receiver{}, nil
	}
	if asked, is := serviceNamed(text); is {
		if asked.port != "" {
			return receiver{}, fmt.Errorf("%s: name the Service alone, and its port by --port", text)
		}
		found, err := c.behind(ctx, asked)
		if err != nil {
			return receiver{}, err
		}
		to := receiverOf(found.service, found.slices)
		if to.asked == nil {
			return receiver{}, fmt.Errorf("%s has no address, and nobody is behind it", asked)
		}
		return to, nil
	}
	found, err := c.end(ctx, text)
	if err != nil {
		return receiver{}, err
	}
	to := receiver{asked: found.addresses, answers: found.addresses}
	if found.node != "" {
		to.nodes = []string{found.node}
	}
	return to, nil
}

// receiverOf is a Service, with those who are behind it.
func receiverOf(service *core.Service, endpoints []discovery.EndpointSlice) receiver {
	to := receiver{service: true, answers: []netip.Addr{}, nodes: []string{}}
	asked := slices.Concat(service.Spec.ClusterIPs, service.Spec.ExternalIPs)
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		asked = append(asked, ingress.IP)
	}
	for _, slice := range endpoints {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					to.answers = append(to.answers, address)
				}
			}
			if endpoint.NodeName != nil && !slices.Contains(to.nodes, *endpoint.NodeName) {
				to.nodes = append(to.nodes, *endpoint.NodeName)
			}
		}
	}
	for _, text := range asked {
		// ("None" is no address.)
		if address, err := netip.ParseAddr(text); err == nil {
			to.asked = append(to.asked, address)
		}
	}
	if service.Spec.ClusterIP == core.ClusterIPNone {
		to.asked, to.service = append(to.asked, to.answers...), false
	}
	return to
}

// spots are the sender's node, and those where its packets may arrive: the receiver's, or all that have Quiver.
func spots(order Order, sender end, to receiver, nodes []Node) ([]*spot, error) {
	if i := slices.IndexFunc(nodes, func(node Node) bool { return node.Name == sender.node }); i < 0 || nodes[i].Pod == nil {
		return nil, fmt.Errorf("pod %s is on node %s, which has no pod of Quiver: nothing can be traced there", order.From, sender.node)
	}
	begins := flow{sender.addresses, to.asked, order.Protocol, order.Port}
	arrives := flow{sender.addresses, to.answers, order.Protocol, order.Port}
	if to.service {
		arrives.port = 0
	}
	all := []*spot{{node: sender.node, want: begins, find: func(quiver func(words ...string) ([]byte, error)) ([]string, error) {
		return attached(quiver, order.From, sender.addresses)
	}}}
	for _, node := range nodes {
		if node.Name != sender.node && node.Pod != nil && (to.nodes == nil || slices.Contains(to.nodes, node.Name)) {
			all = append(all, &spot{node: node.Name, want: arrives, find: entrances})
		}
	}
	return all, nil
}

// attached are a pod's interfaces in the dataplane: those to which its addresses are routed.
func attached(quiver func(words ...string) ([]byte, error), pod string, addresses []netip.Addr) (names []string, err error) {
	routes, err := routesOf(quiver)
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		for _, name := range routes[address] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if names == nil {
		return nil, fmt.Errorf("quiverd has no route to pod %s (%v): it has no interface of Quiver's, or the agent isn't ready", pod, addresses)
	}
	return names, nil
}

// routesOf are the interfaces to which a dataplane routes single addresses, as it does those of pods.
func routesOf(quiver func(words ...string) ([]byte, error)) (map[netip.Addr][]string, error) {
	type hop struct{ Interface string }
	var found struct {
		Objects []struct {
			Object struct {
				Route struct {
					Prefix    string
					NextHops  []hop `json:"next_hops"`
					PortSplit struct {
						NextHop hop `json:"next_hop"`
					} `json:"port_split"`
				}
			}
		}
	}
	if err := read(&found, quiver, "get", "route", "--status"); err != nil {
		return nil, err
	}
	routes := map[netip.Addr][]string{}
	for _, entry := range found.Objects {
		route := entry.Object.Route
		prefix, err := netip.ParsePrefix(route.Prefix)
		if err != nil || !prefix.IsSingleIP() {
			continue
		}
		for _, hop := range append(route.NextHops, route.PortSplit.NextHop) {
			if hop.Interface != "" {
				routes[prefix.Addr()] = append(routes[prefix.Addr()], hop.Interface)
			}
		}
	}
	return routes, nil
}

// entrances are the interfaces by which packets of other nodes come in: all that have a port, but pods'.
func entrances(quiver func(words ...string) ([]byte, error)) (names []string, err error) {
	var found struct {
		Objects []struct {
			Object struct{ Interface map[string]any }
		}
	}
	if err := read(&found, quiver, "get", "interface", "--status"); err != nil {
		return nil, err
	}
	for _, entry := range found.Objects {
		name, _ := entry.Object.Interface["name"].(string)
		if strings.HasPrefix(name, "pod:") && strings.Count(name, ":") > 1 {
			continue
		}
		for _, port := range []string{"tap", "af_packet", "af_xdp"} {
			if entry.Object.Interface[port] != nil {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
