package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/dataplane"
)

// hostOf is the node that an end is itself; nil: it is a pod, or none.
func hostOf(nodes []Node, one end) *Node {
	for i := range nodes {
		if len(one.addresses) > 0 && slices.Contains(nodes[i].Addresses, one.addresses[0]) {
			return &nodes[i]
		}
	}
	return nil
}

// of is the address that an end has of a family; not valid if there is none.
func (e end) of(v4 bool) netip.Addr {
	for _, one := range e.addresses {
		if one.Is4() == v4 {
			return one
		}
	}
	return netip.Addr{}
}

func within(ranges []netip.Prefix, one netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(prefix netip.Prefix) bool { return prefix.Contains(one) })
}

// atPortOf explains a session to a Service's port of a node.
func (b behind) atPortOf(host Node, sender end, asking *Node, from, to netip.Addr, ask asker) []Verdict {
	asked := netip.AddrPortFrom(to, uint16(b.asked.NodePort))
	if host.Pod == nil {
		because := fmt.Sprintf("%s: node %s has no pod of Quiver that could be asked", b, host.Name)
		return []Verdict{{From: from, To: to, Port: asked.Port(), Node: host.Name, Unknown: true, Because: because, Service: b.key()}}
	}
	if sender.node == host.Name {
		// Pods of the node are answered before they reach its kernel.
		return b.balanced(host.Name, from, asked, asked, protocolOf(b.asked), ask)
	}
	b.outside = asking == nil || asking.Name != host.Name
	seen, all := toNode(sender, host, from, asked, strings.ToLower(string(protocolOf(b.asked))), b.nodes, ask)
	if !seen.IsValid() {
		return all
	}
	return append(all, b.atNode(host, seen, to, b.asked, ask)...)
}

// toNode is what becomes of a session to a node's own address before it gets there: which address it has then (not valid: that isn't known), and what policies of the sender, if it
// is a pod of another node, say.
func toNode(sender end, host Node, from netip.Addr, asked netip.AddrPort, protocol string, nodes []Node, ask asker) (seen netip.Addr, all []Verdict) {
	if sender.node == "" || sender.node == host.Name {
		return from, nil
	}
	text := protocol
	if asked.Port() != 0 {
		text = fmt.Sprintf("%s/%d", protocol, asked.Port())
	}
	one := judged(ask, sender.node, from, asked.Addr(), text)
	if one.Port = asked.Port(); one.Unknown {
		return netip.Addr{}, []Verdict{one}
	}
	// Beside a port of Quiver's, and behind a tunnel, other nodes see pods as their node.
	var found struct {
		Objects []struct {
			Object struct{ Interface struct{ Name string } }
		}
	}
	if err := read(&found, ask.of(sender.node), "get", "interface"); err != nil {
		unknown := Verdict{From: from, To: asked.Addr(), Port: asked.Port(), Node: sender.node}
		return netip.Addr{}, []Verdict{one, unknown.notAsked(err)}
	}
	at := slices.IndexFunc(nodes, func(node Node) bool { return node.Name == sender.node })
	for _, entry := range found.Objects {
		name := entry.Object.Interface.Name
		if at < 0 || !dataplane.IsTunnel(name) && !dataplane.IsUplink(name) {
			continue
		}
		if its := (end{addresses: nodes[at].Addresses}).of(from.Is4()); its.IsValid() {
			return its, []Verdict{one}
		}
	}
	return from, []Verdict{one}
}

// explainHost explains a session to a node's own address at which no Service is asked: a pod may have the port, else it is the node's. It is told what was looked at.
func explainHost(sender end, host Node, to netip.Addr, wanted session, pods []core.Pod, looked string, nodes []Node, ask asker) ([]Verdict, error) {
	from := sender.of(to.Is4())
	if !from.IsValid() {
		return nil, fmt.Errorf("%v is asked, and the sender has no address of that family (%v)", to, sender.addresses)
	}
	asked := netip.AddrPortFrom(to, wanted.port)
	unknown := func(because string) Verdict {
		return Verdict{From: from, To: to, Port: wanted.port, Node: host.Name, Unknown: true, Because: because}
	}
	own, target, whose := atHostPort(pods, to, wanted)
	switch {
	case own == nil:
		_, all := toNode(sender, host, from, asked, protocolOnly(wanted), nodes, ask)
		if sender.node == host.Name {
			one := judged(ask, host.Name, from, to, wanted.text)
			one.Port = wanted.port
			all = append(all, one)
		}
		because := fmt.Sprintf("is node %s itself: %s; nobody of these answers at %s: %s", host.Name, notLooked, wanted.text, looked)
		if wanted.port == 0 {
			because = fmt.Sprintf("is node %s itself: %s", host.Name, notAnswered)
		}
		if whose != "" {
			because = fmt.Sprintf("is node %s itself, where pod %s says that it listens, with the node's own network: %s", host.Name, whose, notLooked)
		}
		return append(all, unknown(because)), nil
	case host.Pod == nil:
		return []Verdict{unknown(fmt.Sprintf("host port of pod %s: node %s has no pod of Quiver that could be asked", whose, host.Name))}, nil
	}
	pod := netip.AddrPortFrom(own.of(to.Is4()), target)
	seen, all := toNode(sender, host, from, asked, wanted.protocol, nodes, ask)
	if !seen.IsValid() {
		return all, nil
	}
	led, err := leadsTo(asked, wanted.protocol, pod, ask.of(host.Name))
	if err != nil {
		return append(all, Verdict{From: from, To: to, Port: wanted.port, Node: host.Name, Because: fmt.Sprintf("host port of pod %s: ", whose)}.notAsked(err)), nil
	}
	first := Verdict{From: from, To: to, Port: wanted.port, Node: host.Name, Passes: led, Because: fmt.Sprintf("host port of pod %s: leads to %v", whose, pod)}
	if !led {
		first.Because = fmt.Sprintf("host port of pod %s: quiverd on the node doesn't know it: see events of the pod, the log of the node's agent, and whether it serves Services", whose)
	}
	if all = append(all, first); !led {
		return all, nil
	}
	last := judged(ask, host.Name, seen, pod.Addr(), fmt.Sprintf("%s/%d", wanted.protocol, target))
	last.Port = target
	return append(all, last), nil
}

