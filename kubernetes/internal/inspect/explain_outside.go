package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/service"
)

// fromOutside asks every node, since the network leads those who are outside of the cluster to any: about the addresses at which a Service is
// asked from there, and the node's own port for it.
func (b behind) fromOutside(sender end, port *core.ServicePort, nodes []Node, ask asker) ([]Verdict, error) {
	b.outside = true
	from, texts := sender.addresses[0], slices.Concat(b.service.Spec.ExternalIPs, ingressIPs(b.service))
	if len(texts) == 0 && port.NodePort == 0 {
		return nil, fmt.Errorf("%v is outside of the cluster, and %s can't be asked from there: it has no external address and no node port", from, b)
	}
	var finds []func() []Verdict
	for _, node := range nodes {
		if node.Pod == nil {
			continue
		}
		for _, text := range texts {
			if address, failed := netip.ParseAddr(text); failed == nil && address.Is4() == from.Is4() {
				asked := netip.AddrPortFrom(address, uint16(port.Port))
				finds = append(finds, func() []Verdict { return b.balanced(node.Name, from, asked, asked, protocolOf(port), ask) })
			}
		}
		if port.NodePort != 0 {
			at := slices.IndexFunc(node.Addresses, func(address netip.Addr) bool { return address.Is4() == from.Is4() })
			if at >= 0 {
				finds = append(finds, func() []Verdict { return b.atNode(node, from, node.Addresses[at], port, ask) })
			}
		}
	}
	if finds == nil {
		return nil, fmt.Errorf("%s can't be asked from outside by the family of %v", b, from)
	}
	return together(finds), nil
}

// atNode asks a node about its own port, at an address of it. Its kernel leads who comes to it to the one VIP at that port whose address is of the range of its pods.
func (b behind) atNode(node Node, from, address netip.Addr, port *core.ServicePort, ask asker) []Verdict {
	asked := netip.AddrPortFrom(address, uint16(port.NodePort))
	one := Verdict{From: from, To: asked.Addr(), Port: asked.Port(), Node: node.Name, Service: b.key()}
	all, err := vipsOf(ask.of(node.Name))
	if err != nil {
		one.Because = b.String() + ": "
		return []Verdict{one.notAsked(err)}
	}
	for _, vip := range all {
		if within(node.Ranges, vip.Address) && vip.Address.Is4() == from.Is4() && vip.Port == asked.Port() && strings.EqualFold(vip.Protocol, string(protocolOf(port))) {
			return b.balanced(node.Name, from, asked, netip.AddrPortFrom(vip.Address, vip.Port), protocolOf(port), ask)
		}
	}
	if one.Unknown = service.LeftToOthers(b.service); one.Unknown {
		one.Because = b.othersServe()
	} else {
		one.Because = fmt.Sprintf("%s: quiverd on the node doesn't know its node port: see the log of its agent, and whether it serves Services", b)
	}
	return []Verdict{one}
}

// othersServe is what is said of a Service that is left to others.
func (b behind) othersServe() string {
	return fmt.Sprintf("%s: a label of it says that another one serves it, of whom Quiver knows nothing", b)
}
