// Package service says what a node has to do for the cluster's Services: which addresses and ports are asked, and who answers there.
// It looks at objects only, and the same objects have the same outcome; who follows them is Keeper.
package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// OtherProxy is a label: who has it is somebody else's, as for kube-proxy.
	OtherProxy = "service.kubernetes.io/service-proxy-name"
	// As many backends as quiverd takes.
	mostBackends = 4096
	// As many ranges of clients.
	mostSources = 4096
	// As many VIPs has one Service: ports times addresses may be a hundred thousand, and quiverd is everybody's.
	mostVIPs = 4096
)

// Here is the node for which it is worked out.
type Here struct {
	// Name and Zone of the node.
	Name, Zone string
	// Addresses of the node itself: those that its kernel has, but for loopback ones and those of pods, and those that its node object tells.
	Addresses []netip.Addr
	// Kernel are all that its kernel has, but for loopback ones: those at which it leads somewhere what is sent to them.
	Kernel []netip.Addr
	// Own are those among Addresses that its kernel has: there it may lead somewhere single ports.
	Own []netip.Addr
	// Nodes are the addresses that node objects tell, of all nodes: what else is asked there must get there.
	Nodes map[netip.Addr]bool
	// Needed are others that this node itself can't do without, by what they are. Resolvers are needed as well, but a load balancer, whom its operator
	// trusts, may have led them into the cluster.
	Needed    map[netip.Addr]string
	Resolvers map[netip.Addr]bool
	// ServerPort is where the API server is asked, at its addresses.
	ServerPort uint16
	// Kubelet is the port of the node's kubelet; 0: its object doesn't tell.
	Kubelet uint16
	// Ranges of its pods' addresses, and Pods those of all nodes.
	Ranges, Pods []netip.Prefix
	// Sources are addresses of these ranges that no pod has, one of each: by them others see who asks from outside of the ranges, and
	// there the host has node ports answered.
	Sources []netip.Addr
}

// Source is the one of a family; not valid if there is none.
func (h *Here) Source(v4 bool) netip.Addr {
	for _, source := range h.Sources {
		if source.Is4() == v4 {
			return source
		}
	}
	return netip.Addr{}
}

// Asked are the addresses by which a node is asked for its ports: those that its kernel has and those that its node object tells, but for loopback
// ones and those of pods. Ordered, none twice.
func Asked(kernel, told []netip.Addr, pods []netip.Prefix) []netip.Addr {
	all := slices.DeleteFunc(slices.Concat(kernel, told), func(address netip.Addr) bool {
		return !address.IsGlobalUnicast() || within(pods, address)
	})
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// inside are pods of this node and the node itself, of a family: ordered, none twice.
func (h *Here) inside(v4 bool) (all []netip.Prefix) {
	for _, prefix := range h.Ranges {
		if prefix.Addr().Is4() == v4 {
			all = append(all, prefix.Masked())
		}
	}
	for _, own := range h.Own {
		if own.Is4() == v4 {
			all = append(all, netip.PrefixFrom(own, own.BitLen()))
		}
	}
	return ordered(all)
}

// ordered has ranges ordered as quiverd does, by the first address, then by the last one; none twice.
func ordered(ranges []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(b.Bits(), a.Bits()))
	})
	return slices.Compact(ranges)
}

// Near tells whether an address is that of a pod of this node.
func (h *Here) Near(address netip.Addr) bool {
	return within(h.Ranges, address)
}