// protocolOnly is what is asked without its port, or, of protocols without ports, all of it.
func protocolOnly(wanted session) string {
	if wanted.port != 0 {
		return wanted.protocol
	}
	return wanted.text
}

// atHostPort finds which pod of a node has a port of it. One with the node's own network is told by its name alone.
func atHostPort(pods []core.Pod, to netip.Addr, wanted session) (found *end, target uint16, name string) {
	for i := range pods {
		pod := &pods[i]
		if ended(pod) || wanted.port == 0 {
			continue
		}
		for _, one := range staying(pod) {
			for _, port := range one.Ports {
				same := port.HostPort == int32(wanted.port) && strings.EqualFold(string(cmp.Or(port.Protocol, core.ProtocolTCP)), wanted.protocol)
				if !same || !isAt(port.HostIP, to) {
					continue
				}
				if pod.Spec.HostNetwork {
					name = pod.Namespace + "/" + pod.Name
					continue
				}
				its, err := addressesOf(pod)
				if err == nil && its.of(to.Is4()).IsValid() {
					return &its, uint16(port.ContainerPort), pod.Namespace + "/" + pod.Name
				}
			}
		}
	}
	return nil, 0, name
}

// staying are a pod's containers, with those of its init containers that stay beside the others.
func staying(pod *core.Pod) []core.Container {
	all := slices.Clone(pod.Spec.Containers)
	for _, one := range pod.Spec.InitContainers {
		if valueOf(one.RestartPolicy) == core.ContainerRestartPolicyAlways {
			all = append(all, one)
		}
	}
	return all
}

// haveHostPorts is how many of these pods, which haven't ended, have ports of their node.
func haveHostPorts(pods []core.Pod) (count int) {
	has := func(one core.Container) bool {
		return slices.ContainsFunc(one.Ports, func(port core.ContainerPort) bool { return port.HostPort != 0 })
	}
	for i := range pods {
		if !ended(&pods[i]) && slices.ContainsFunc(staying(&pods[i]), has) {
			count++
		}
	}
	return count
}

// isAt tells whether a port of a node with this hostIP is at an address of it.
func isAt(hostIP string, to netip.Addr) bool {
	if hostIP == "" {
		return true
	}
	address, err := netip.ParseAddr(hostIP)
	return err == nil && (address == to || address.IsUnspecified() && address.Is4() == to.Is4())
}

// addressesOf are those of a pod.
func addressesOf(pod *core.Pod) (end, error) {
	found := end{node: pod.Spec.NodeName, pod: pod.Namespace + "/" + pod.Name}
	if ended(pod) {
		found.gone = fmt.Sprintf("pod %s has ended (%s): nobody has its address any more, or another one has", found.pod, pod.Status.Phase)
	}
	for _, entry := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(entry.IP); err == nil {
			found.addresses = append(found.addresses, address)
		}
	}
	switch {
	case len(found.addresses) == 0 && found.gone != "":
		return end{}, errors.New(found.gone)
	case len(found.addresses) == 0:
		return end{}, fmt.Errorf("pod %s has no address yet", found.pod)
	}
	return found, nil
}

// leadsTo tells whether a node has a VIP at one of its own ports that leads to a pod: it has where its kernel leads there, too.
func leadsTo(asked netip.AddrPort, protocol string, pod netip.AddrPort, quiver func(words ...string) ([]byte, error)) (bool, error) {
	all, err := vipsOf(quiver)
	if err != nil {
		return false, err
	}
	for _, one := range all {
		if netip.AddrPortFrom(one.Address, one.Port) == asked && strings.EqualFold(one.Protocol, protocol) &&
			slices.ContainsFunc(one.Backends, func(backend vipBackend) bool { return backend.at() == pod }) {
			return true, nil
		}
	}
	return false, nil
}
