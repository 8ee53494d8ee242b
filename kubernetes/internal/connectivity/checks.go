package connectivity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
)

// scene is what a test has to do with.
type scene struct {
	namespace string
	// One or two; the client is on the first.
	nodes []node
	// Addresses of pods.
	pods    map[string][]netip.Addr
	service *core.Service
	// Names are answered by a Service of the cluster; empty: there is none.
	dns string
	// Whom to ask outside of the cluster, address and port; empty: nobody.
	outside string
	// How long to try.
	patience time.Duration
}

type node struct {
	name      string
	addresses []netip.Addr
}

// place is where somebody asks: in a pod, or with the network of a node.
type place struct {
	pod, node string
}

func (p place) String() string {
	if p.pod == "" {
		return "host " + p.node
	}
	return p.pod
}

// check is one question.
type check struct {
	Result
	from place
	// Words of `quiver-agent probe`.
	words []string
	// Answers of which one is right; nil: any.
	answers []string
	// Nobody may answer; whether anybody can, the check before it says.
	silent bool
}

// checks are all that there is to ask.
func (s *scene) checks() (all []check) {
	first := s.nodes[0].name
	asks := place{pod: client, node: first}
	for _, v4 := range []bool{true, false} {
		if !s.of(client, v4).IsValid() {
			continue
		}
		for _, protocol := range []string{"tcp", "udp"} {
			all = append(all, s.toPod("pod to pod on its node", asks, near, v4, protocol))
			if len(s.nodes) > 1 {
				all = append(all, s.toPod("pod to pod on another node", asks, far, v4, protocol))
			}
			all = append(all, s.toService(asks, v4, protocol)...)
		}
		for _, node := range s.nodes {
			from := place{node: node.name}
			all = append(all, s.toPod("host to pod on its node", from, s.hosted(node.name), v4, "tcp"))
			if len(s.nodes) > 1 {
				all = append(all, s.toPod("host to pod on another node", from, s.hosted(s.other(node.name)), v4, "tcp"))
			}
			all = append(all, s.clusterIP("host to Service", from, v4, "tcp")...)
		}
		permits := s.toPod("policy permits", asks, guarded, v4, "tcp")
		denies := s.toPod("policy denies", place{pod: near, node: first}, guarded, v4, "tcp")
		denies.silent, denies.answers = true, nil
		denies.words = s.words(s.patience/3, "tcp", denies.words[len(denies.words)-1])
		denies.Next = fmt.Sprintf("kubectl quiver explain %[1]s/near %[1]s/guarded tcp/%[2]d; kubectl quiver on %[3]s show acl", s.namespace, podPort, s.last())
		all = append(all, permits, denies)
	}
	if len(s.nodes) < 2 {
		all = append(all, check{Result: Result{Check: "pod to pod on another node", Outcome: LeftOut, Said: "there is one node only that has Quiver and takes pods"}})
	}
	return append(all, s.resolves(asks), s.reachesOutside(asks))
}

// last is the node of the guarded pod.
func (s *scene) last() string { return s.nodes[len(s.nodes)-1].name }

// hosted is a pod of the Service on a node.
func (s *scene) hosted(node string) string {
	if node == s.nodes[0].name {
		return near
	}
	return far
}

func (s *scene) other(name string) string {
	if s.nodes[0].name == name {
		return s.last()
	}
	return s.nodes[0].name
}

// of is a pod's address of a family; not valid: it has none.
func (s *scene) of(pod string, v4 bool) netip.Addr { return familyOf(s.pods[pod], v4) }

func familyOf(all []netip.Addr, v4 bool) netip.Addr {
	for _, address := range all {
		if address.Is4() == v4 {
			return address
		}
	}
	return netip.Addr{}
}

func family(v4 bool) string {
	if v4 {
		return "IPv4"
	}
	return "IPv6"
}

func (s *scene) words(patience time.Duration, how, whom string) []string {
	return []string{"quiver-agent", "probe", "--for", patience.String(), how, whom}
}

// toPod asks a pod, which shall see who asks with its own address, unless that is a host.
func (s *scene) toPod(what string, from place, to string, v4 bool, protocol string) check {
	address := netip.AddrPortFrom(s.of(to, v4), podPort)
	one := s.asking(what, from, fmt.Sprintf("%s %s", to, address), address, v4, protocol)
	service := fmt.Sprintf("%s/%d", protocol, podPort)
	if from.pod == "" {
		one.Next = fmt.Sprintf("kubectl quiver status; kubectl quiver explain %s %s/%s %s; on the node: ip route get %s, sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding, FORWARD rules",
			familyOf(s.addressesOf(from.node), v4), s.namespace, to, service, address.Addr())
		return one
	}
	one.answers = []string{fmt.Sprintf("%s %s", to, s.of(from.pod, v4))}
	one.Next = fmt.Sprintf("kubectl quiver explain %[1]s/%[2]s %[1]s/%[3]s %[4]s; kubectl quiver trace %[1]s/%[2]s --to %[1]s/%[3]s while it asks; kubectl quiver drops",
		s.namespace, from.pod, to, service)
	return one
}

