package dataplane

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	core "k8s.io/api/core/v1"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/service"
)

const (
	// VIPs whose name begins so are the agent's.
	ourVIPs = "svc:"
	// The one tenant: all interfaces of pods, and that to the host. By it packets for VIPs are found, wherever they come from.
	everybody = ours + "everybody"
)

var clients = map[service.Clients]quiver.BackendClients{
	service.Inside: quiver.BackendClients_BACKEND_CLIENTS_INSIDE, service.Outside: quiver.BackendClients_BACKEND_CLIENTS_OUTSIDE,
}

var protocols = map[core.Protocol]quiver.VipProtocol{
	core.ProtocolUDP: quiver.VipProtocol_VIP_PROTOCOL_UDP, core.ProtocolSCTP: quiver.VipProtocol_VIP_PROTOCOL_SCTP,
}

// Tenant has the sessions of interfaces looked at: for VIPs, and whether policies let them pass. With keep, policies that change cut none that there are.
func Tenant(interfaces []string, vips, policies, keep bool, sessions Sessions) *quiver.Config {
	chain := []string{"l4-lifecycle"}
	if vips {
		chain = append(chain, "balance")
	}
	tenant := &quiver.Tenant{Name: everybody, Interfaces: interfaces}
	if policies {
		chain = append(chain, "acl")
		// Kubernetes leaves other protocols to the network.
		tenant.Untracked = quiver.UntrackedAction_UNTRACKED_ACTION_PASS
		tenant.KeepSessions = keep
	}
	slices.Sort(interfaces)
	sessions.limit(tenant)
	chain = append(chain, sessions.Services...)
	tenant.ForwardServices, tenant.ReverseServices = chain, chain
	return &quiver.Config{Tenants: []*quiver.Tenant{tenant}}
}

// Interfaces names those of configurations that packets of pods come in by.
func Interfaces(configs ...*quiver.Config) (names []string) {
	for _, config := range configs {
		for _, device := range config.Interfaces {
			if device.GetLoopback() == nil && device.Name != underlay {
				names = append(names, device.Name)
			}
		}
	}
	return names
}

// VIP is a service's as quiverd gives it back, so that the two can be compared.
//
// Backends see the client's own address wherever their answers come back to this node's quiverd by themselves: where the client is a pod of
// this node, or they are. All others see the source address.
func VIP(vip *service.VIP, here *service.Here) *quiver.Vip {
	made := &quiver.Vip{
		Name:     VIPName(vip),
		Address:  vip.Address.String(),
		Protocol: protocols[vip.Protocol],
		Port:     uint32(vip.Port),
		// Kubernetes has clients of connectionless protocols go over to who is there now.
		EndRemovedSessions: vip.Protocol == core.ProtocolUDP,
		AffinitySeconds:    vip.Affinity,
		SourceNat:          quiver.SourceNat_SOURCE_NAT_ALWAYS,
	}
	if vip.Reject {
		made.WithoutBackends = quiver.WithoutBackends_WITHOUT_BACKENDS_REJECT
	}
	for _, prefix := range vip.Sources {
		made.Sources = append(made.Sources, prefix.String())
	}
	for _, prefix := range vip.Inside {
		made.Inside = append(made.Inside, prefix.String())
	}
	if vip.LeastFlows {
		made.Algorithm = quiver.BalanceAlgorithm_BALANCE_ALGORITHM_LEAST_FLOWS
	}
	if source := here.Source(vip.Address.Is4()); source.IsValid() && source != vip.Address {
		made.SourceNatAddress = source.String()
	}
	for _, prefix := range here.Ranges {
		if prefix.Addr().Is4() == vip.Address.Is4() {
			made.SourceNatExcept = append(made.SourceNatExcept, prefix.String())
		}
	}
	for _, backend := range vip.Backends {
		one := &quiver.Backend{Address: backend.Address.String()}
		if backend.Port != vip.Port {
			one.Port = uint32(backend.Port)
		}
		if backend.Draining {
			one.State = quiver.BackendState_BACKEND_STATE_DRAINING
		}
		one.Clients = clients[backend.For]
		if here.Near(backend.Address) {
			one.SourceNat = quiver.SourceNat_SOURCE_NAT_HAIRPIN
		}
		made.Backends = append(made.Backends, one)
	}
	return made
}

