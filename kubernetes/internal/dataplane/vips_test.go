package dataplane

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/service"
)

var node = service.Here{
	Ranges:  []netip.Prefix{ranges[0].Prefix, ranges[1].Prefix},
	Sources: []netip.Addr{netip.MustParseAddr("10.244.1.254"), netip.MustParseAddr("fd00:1::fe")},
}

func vip(place string, protocol core.Protocol, backends ...string) *service.VIP {
	at := netip.MustParseAddrPort(place)
	made := &service.VIP{
		Place:   service.Place{Address: at.Addr(), Protocol: protocol, Port: at.Port()},
		Service: types.NamespacedName{Namespace: "default", Name: "web"}, PortOf: "http",
	}
	for _, text := range backends {
		address, draining := strings.CutSuffix(text, " draining")
		backend := netip.MustParseAddrPort(address)
		made.Backends = append(made.Backends, service.Backend{Address: backend.Addr(), Port: backend.Port(), Draining: draining})
	}
	return made
}

func TestWhoSeesClientsAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		vip  *service.VIP
		want string
	}{
		{
			vip("10.96.0.1:80", core.ProtocolTCP, "10.244.1.2:8080", "10.244.1.3:80 draining", "10.244.2.2:8080"), `
			address: "10.96.0.1" port: 80 source_nat: SOURCE_NAT_ALWAYS source_nat_address: "10.244.1.254" source_nat_except: "10.244.1.0/24"
			backends { address: "10.244.1.2" port: 8080 source_nat: SOURCE_NAT_HAIRPIN }
			backends { address: "10.244.1.3" state: BACKEND_STATE_DRAINING source_nat: SOURCE_NAT_HAIRPIN }
			backends { address: "10.244.2.2" port: 8080 }`,
		},
		{
			vip("[fd00:96::1]:53", core.ProtocolUDP, "[fd00:2::2]:53"), `
			address: "fd00:96::1" port: 53 protocol: VIP_PROTOCOL_UDP end_removed_sessions: true
			source_nat: SOURCE_NAT_ALWAYS source_nat_address: "fd00:1::fe" source_nat_except: "fd00:1::/64" backends { address: "fd00:2::2" }`,
		},
		// Where it is asked at the source address itself, that is what others see already.
		{
			vip("10.244.1.254:30080", core.ProtocolSCTP), `
			address: "10.244.1.254" port: 30080 protocol: VIP_PROTOCOL_SCTP source_nat: SOURCE_NAT_ALWAYS source_nat_except: "10.244.1.0/24"`,
		},
		// Refusing, and for some clients only.
		{
			&service.VIP{
				Place: service.Place{Address: netip.MustParseAddr("fd00:96::1"), Protocol: core.ProtocolTCP, Port: 80}, Reject: true,
				Sources: []netip.Prefix{netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("2001:db8::/32")},
				Inside:  []netip.Prefix{netip.MustParsePrefix("fd00:1::/64"), netip.MustParsePrefix("fd00:7::1/128")},
				Backends: []service.Backend{
					{Address: netip.MustParseAddr("fd00:1::2"), Port: 80, For: service.Outside}, {Address: netip.MustParseAddr("fd00:2::2"), Port: 80, For: service.Inside},
				},
			}, `
			address: "fd00:96::1" port: 80 source_nat: SOURCE_NAT_ALWAYS source_nat_address: "fd00:1::fe" source_nat_except: "fd00:1::/64"
			without_backends: WITHOUT_BACKENDS_REJECT sources: "2001:db8::/64" sources: "2001:db8::/32"
			inside: "fd00:1::/64" inside: "fd00:7::1/128"
			backends { address: "fd00:1::2" source_nat: SOURCE_NAT_HAIRPIN clients: BACKEND_CLIENTS_OUTSIDE }
			backends { address: "fd00:2::2" clients: BACKEND_CLIENTS_INSIDE }`,
		},
	} {
		want := &quiver.Vip{}
		if err := prototext.Unmarshal([]byte(c.want), want); err != nil {
			t.Fatal(err)
		}
		want.Name = VIPName(c.vip)
		if got := VIP(c.vip, &node); !proto.Equal(got, want) {
			t.Errorf("%s", prototext.Format(got))
		}
	}
}

func TestNamesOfVIPsFitAndTellThemApart(t *testing.T) {
	long := vip("10.96.0.1:80", core.ProtocolTCP)
	long.Service = types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("s", 63)}
	other := *long
	other.Service.Name = strings.Repeat("s", 62) + "x"
	seen := map[string]bool{}
	for _, one := range []*service.VIP{
		vip("10.96.0.1:80", core.ProtocolTCP), vip("10.96.0.1:80", core.ProtocolUDP), vip("10.96.0.1:81", core.ProtocolTCP), vip("10.96.0.2:80", core.ProtocolTCP), long, &other,
	} {
		name := VIPName(one)
		if len(name) > longestName || !strings.HasPrefix(name, ourVIPs) || seen[name] {
			t.Errorf("name %q of %d characters", name, len(name))
		}
		seen[name] = true
	}
	if name := VIPName(long); name != VIPName(long) || !strings.HasPrefix(VIPName(vip("10.96.0.1:80", core.ProtocolTCP)), "svc:default.web.http:") {
		t.Errorf("name %q", name)
	}
}

func TestWhoseVIPsAre(t *testing.T) {
	ours := VIP(vip("10.96.0.1:80", core.ProtocolTCP), &node)
	theirs := &quiver.Vip{Name: "mine", Address: "10.97.0.1", Port: 80}
	route := func(prefix string) *quiver.Route {
		return &quiver.Route{Prefix: prefix, Action: quiver.RouteAction_ROUTE_ACTION_UNREACHABLE}
	}
	leads := &quiver.Route{Prefix: "10.96.0.1/32", NextHops: []*quiver.NextHop{{Interface: "x"}}}
	found := vipsOf(&quiver.Config{Vips: []*quiver.Vip{ours, theirs}, Routes: []*quiver.Route{route("10.96.0.1/32"), route("10.97.0.1/32"), route("10.98.0.1/32")}})
	if got := names(found.Refs()); !slices.Equal(got, []string{"route default/10.96.0.1/32", "vip " + ours.Name}) {
		t.Errorf("ours: %q", got)
	}
	if found = vipsOf(&quiver.Config{Vips: []*quiver.Vip{ours}, Routes: []*quiver.Route{leads}}); len(found.Routes) > 0 {
		t.Errorf("a route that leads somewhere: %v", found.Routes)
	}
}

func TestSessionsAreKeptWherePoliciesAreAndItIsAsked(t *testing.T) {
	for _, c := range []struct{ policies, keep, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		if got := Tenant([]string{"pod:host"}, true, c.policies, c.keep, Sessions{}).Tenants[0].KeepSessions; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
