package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is never looked at of a node itself.
const notLooked = "whether anything listens there, and what the node's own firewall says, isn't looked at"

// The same of what has no ports.
const notAnswered = "whether it answers, and what the node's own firewall says, isn't looked at"

// place is an address and a port at which a Service is asked.
type place struct {
	service *core.Service
	port    *core.ServicePort
	// As what: " at its node port".
	how string
	// cluster: it is a cluster address; node: the node's own port.
	cluster, node bool
	// assigned: the API server or a load balancer has given it.
	assigned bool
}

// explainAddress explains a session to an address that is of no pod: whoever answers there is found out. Without a port, or where nobody does, it is
// said what is known.
func (c *Cluster) explainAddress(ctx context.Context, sender end, to netip.Addr, wanted session, nodes []Node, ask asker) ([]Verdict, error) {
	services, err := c.client.Services(core.NamespaceAll).List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("%v is in no node's range of pods, and Services of all namespaces, of which one may answer there, can't be listed: %w", to, err)
	}
	host := hostOf(nodes, end{addresses: []netip.Addr{to}})
	found, others := placesAt(services.Items, to, wanted, host != nil)
	if len(found) > 0 {
		b, err := c.behind(ctx, named{found[0].service.Namespace, found[0].service.Name, ""})
		if err != nil {
			return nil, err
		}
		return b.at(found, sender, to, nodes, ask)
	}
	if host == nil && len(others) > 0 {
		return nil, fmt.Errorf("%v is an address of %s; nobody answers there at %s", to, strings.Join(others, ", and of "), wanted.text)
	}
	if host != nil {
		pods, err := c.client.Pods(core.NamespaceAll).List(ctx, meta.ListOptions{FieldSelector: "spec.nodeName=" + host.Name})
		if err != nil {
			return nil, fmt.Errorf("%v is node %s, and its pods, of which one may have that port of it, can't be listed: %w", to, host.Name, err)
		}
		looked := fmt.Sprintf("addresses and node ports of %d Services, host ports of %d pods", len(services.Items), haveHostPorts(pods.Items))
		return explainHost(sender, *host, to, wanted, pods.Items, looked, nodes, ask)
	}
	if sender.node == "" {
		return nil, fmt.Errorf("neither end is a pod, and none of %d Services answers at %v: policies are about pods", len(services.Items), to)
	}
	all, err := explain(sender, end{addresses: []netip.Addr{to}}, wanted.text, ask)
	for i := range all {
		all[i].Because += fmt.Sprintf("; %v is in no node's range of pods, no node's own and no Service's: what is beyond node %s isn't looked at", to, sender.node)
	}
	return all, err
}

// placesAt are the Services that are asked at an address and a port, whoever has it first; and those that have the address, but not the port.
func placesAt(all []core.Service, to netip.Addr, wanted session, host bool) (found []place, others []string) {
	for i := range all {
		one := &all[i]
		if one.Spec.Type == core.ServiceTypeExternalName || one.Spec.ClusterIP == core.ClusterIPNone {
			continue
		}
		has := func(texts []string) bool {
			return slices.ContainsFunc(texts, func(text string) bool {
				address, err := netip.ParseAddr(text)
				return err == nil && address.Unmap() == to
			})
		}
		at := place{service: one}
		switch {
		case has(clusterIPs(one)):
			at.how, at.cluster, at.assigned = " at its cluster address", true, true
		case has(ingressIPs(one)):
			at.how, at.assigned = " at its load balancer's address", true
		case has(one.Spec.ExternalIPs):
			at.how = " at its external address"
		case host:
			at.node, at.how, at.assigned = true, " at its node port", true
		default:
			continue
		}
		matched := false
		for j := range one.Spec.Ports {
			port := &one.Spec.Ports[j]
			if !strings.EqualFold(string(protocolOf(port)), wanted.protocol) {
				continue
			}
			there := at
			if host && !at.node && wanted.port != 0 && port.NodePort == int32(wanted.port) {
				// A node's address may be an external one as well: its own port is another.
				there.node, there.how, there.assigned = true, " at its node port", true
			} else if at.node && (wanted.port == 0 || port.NodePort != int32(wanted.port)) || !at.node && wanted.port != 0 && port.Port != int32(wanted.port) {
				continue
			}
			there.port, matched = port, true
			found = append(found, there)
		}
		if !matched && !at.node {
			var ports []string
			for j := range one.Spec.Ports {
				ports = append(ports, shown(&one.Spec.Ports[j]))
			}
			others = append(others, fmt.Sprintf("Service %s/%s, which has %s", one.Namespace, one.Name, cmp.Or(strings.Join(ports, ", "), "no port")))
		}
	}
	slices.SortStableFunc(found, func(a, b place) int {
		if a.assigned != b.assigned {
			if a.assigned {
				return -1
			}
			return 1
		}
		return a.service.CreationTimestamp.Compare(b.service.CreationTimestamp.Time)
	})
	return found, others
}