func within(ranges []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// Place is where something is asked.
type Place struct {
	// Address, Protocol and Port.
	Address  netip.Addr
	Protocol core.Protocol
	Port     uint16
}

func (p Place) String() string {
	return fmt.Sprintf("%s %s", netip.AddrPortFrom(p.Address, p.Port), p.Protocol)
}

// Backend answers for a VIP.
type Backend struct {
	// Address and Port where it listens.
	Address netip.Addr
	Port    uint16
	// Draining: it takes no new sessions.
	Draining bool
	// For are the clients whose new sessions it takes.
	For Clients
}

// Clients are some of those of a VIP.
type Clients int

const (
	// Everybody who may ask.
	Everybody Clients = iota
	// Inside are pods of the node and the node itself.
	Inside
	// Outside are all others.
	Outside
)

// VIP is a place where clients ask, and who answers.
type VIP struct {
	Place
	// Service and Port (its name, or else its number) that it is of.
	Service types.NamespacedName
	PortOf  string
	// Assigned: the API server or a load balancer has given the Service this place, a cluster address, a node port or an ingress address, so that it
	// isn't somebody else's by age: not for being named in externalIPs, and not for an endpoint that somebody says listens there.
	Assigned bool
	// External: the address is the node's own, and the host leads who asks there from elsewhere (ExternalPort). Pods of the node are answered there itself.
	External bool
	// Backends, ordered; none twice.
	Backends []Backend
	// Reject: clients are told where there are no backends, since nobody in the cluster serves it.
	Reject bool
	// Sources are the clients that may ask, ordered; none: all.
	Sources []netip.Prefix
	// Inside are the clients to whom it makes a difference for whom a backend is, ordered; none where it makes none to anybody.
	Inside []netip.Prefix
	// Affinity is for how many seconds a client keeps its backend; 0: for that of the session.
	Affinity uint32
	// LeastFlows: the backend with fewest sessions is chosen, else by Maglev's hashing.
	LeastFlows bool
}

// NodePort is a port of the node's own addresses that the host leads to the source address.
type NodePort struct {
	// Protocol and Port.
	Protocol core.Protocol
	Port     uint16
}

// ExternalPort is a port of one of the node's own addresses at which a Service is asked, as it says (externalIPs, loadBalancer.ingress): the host leads it
// to another port, of the source address.
type ExternalPort struct {
	// Place is the node's.
	Place
	// To is the source address, and a port that is nobody else's there.
	To netip.AddrPort
}

// Lead is what the node's kernel has to do: it leads packets to quiverd.
type Lead struct {
	// Addresses of VIPs.
	Addresses []netip.Addr
	// NodePorts of the node's own addresses lead to the Sources, one of each family; HostPorts to pods.
	NodePorts []NodePort
	Sources   []netip.Addr
	HostPorts []HostPort
	// ExternalPorts go before both.
	ExternalPorts []ExternalPort
}

// Set is all that a node does for one Service, or one pod.
type Set struct {
	// VIPs, at different places.
	VIPs []VIP
	// NodePorts that the host leads here.
	NodePorts []NodePort
	// HostPorts that the host leads to a pod.
	HostPorts []HostPort
	// Addresses to which the host needs a way. Named are those among them that nobody but who writes the Service has given it (spec.externalIPs).
	Addresses []netip.Addr
	Named     map[netip.Addr]bool
	// HealthPort is where load balancers ask whether this node has pods of it; 0: nowhere. Near is how many it has that are ready.
	HealthPort uint16
	Near       int
	// Problems that its owner should know of.
	Problems []string

	// Places that VIPs have, while these are added, and how many were too many.
	taken map[Place]bool
	over  int
}

// LeftToOthers tells whether a Service is left to somebody else by a label; the one of headless Services counts also where there is an address.
func LeftToOthers(service *core.Service) bool {
	_, other := service.Labels[OtherProxy]
	_, headless := service.Labels[core.IsHeadlessService]
	return other || headless
}

// Of works out what a node does for a Service. Slices are those of the Service.
func Of(service *core.Service, all []*discovery.EndpointSlice, here *Here) Set {
	var set Set
	spec := &service.Spec
	if LeftToOthers(service) || spec.Type == core.ServiceTypeExternalName || spec.ClusterIP == core.ClusterIPNone || spec.ClusterIP == "" {
		return set
	}
	clusterIPs := set.read("spec.clusterIPs", spec.ClusterIPs, spec.ClusterIP)
	var external []way
	for _, address := range set.read("spec.externalIPs", spec.ExternalIPs) {
		external = append(external, way{address: address})
	}
	var ingress []string
	for _, entry := range service.Status.LoadBalancer.Ingress {
		if entry.IP != "" && (entry.IPMode == nil || *entry.IPMode == core.LoadBalancerIPModeVIP) {
			ingress = append(ingress, entry.IP)
		}
	}
	for _, address := range set.read("status.loadBalancer.ingress", ingress) {
		if at := slices.IndexFunc(external, func(there way) bool { return there.address == address }); at >= 0 {
			external[at].balanced = true
			continue
		}
		sources, any := set.sources(spec.LoadBalancerSourceRanges, address)
		if any {
			external = append(external, way{address, sources, true})
		}
	}
	external = slices.DeleteFunc(external, func(through way) bool {
		of := func(address netip.Addr) bool { return address.Is4() == through.address.Is4() }
		if !slices.ContainsFunc(clusterIPs, of) {
			set.problem("%s is of a family of which the Service has no cluster address: nobody is asked there (spec.ipFamilies)", through.address)
			return true
		}
		if slices.Contains(clusterIPs, through.address) {
			// It is asked there anyway.
			return true
		}
		if within(here.Pods, through.address) {
			set.problem("%s is an address of pods: nobody is asked there for a Service", through.address)
			return true
		}
		return false
	})
	draft := VIP{Service: types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, Affinity: affinity(spec), LeastFlows: set.leastFlows(service.Annotations)}
	set.ignored(service.Annotations)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		draft.PortOf = cmp.Or(port.Name, strconv.Itoa(int(port.Port)))
		for _, address := range clusterIPs {
			set.port(draft, port, spec, endpointsOf(all, port, address.Is4(), here), address, external, here)
		}
	}
	if number := spec.HealthCheckNodePort; number > 0 && number < 1<<16 {
		set.HealthPort, set.Near = uint16(number), near(all, here)
	}
	slices.SortFunc(set.Addresses, netip.Addr.Compare)
	set.Addresses = slices.Compact(set.Addresses)
	slices.SortFunc(set.NodePorts, compareNodePorts)
	set.NodePorts = slices.Compact(set.NodePorts)
	set.added()
	return set
}