func (s *scene) addressesOf(name string) []netip.Addr {
	i := slices.IndexFunc(s.nodes, func(one node) bool { return one.name == name })
	return s.nodes[i].addresses
}

func (s *scene) asking(what string, from place, to string, address netip.AddrPort, v4 bool, protocol string) check {
	return check{
		Result: Result{Check: what, Family: family(v4), Protocol: protocol, From: from.String(), To: to},
		from:   from, words: s.words(s.patience, protocol, address.String()),
	}
}

// toService asks the Service wherever a pod can.
func (s *scene) toService(from place, v4 bool, protocol string) []check {
	all := s.clusterIP("pod to Service", from, v4, protocol)
	for i, node := range s.nodes {
		what := "pod to node port of its node"
		if i > 0 {
			what = "pod to node port of another node"
		}
		address, port := familyOf(node.addresses, v4), s.nodePort(protocol)
		if address.IsValid() && port != 0 && s.clusterAddress(v4).IsValid() {
			at := netip.AddrPortFrom(address, port)
			one := s.asking(what, from, at.String(), at, v4, protocol)
			one.Next = fmt.Sprintf("kubectl quiver on %s show vip; on the node: nft list table inet quiver-services; kubectl quiver drops", node.name)
			all = append(all, s.byAny(one))
		}
	}
	return all
}

// clusterIP asks the Service at its address of a family, if it has one.
func (s *scene) clusterIP(what string, from place, v4 bool, protocol string) []check {
	address := s.clusterAddress(v4)
	if !address.IsValid() {
		return nil
	}
	at := netip.AddrPortFrom(address, servicePort)
	one := s.asking(what, from, at.String(), at, v4, protocol)
	one.Next = fmt.Sprintf("kubectl quiver explain %[1]s/client svc/%[1]s/%[2]s:%[3]s; kubectl quiver on %[4]s show vip", s.namespace, echo, protocol, from.node)
	if from.pod == "" {
		one.Next = fmt.Sprintf("kubectl quiver on %s show vip; on the node: ip route get %s", from.node, address)
	}
	return []check{s.byAny(one)}
}

func (s *scene) clusterAddress(v4 bool) netip.Addr {
	var all []netip.Addr
	for _, text := range s.service.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address)
		}
	}
	return familyOf(all, v4)
}

func (s *scene) nodePort(protocol string) uint16 {
	for _, port := range s.service.Spec.Ports {
		if strings.EqualFold(string(port.Protocol), protocol) {
			return uint16(port.NodePort)
		}
	}
	return 0
}

// byAny has any backend answer, whatever address it sees.
func (s *scene) byAny(one check) check {
	one.answers = []string{near}
	if len(s.nodes) > 1 {
		one.answers = append(one.answers, far)
	}
	return one
}

// resolves looks up the Service's name.
func (s *scene) resolves(from place) check {
	name := fmt.Sprintf("%s.%s.svc", echo, s.namespace)
	one := check{Result: Result{Check: "DNS in a pod", From: from.String(), To: name}, from: from, words: s.words(s.patience, "resolve", name)}
	if s.dns == "" {
		one.Outcome, one.Said = LeftOut, "there is no Service kube-dns in kube-system, or another one with the label k8s-app=kube-dns"
		return one
	}
	want := slices.Clone(s.service.Spec.ClusterIPs)
	slices.Sort(want)
	one.answers = []string{strings.Join(want, " ")}
	one.Next = fmt.Sprintf("kubectl -n kube-system get pods,endpointslices -l k8s-app=kube-dns; kubectl quiver explain %s/client svc/kube-system/%s udp/53", s.namespace, s.dns)
	return one
}

// reachesOutside connects to whom the user has named.
func (s *scene) reachesOutside(from place) check {
	one := check{Result: Result{Check: "pod to outside", Protocol: "tcp", From: from.String(), To: s.outside}, from: from, words: s.words(s.patience, "connect", s.outside)}
	if s.outside == "" {
		one.Outcome, one.Said, one.Protocol = LeftOut, "name somebody: --outside ADDRESS:PORT", ""
		return one
	}
	host, _, _ := strings.Cut(s.outside, ":")
	if at, err := netip.ParseAddrPort(s.outside); err == nil {
		host = at.Addr().String()
	}
	one.Next = fmt.Sprintf("natOutgoing of the agent (nft list table inet quiver-outgoing on node %s), its default route and sysctl net.ipv4.ip_forward; kubectl quiver trace %s/client --to %s while it asks",
		from.node, s.namespace, host)
	return one
}
