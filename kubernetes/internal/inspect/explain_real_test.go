package inspect

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// One dataplane is the node of the client and of one endpoint; the other endpoint is on a node that has the same rules.
func TestADataplaneSaysWhoMayBeGivenAndAsWhomItIsSeen(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	directory := t.TempDir()
	client, _ := realtest.Start(t, directory)
	program, err := filepath.Abs("../../../target/release/quiver")
	if target := os.Getenv("CARGO_TARGET_DIR"); target != "" {
		program, err = filepath.Join(target, "release/quiver"), nil
	}
	if _, missing := os.Stat(program); err != nil || missing != nil {
		t.Skip("needs quiver in target/release")
	}
	ask := func(_ string, words ...string) ([]byte, error) {
		return exec.CommandContext(t.Context(), program, append([]string{"--socket", realtest.Socket(directory)}, inJSON(words)...)...).Output()
	}
	asks, host := ofPod("client", "tc", []string{"10.0.0.5/32"}, nil), &quiver.Interface{
		Name: "pod:host", Port: &quiver.Interface_Tap{Tap: &quiver.Tap{HostName: "th", Mode: quiver.TapMode_TAP_MODE_TUN}},
	}
	config := dataplane.Tenant([]string{asks.Name, host.Name}, true, true, false, dataplane.Sessions{})
	here := &service.Here{Ranges: ranges("10.0.0.0/24"), Sources: addresses("10.0.0.254")}
	web, its := served("web", "10.96.0.1", 80, 0, 8080, "10.0.1.7")
	its.Endpoints = append(its.Endpoints, discovery.Endpoint{Addresses: []string{"10.0.0.5"}, NodeName: new("n1")}, endpoint("10.0.1.9", discovery.EndpointConditions{Ready: new(false)}))
	its.AddressType = discovery.AddressTypeIPv4
	set := service.Of(&web, []*discovery.EndpointSlice{&its}, here)
	for i := range set.VIPs {
		config.Vips = append(config.Vips, dataplane.VIP(&set.VIPs[i], here))
	}
	config.Interfaces = []*quiver.Interface{asks, host}
	config.Routes = []*quiver.Route{
		{Prefix: "10.0.0.8/32", NextHops: []*quiver.NextHop{{Interface: asks.Name}}, PortSplit: &quiver.PortSplit{Ports: []string{"udp:4444"}, NextHop: &quiver.NextHop{Interface: host.Name}}},
		{Prefix: "10.0.1.7/32", NextHops: []*quiver.NextHop{{Interface: host.Name}}}, {Prefix: "10.0.0.0/24", Action: quiver.RouteAction_ROUTE_ACTION_UNREACHABLE},
		{Prefix: "10.0.0.5/32", NextHops: []*quiver.NextHop{{Interface: asks.Name}}}, {Prefix: "0.0.0.0/0", NextHops: []*quiver.NextHop{{Interface: host.Name}}},
	}
	if err := client.Apply(t.Context(), config, nil); err != nil {
		t.Fatal(err)
	}
	asked := netip.MustParseAddr("10.96.0.1")
	found, _ := placesAt([]core.Service{web}, asked, session{"tcp", 80, "tcp/80"}, false)
	for _, from := range []struct {
		end  end
		seen string
	}{{podOnN1, "10.0.0.5"}, {end{addresses: addresses("192.168.7.1")}, "10.0.0.254"}} {
		b := behind{named: named{"shop", "web", ""}, service: &web, slices: []discovery.EndpointSlice{its}}
		all, err := b.at(found, from.end, asked, addressNodes, ask)
		if err != nil {
			t.Fatal(err)
		}
		first := all[0]
		for _, has := range []string{"Service shop/web, tcp/80 (http) at its cluster address: is given the backend 10.0.", "sessions from other ports may get another of 2", "not given: 10.0.1.9:8080 (it isn't ready)"} {
			if !strings.Contains(first.Because, has) {
				t.Errorf("%s: %s", has, first.Because)
			}
		}
		seen := map[string]bool{}
		for _, one := range all[1:] {
			if seen[one.Node+" "+one.From.String()+" "+one.To.String()] = true; one.Port != 8080 || !one.Passes {
				t.Errorf("%+v", one)
			}
		}
		own := from.end.addresses[0].String()
		for _, want := range []string{"n1 " + own + " 10.0.0.5", "n1 " + own + " 10.0.1.7", "n2 " + from.seen + " 10.0.1.7"} {
			if !seen[want] || len(seen) != 3 {
				t.Errorf("%s isn't among %v", want, seen)
			}
		}
	}
	// Who has an address is told by its route.
	for address, has := range map[string]string{
		"10.0.0.5": "", "10.0.0.8": "", "10.0.0.6": "nobody has 10.0.0.6 there: quiverd takes the route 10.0.0.0/24, and answers that it is unreachable",
		"10.7.7.7": "nobody has 10.7.7.7 there: quiverd takes the route 0.0.0.0/0, which is no pod's",
	} {
		if got, err := (end{node: "n1"}).missing(netip.MustParseAddr(address), ask); err != nil || got != has {
			t.Errorf("%s: %s, %v", address, got, err)
		}
	}
	// From the pod to itself and to a node, the answers are read as well.
	if seen, all := toNode(podOnN1, addressNodes[1], podOnN1.addresses[0], netip.MustParseAddrPort("192.168.7.2:30080"), "tcp", addressNodes, ask); !seen.IsValid() || len(all) != 1 || !all[0].Passes {
		t.Errorf("%v, %+v", seen, all)
	}
	// It judges all that may be asked for.
	for _, text := range []string{"tcp/80", "UDP/53", "sctp/7", "udplite/7", "DCCP/7", "icmp", "icmp/8", "esp", "ah"} {
		if _, err := readSession(text, "10.0.1.7"); err != nil {
			t.Error(err)
		}
		if one := judged(ask, "n1", podOnN1.addresses[0], netip.MustParseAddr("10.0.1.7"), text); one.Unknown {
			t.Errorf("%s: %s", text, one.Because)
		}
	}
	if led, err := leadsTo(netip.MustParseAddrPort("10.96.0.1:80"), "tcp", netip.MustParseAddrPort("10.0.1.7:8080"), asker(ask).of("n1")); err != nil || !led {
		t.Errorf("%v, %t", err, led)
	}
}