// at explains a session to the first of the places, which have one address.
func (b behind) at(places []place, sender end, to netip.Addr, nodes []Node, ask asker) ([]Verdict, error) {
	first := places[0]
	var ports, younger []string
	for _, one := range places {
		if one.service != first.service {
			younger = append(younger, one.service.Namespace+"/"+one.service.Name)
		} else if one.port != first.port {
			ports = append(ports, shown(one.port))
		}
	}
	if ports != nil {
		return nil, fmt.Errorf("%s is asked at which port? Say one of these: %s, %s", b, shown(first.port), strings.Join(ports, ", "))
	}
	b.asked, b.how, b.nodes = first.port, first.how, nodes
	if younger != nil {
		b.how += fmt.Sprintf(" (so is %s, which comes later)", strings.Join(younger, ", "))
	}
	from, asking := sender.of(to.Is4()), hostOf(nodes, sender)
	if !from.IsValid() {
		return nil, fmt.Errorf("%v is asked, and the sender has no address of that family (%v)", to, sender.addresses)
	}
	host := hostOf(nodes, end{addresses: []netip.Addr{to}})
	if first.node {
		return b.atPortOf(*host, sender, asking, from, to, ask), nil
	}
	where := sender.node
	if asking != nil && (host == nil || host.Name == asking.Name) {
		where = asking.Name
	}
	asked := netip.AddrPortFrom(to, uint16(first.port.Port))
	switch {
	case where != "":
		return b.balanced(where, from, asked, asked, protocolOf(first.port), ask), nil
	case first.cluster:
		return nil, fmt.Errorf("%v is outside of the cluster, and nodes lead nobody from there to %s: ask at its external addresses or its node port, if it has some", from, b)
	}
	b.outside = true
	var finds []func() []Verdict
	for _, node := range nodes {
		// A node answers at its own addresses itself; others may be led to any.
		if node.Pod == nil || host != nil && node.Name != host.Name {
			continue
		}
		finds = append(finds, func() []Verdict { return b.balanced(node.Name, from, asked, asked, protocolOf(first.port), ask) })
	}
	if finds == nil {
		because := fmt.Sprintf("%s: no node that may answer there has a pod of Quiver", b)
		return []Verdict{{From: from, To: to, Port: asked.Port(), Unknown: true, Because: because, Service: b.key()}}, nil
	}
	return together(finds), nil
}

// clusterIPs are a Service's own addresses.
func clusterIPs(one *core.Service) []string {
	if one.Spec.ClusterIPs == nil {
		return []string{one.Spec.ClusterIP}
	}
	return one.Spec.ClusterIPs
}

// ingressIPs are those of load balancers by which packets come to nodes.
func ingressIPs(one *core.Service) (all []string) {
	for _, entry := range one.Status.LoadBalancer.Ingress {
		if entry.IPMode == nil || *entry.IPMode == core.LoadBalancerIPModeVIP {
			all = append(all, entry.IP)
		}
	}
	return all
}
