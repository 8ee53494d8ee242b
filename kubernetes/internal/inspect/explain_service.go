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

	"quiver/kubernetes/internal/service"
)

// As many endpoints are asked about, one by one.
const mostAsked = 16

// explainService asks the sender's node what it does with a Service's address, and then the nodes of both ends about the backend.
func (c *Cluster) explainService(ctx context.Context, sender end, asked named, protocol string, nodes []Node, ask asker) ([]Verdict, error) {
	found, err := c.behind(ctx, asked)
	if err != nil {
		return nil, err
	}
	return found.explain(sender, protocol, nodes, ask)
}

func (b behind) explain(sender end, protocol string, nodes []Node, ask asker) ([]Verdict, error) {
	b.nodes = nodes
	// Who is behind a Service is decided where packets first meet Quiver: a host's on that node.
	if host := hostOf(nodes, sender); host != nil {
		sender.node = host.Name
	}
	spec := &b.service.Spec
	if spec.Type == core.ServiceTypeExternalName {
		return nil, fmt.Errorf("%s stands for the name %s and has no address: give an address that this has", b, spec.ExternalName)
	}
	port, err := b.choose(protocol)
	if err != nil {
		return nil, err
	}
	b.asked = port
	if spec.ClusterIP == core.ClusterIPNone {
		return b.headless(sender, port, ask)
	}
	if sender.node == "" {
		return b.fromOutside(sender, port, nodes, ask)
	}
	var finds []func() []Verdict
	for from, address := range sender.reaches(clusterIPs(b.service)) {
		asked := netip.AddrPortFrom(address, uint16(port.Port))
		finds = append(finds, func() []Verdict { return b.balanced(sender.node, from, asked, asked, protocolOf(port), ask) })
	}
	if finds == nil {
		return nil, fmt.Errorf("%s has no address of the sender's families (%v)", b, sender.addresses)
	}
	return together(finds), nil
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
func (b behind) balanced(node string, from netip.Addr, asked, there netip.AddrPort, of core.Protocol, ask asker) []Verdict {
	protocol := strings.ToLower(string(of))
	var said met
	first := Verdict{From: from, To: asked.Addr(), Port: asked.Port(), Node: node, Service: b.key()}
	if err := read(&said, ask.of(node), "explain", from.String(), there.String(), protocol); err != nil {
		first.Because = b.String() + ": "
		return []Verdict{first.notAsked(err)}
	}
	vip, found := said.vip()
	switch {
	case vip == "" && service.LeftToOthers(b.service):
		first.Unknown, first.Because = true, b.othersServe()
	case vip == "":
		first.Because = fmt.Sprintf("%s: quiverd on the node doesn't know it: see the log of its agent, and whether it serves Services", b)
	case said.Node == "balance":
		first.Because = fmt.Sprintf("%s: %s: %s", b, found, b.without(said, from))
		if said.Reason != "source-denied" {
			first.Endpoints = b.endpoints(node, from, nil, netip.AddrPort{})
			first.Because += leftOut(first.Endpoints, true)
		}
	}
	if first.Because != "" {
		return []Verdict{first}
	}
	chosen := netip.AddrPortFrom(said.To, said.Port)
	takers, told := b.takers(vip, chosen, ask.of(node))
	if told {
		first.Endpoints = b.endpoints(node, from, takers, chosen)
	}
	first.Passes, first.Because = true, fmt.Sprintf("%s: %s%s%s", b, found, others(takers), leftOut(first.Endpoints, false))
	var finds []func() []Verdict
	for _, taker := range takers[:min(len(takers), mostAsked)] {
		finds = append(finds, func() []Verdict {
			to := end{addresses: []netip.Addr{taker.Addr()}, node: b.nodeOf(taker.Addr())}
			seen, err := b.seen(said, vip, node, from, taker, ask.of(node))
			if err != nil {
				return []Verdict{Verdict{From: from, To: taker.Addr(), Port: taker.Port(), Node: node}.notAsked(err)}
			}
			return b.policies(end{addresses: []netip.Addr{from}, node: node}, to, seen, taker, protocol, ask)
		})
	}
	all := append([]Verdict{first}, together(finds)...)
	if more := len(takers) - mostAsked; more > 0 {
		because := fmt.Sprintf("%s: %d more of its endpoints may be given, of which nothing was asked: explain their pods", b, more)
		all = append(all, Verdict{From: from, To: asked.Addr(), Port: asked.Port(), Node: node, Unknown: true, Because: because, Service: b.key()})
	}
	if said.Verdict == "dropped" && said.Node != "acl" {
		// Policies are asked themselves; whatever else stands in the way is the sender's node's.
		last := Verdict{From: from, To: said.To, Port: said.Port, Node: node, Because: strings.TrimSuffix(fmt.Sprintf("dropped by %s: %s: %s", said.Node, said.Reason, said.Help), ": ")}
		all = append(all, last)
	}
	return all
}

// seen is by which address a backend sees who asks.
func (b behind) seen(said met, vip, node string, from netip.Addr, backend netip.AddrPort, quiver func(words ...string) ([]byte, error)) (netip.Addr, error) {
	its, given := b.nodeOf(backend.Addr()), b.nodeOf(said.To)
	switch {
	case backend.Addr() == said.To:
		return said.Source, nil
	case its == node:
		return from, nil
	case given != node:
		return said.Source, nil
	}
	for _, one := range b.nodes {
		if one.Name == node && within(one.Ranges, from) {
			return from, nil
		}
	}
	// Answers to others than pods of the node come back only to an address of its range.
	var found struct {
		Objects []struct {
			Object struct {
				Vip struct {
					Address netip.Addr
					Source  netip.Addr `json:"source_nat_address"`
				}
			}
		}
	}
	if err := read(&found, quiver, "get", "vip", vip); err != nil {
		return from, err
	}
	if len(found.Objects) == 0 {
		return from, nil
	}
	made := found.Objects[0].Object.Vip
	if made.Source.IsValid() {
		return made.Source, nil
	}
	return made.Address, nil
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
func (b behind) without(said met, from netip.Addr) string {
	switch said.Reason {
	case "rejected":
		return "no endpoint of it is ready, and the client is refused at once"
	case "no-backend":
		return "its endpoints are on other nodes, which its traffic policy leaves out, and the packet is dropped"
	case "source-denied":
		return fmt.Sprintf("spec.loadBalancerSourceRanges (%s) don't have %v, and the packet is dropped", strings.Join(b.service.Spec.LoadBalancerSourceRanges, ", "), from)
	}
	return cmp.Or(said.Help, said.Reason)
}

// takers are the backends that are given to such clients, the chosen one first; it is this one alone if the node doesn't tell.
func (b behind) takers(vip string, chosen netip.AddrPort, quiver func(words ...string) ([]byte, error)) (all []netip.AddrPort, told bool) {
	all = []netip.AddrPort{chosen}
	found, err := vipsOf(quiver, vip)
	if err != nil || len(found) == 0 {
		return all, false
	}
	// Of those who ask on their own node, none is outside.
	notTheirs := "outside"
	if b.outside {
		notTheirs = "inside"
	}
	for _, one := range found {
		for _, backend := range one.Backends {
			at := backend.at()
			if backend.State == "active" && !backend.Leaving && backend.Clients != notTheirs && !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all, true
}

// others says how many more take sessions of such clients: another port may lead to any of them.
func others(takers []netip.AddrPort) string {
	if len(takers) < 2 {
		return ""
	}
	return fmt.Sprintf("; sessions from other ports may get another of %d", len(takers))
}

// policies asks about a backend: the sender's node with the pod's own address, and the other with the one by which the backend sees it.
func (b behind) policies(sender, backend end, seen netip.Addr, at netip.AddrPort, protocol string, ask asker) (all []Verdict) {
	host, service := hostOf(b.nodes, backend), protocol+"/"+strconv.Itoa(int(at.Port()))
	for _, node := range slices.Compact([]string{sender.node, backend.node}) {
		// Of its own processes a node's policies say nothing.
		if node == "" || host != nil && node != sender.node {
			continue
		}
		from := sender.addresses[0]
		if node != sender.node && seen.IsValid() {
			from = seen
		}
		one := judged(ask, node, from, at.Addr(), service)
		one.Port = at.Port()
		all = append(all, one)
	}
	// (What others give an endpoint isn't led to by quiverd.)
	if slices.ContainsFunc(b.nodes, func(node Node) bool { return node.Name == backend.node && within(node.Ranges, at.Addr()) }) {
		backend.without(all, ask)
	}
	if host != nil {
		because := fmt.Sprintf("is node %s itself: %s", host.Name, notLooked)
		all = append(all, Verdict{From: sender.addresses[0], To: at.Addr(), Port: at.Port(), Node: host.Name, Unknown: true, Because: because})
	}
	return all
}

// headless asks about all endpoints: it is their addresses that clients are told, and no VIP is in between.
func (b behind) headless(sender end, port *core.ServicePort, ask asker) ([]Verdict, error) {
	protocol := strings.ToLower(string(protocolOf(port)))
	var finds []func() []Verdict
	for _, slice := range b.slices {
		for _, number := range portsOf(slice, port) {
			for _, endpoint := range slice.Endpoints {
				if ready := endpoint.Conditions.Ready; ready != nil && !*ready {
					continue
				}
				finds = append(finds, func() []Verdict { return b.direct(sender, endpoint, number, protocol, ask) })
			}
		}
	}
	all := together(finds)
	if all == nil {
		return nil, errors.New(b.String() + " is headless, and no endpoint of it is ready: its name has no address")
	}
	return all, nil
}

// direct asks about one of them.
func (b behind) direct(sender end, endpoint discovery.Endpoint, port uint16, protocol string, ask asker) (all []Verdict) {
	for from, address := range sender.reaches(endpoint.Addresses) {
		to := end{addresses: []netip.Addr{address}, node: valueOf(endpoint.NodeName)}
		all = append(all, b.policies(end{addresses: []netip.Addr{from}, node: sender.node}, to, from, netip.AddrPortFrom(address, port), protocol, ask)...)
	}
	return all
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