// port adds what there is for one port of a Service in the family of one of its cluster addresses.
func (s *Set) port(draft VIP, port *core.ServicePort, spec *core.ServiceSpec, who endpoints, address netip.Addr, external []way, here *Here) {
	// Where nobody near is the reason, a load balancer or another node may know somebody.
	draft.Reject = len(who) == 0
	everywhere, near := who.choose(here), who.chooseNear()
	inside, outside := everywhere, everywhere
	if spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy == core.ServiceInternalTrafficPolicyLocal {
		inside = near
	}
	var insiders []netip.Prefix
	if spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal {
		// As with kube-proxy, who asks there from inside is served as if a load balancer had led them to any node.
		outside = eachFor(everywhere, near)
		if slices.ContainsFunc(outside, func(backend Backend) bool { return backend.For != Everybody }) {
			insiders = here.inside(address.Is4())
		}
		if len(insiders) > mostSources {
			s.problem("the node has %d addresses and ranges of pods, for which spec.externalTrafficPolicy Local can make no difference (%d at most): they are served by pods of the node alone, as those who come from outside are",
				len(insiders), mostSources)
			outside, insiders = near, nil
		}
	}
	protocol := cmp.Or(port.Protocol, core.ProtocolTCP)
	assigned := draft
	assigned.Assigned = true
	if s.add(assigned, Place{address, protocol, uint16(port.Port)}, inside) {
		s.Addresses = append(s.Addresses, address)
	}
	for _, through := range external {
		other := through.address
		if other.Is4() != address.Is4() {
			continue
		}
		place := Place{other, protocol, uint16(port.Port)}
		whose, own := here.whose(through, place.Port), slices.Contains(here.Own, other)
		restricted := draft
		restricted.Inside = insiders
		restricted.Sources, restricted.Assigned, restricted.External = through.sources, through.balanced, own && whose == ""
		if !s.add(restricted, place, outside) {
			continue
		}
		if whose != "" {
			s.problem("%s is %s: only pods are answered there", other, whose)
			continue
		}
		// Another node answers at its own addresses itself.
		if own || here.Nodes[other] {
			continue
		}
		s.Addresses = append(s.Addresses, other)
		if !through.balanced {
			if s.Named == nil {
				s.Named = map[netip.Addr]bool{}
			}
			s.Named[other] = true
		}
	}
	if port.NodePort == 0 {
		return
	}
	if source := here.Source(address.Is4()); source.IsValid() {
		led := assigned
		led.Inside = insiders
		if s.add(led, Place{source, protocol, uint16(port.NodePort)}, outside) {
			s.NodePorts = append(s.NodePorts, NodePort{protocol, uint16(port.NodePort)})
		}
	}
	for _, own := range here.Addresses {
		// Pods' packets to the node are answered before they reach the host. As for kube-proxy, they aren't from outside.
		if own.Is4() == address.Is4() {
			s.add(assigned, Place{own, protocol, uint16(port.NodePort)}, everywhere)
		}
	}
}

