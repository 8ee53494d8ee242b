package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// explainService asks the sender's node what it does with a Service's address, and then the nodes of both ends about the backend.
func (c *Cluster) explainService(ctx context.Context, sender end, asked named, protocol string, nodes []Node, ask asker) ([]Verdict, error) {
	found, err := c.behind(ctx, asked)
	if err != nil {
		return nil, err
	}
	return found.explain(sender, protocol, nodes, ask)
}

func (b behind) explain(sender end, protocol string, nodes []Node, ask asker) (all []Verdict, err error) {
	// Who is behind a Service is decided where packets first meet Quiver: a host's on that node.
	for _, node := range nodes {
		if sender.node == "" && slices.Contains(node.Addresses, sender.addresses[0]) {
			sender.node = node.Name
		}
	}
	spec := &b.service.Spec
	if spec.Type == core.ServiceTypeExternalName {
		return nil, fmt.Errorf("%s stands for the name %s and has no address: give an address that this has", b, spec.ExternalName)
	}
	port, err := b.choose(protocol)
	if err != nil {
		return nil, err
	}
	if spec.ClusterIP == core.ClusterIPNone {
		return b.headless(sender, port, ask)
	}
	if sender.node == "" {
		return b.fromOutside(sender, port, nodes, ask)
	}
	clusterIPs := spec.ClusterIPs
	if clusterIPs == nil {
		clusterIPs = []string{spec.ClusterIP}
	}
	for from, address := range sender.reaches(clusterIPs) {
		asked := netip.AddrPortFrom(address, uint16(port.Port))
		some, err := b.balanced(sender.node, from, asked, asked, protocolOf(port), ask)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if all == nil {
		return nil, fmt.Errorf("%s has no address of the sender's families (%v)", b, sender.addresses)
	}
	return all, nil
}

// met is what `quiver explain` says that a packet meets.
type met struct {
	Verdict, Node, Reason, Help string
	Steps                       []struct {
		Node, Found string
		Object      struct{ Kind, Name string }
	}
	Source netip.Addr `json:"out_source"`
	To     netip.Addr `json:"out_destination"`
	Port   uint16     `json:"out_destination_port"`
}

// balanced is what becomes on a node of a session that asks there, which is where the kernel may have led it that was asked at another place.
func (b behind) balanced(node string, from netip.Addr, asked, there netip.AddrPort, of core.Protocol, ask asker) ([]Verdict, error) {
	protocol := strings.ToLower(string(of))
	var said met
	if err := read(&said, ask.of(node), "explain", from.String(), there.String(), protocol); err != nil {
		return nil, fmt.Errorf("node %s: %w", node, err)
	}
	first := Verdict{From: from, To: asked.Addr(), Port: asked.Port(), Node: node}
	vip, found := said.vip()
	switch {
	case vip == "":
		first.Because = fmt.Sprintf("%s: quiverd on the node doesn't know it: see the log of its agent, and whether it serves Services", b)
	case said.Node == "balance":
		first.Because = fmt.Sprintf("%s: %s: %s", b, found, b.without(said))
	default:
		first.Passes, first.Because = true, fmt.Sprintf("%s: %s%s", b, found, b.others(vip, ask.of(node)))
	}
	if !first.Passes {
		return []Verdict{first}, nil
	}
	to := end{addresses: []netip.Addr{said.To}, node: b.nodeOf(said.To)}
	all, err := b.policies(end{addresses: []netip.Addr{from}, node: node}, to, said.Source, netip.AddrPortFrom(said.To, said.Port), protocol, ask)
	if err != nil {
		return nil, err
	}
	if said.Verdict == "dropped" && said.Node != "acl" {
		// Policies are asked themselves; whatever else stands in the way is the sender's node's.
		last := Verdict{From: from, To: said.To, Port: said.Port, Node: node, Because: strings.TrimSuffix(fmt.Sprintf("dropped by %s: %s: %s", said.Node, said.Reason, said.Help), ": ")}
		all = append(all, last)
	}
	return append([]Verdict{first}, all...), nil
}

// vip is the step at which a VIP was met: its name, and what came of it.
func (m met) vip() (name, found string) {
	for _, step := range m.Steps {
		if step.Object.Kind == "vip" {
			return step.Object.Name, step.Found
		}
	}
	return "", ""
}

// without says why nobody is given.
func (b behind) without(said met) string {
	switch said.Reason {
	case "rejected":
		return "no endpoint of it is ready, and the client is refused at once"
	case "no-backend":
		return "its endpoints are on other nodes, which its traffic policy leaves out, and the packet is dropped"
	}
	return cmp.Or(said.Help, said.Reason)
}

// others says how many more take sessions of such clients: another port may lead to any of them.
func (b behind) others(vip string, quiver func(words ...string) ([]byte, error)) string {
	var found struct {
		VIPs []struct {
			Backends []struct {
				State, Clients string
				Leaving        bool
			}
		}
	}
	if read(&found, quiver, "show", "vip", vip) != nil {
		return ""
	}
	// Of those who ask on their own node, none is outside.
	notTheirs := "outside"
	if b.outside {
		notTheirs = "inside"
	}
	count := 0
	for _, one := range found.VIPs {
		for _, backend := range one.Backends {
			if backend.State == "active" && !backend.Leaving && backend.Clients != notTheirs {
				count++
			}
		}
	}
	if count < 2 {
		return ""
	}
	return fmt.Sprintf("; sessions from other ports may get another of %d", count)
}

// policies asks about a backend: the sender's node with the pod's own address, and the other with the one by which the backend sees it.
func (b behind) policies(sender, backend end, seen netip.Addr, at netip.AddrPort, protocol string, ask asker) (all []Verdict, err error) {
	service := protocol + "/" + strconv.Itoa(int(at.Port()))
	for _, node := range slices.Compact([]string{sender.node, backend.node}) {
		if node == "" {
			continue
		}
		from := sender.addresses[0]
		if node != sender.node && seen.IsValid() {
			from = seen
		}
		one, err := judged(ask, node, from, at.Addr(), service)
		if err != nil {
			return nil, err
		}
		one.Port = at.Port()
		all = append(all, one)
	}
	return all, nil
}

// headless asks about all endpoints: it is their addresses that clients are told, and no VIP is in between.
func (b behind) headless(sender end, port *core.ServicePort, ask asker) (all []Verdict, err error) {
	protocol := strings.ToLower(string(protocolOf(port)))
	for _, slice := range b.slices {
		for _, entry := range slice.Ports {
			same := cmp.Or(valueOf(entry.Protocol), core.ProtocolTCP) == protocolOf(port) && valueOf(entry.Name) == port.Name
			if !same || entry.Port == nil {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if ready := endpoint.Conditions.Ready; ready != nil && !*ready {
					continue
				}
				some, err := b.direct(sender, endpoint, uint16(*entry.Port), protocol, ask)
				if err != nil {
					return nil, err
				}
				all = append(all, some...)
			}
		}
	}
	if all == nil {
		return nil, errors.New(b.String() + " is headless, and no endpoint of it is ready: its name has no address")
	}
	return all, nil
}

// direct asks about one of them.
func (b behind) direct(sender end, endpoint discovery.Endpoint, port uint16, protocol string, ask asker) (all []Verdict, err error) {
	for from, address := range sender.reaches(endpoint.Addresses) {
		to := end{addresses: []netip.Addr{address}, node: valueOf(endpoint.NodeName)}
		some, err := b.policies(end{addresses: []netip.Addr{from}, node: sender.node}, to, from, netip.AddrPortFrom(address, port), protocol, ask)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// reaches gives each address of an end with each of these that is of its family.
func (e end) reaches(addresses []string) iter.Seq2[netip.Addr, netip.Addr] {
	return func(yield func(from, to netip.Addr) bool) {
		for _, text := range addresses {
			to, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, from := range e.addresses {
				if from.Is4() == to.Is4() && !yield(from, to) {
					return
				}
			}
		}
	}
}