// Elsewhere is a VIP as it is under another name at another place, to which the host leads who asks at the first one.
func Elsewhere(vip *quiver.Vip, name string, at netip.AddrPort) *quiver.Vip {
	made := proto.CloneOf(vip)
	made.Name, made.Address, made.Port = name, at.Addr().String(), uint32(at.Port())
	if made.SourceNatAddress == made.Address {
		made.SourceNatAddress = ""
	}
	for _, backend := range made.Backends {
		if backend.Port = cmp.Or(backend.Port, vip.Port); backend.Port == made.Port {
			backend.Port = 0
		}
	}
	return made
}

// PlaceOf is where a VIP is asked; false: quiverd has told something that isn't one.
func PlaceOf(vip *quiver.Vip) (place service.Place, is bool) {
	address, err := netip.ParseAddr(vip.Address)
	place = service.Place{Address: address, Protocol: core.ProtocolTCP, Port: uint16(vip.Port)}
	for protocol, number := range protocols {
		if number == vip.Protocol {
			place.Protocol = protocol
		}
	}
	return place, err == nil
}

// VIPName is what a VIP is called in the dataplane: readable, unique, and the same every time.
func VIPName(vip *service.VIP) string {
	whose := vip.Service.Namespace + "." + vip.Service.Name + "." + vip.PortOf
	sum := sha256.Sum256([]byte(whose + " " + vip.Place.String()))
	tail := ":" + hex.EncodeToString(sum[:5])
	return ourVIPs + whose[:min(len(whose), longestName-len(ourVIPs)-len(tail))] + tail
}

// Unreachable is the route of an address of VIPs: what is asked there of nobody must not go back to the host, which would send it here again.
func Unreachable(address netip.Addr) *quiver.Route {
	return &quiver.Route{Prefix: host(address), Action: quiver.RouteAction_ROUTE_ACTION_UNREACHABLE}
}

// FoundVIPs are VIPs in the dataplane that are the agent's, by name, and the routes of their addresses.
type FoundVIPs struct {
	// VIPs by name.
	VIPs map[string]*quiver.Vip
	// Routes to addresses of VIPs that lead nowhere.
	Routes map[netip.Addr]bool
}

// Refs names all of it.
func (f *FoundVIPs) Refs() []*quiver.ObjectRef {
	all := &quiver.Config{}
	for _, vip := range f.VIPs {
		all.Vips = append(all.Vips, vip)
	}
	for address := range f.Routes {
		all.Routes = append(all.Routes, Unreachable(address))
	}
	return Refs(all)
}

// VIPs are those of services in the dataplane, also those of an earlier life of the agent.
func (c *Client) VIPs(ctx context.Context) (*FoundVIPs, error) {
	all, err := c.get(ctx, quiver.Kind_KIND_VIP, quiver.Kind_KIND_ROUTE)
	if err != nil {
		return nil, err
	}
	return vipsOf(all), nil
}

func vipsOf(all *quiver.Config) *FoundVIPs {
	found := &FoundVIPs{VIPs: map[string]*quiver.Vip{}, Routes: map[netip.Addr]bool{}}
	addresses := map[string]netip.Addr{}
	for _, vip := range all.Vips {
		if address, err := netip.ParseAddr(vip.Address); err == nil && strings.HasPrefix(vip.Name, ourVIPs) {
			found.VIPs[vip.Name] = vip
			addresses[host(address)] = address
		}
	}
	for _, route := range all.Routes {
		if address, is := addresses[route.Prefix]; is && route.Action == quiver.RouteAction_ROUTE_ACTION_UNREACHABLE && route.Vrf == "" {
			found.Routes[address] = true
		}
	}
	return found
}