// add adds a VIP, unless there is one at that place; false: there are too many. Who listens at its very place can't be its backend.
func (s *Set) add(draft VIP, place Place, backends []Backend) bool {
	if s.taken[place] {
		return true
	}
	if len(s.VIPs) == mostVIPs {
		s.over++
		return false
	}
	if s.taken == nil {
		s.taken = map[Place]bool{}
	}
	s.taken[place] = true
	itself := func(backend Backend) bool { return backend.Address == place.Address && backend.Port == place.Port }
	draft.Place, draft.Backends = place, backends
	// All others of a Service may have the same ones: they aren't copied for each.
	if slices.ContainsFunc(backends, itself) {
		draft.Backends = slices.DeleteFunc(slices.Clone(backends), itself)
		s.problem("an endpoint listens at %s, where the Service itself is asked: it gets nothing from there", place)
	}
	if more := len(draft.Backends) - mostBackends; more > 0 {
		s.problem("%s has %d endpoints: %d of them get nothing", place, len(draft.Backends), more)
		draft.Backends = draft.Backends[:mostBackends]
	}
	s.VIPs = append(s.VIPs, draft)
	return true
}

// added ends the adding of VIPs.
func (s *Set) added() {
	if s.over > 0 {
		s.problem("it would be asked at %d places: nobody is asked at %d of them (take %d at most, ports times addresses)", len(s.VIPs)+s.over, s.over, mostVIPs)
	}
	s.taken, s.over = nil, 0
}

func (s *Set) problem(format string, arguments ...any) {
	if text := fmt.Sprintf(format, arguments...); !slices.Contains(s.Problems, text) {
		s.Problems = append(s.Problems, text)
	}
}

// way is an address at which a Service is asked from outside, and who may: all if nobody is named. A load balancer has given it, or who writes the Service.
type way struct {
	address  netip.Addr
	sources  []netip.Prefix
	balanced bool
}

// whose is what else an address is, so that the host must go on reaching that there; empty: nothing, or a node's, which answers at its other ports nevertheless.
func (h *Here) whose(through way, port uint16) string {
	own := slices.Contains(h.Own, through.address)
	switch {
	case h.Resolvers[through.address] && !through.balanced:
		return "a resolver of this node"
	// Where the API server is this node's, only the port is lost that is led away.
	case own && (port != h.ServerPort || h.Needed[through.address] == ""):
		return ""
	case !own && slices.Contains(h.Addresses, through.address):
		return "an address of this node by its object, which its kernel hasn't"
	case !own && h.Nodes[through.address]:
		return ""
	}
	return h.Needed[through.address]
}

// sources are the ranges of an address's family, ordered as quiverd does; false: others are named, and none of these, so that nobody may ask.
func (s *Set) sources(texts []string, address netip.Addr) (sources []netip.Prefix, any bool) {
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			s.problem("spec.loadBalancerSourceRanges: %q is no range of addresses", text)
		} else if prefix.Addr().Is4() == address.Is4() {
			sources = append(sources, prefix.Masked())
		}
	}
	sources = ordered(sources)
	if len(sources) > mostSources {
		s.problem("spec.loadBalancerSourceRanges has %d ranges: nobody is answered at %s (take %d at most)", len(sources), address, mostSources)
		return nil, false
	}
	if len(texts) > 0 && len(sources) == 0 {
		s.problem("spec.loadBalancerSourceRanges has none of the family of %s: nobody is answered there", address)
		return nil, false
	}
	return sources, true
}

// read reads addresses, none twice.
func (s *Set) read(field string, texts []string, instead ...string) (addresses []netip.Addr) {
	if len(texts) == 0 {
		texts = instead
	}
	for _, text := range texts {
		address, err := netip.ParseAddr(text)
		if err != nil {
			s.problem("%s: %q is no IP address", field, text)
		} else if address = address.Unmap(); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

func compareNodePorts(a, b NodePort) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}
