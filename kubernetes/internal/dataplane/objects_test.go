package dataplane

import (
	"net/netip"
	"strings"
	"testing"

	"quiver/kubernetes/internal/annotation"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
)

func TestNamesFitAndTellPodsApart(t *testing.T) {
	seen := map[string]bool{}
	for _, container := range []string{"a", "b"} {
		record := &attachment.Record{
			ID: attachment.ID{Container: container, Interface: "fifteen-letters"}, PodNamespace: "default", PodName: strings.Repeat("long.", 50),
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
			Memif:     &annotation.Memif{},
		}
		for _, device := range Objects(record).Interfaces {
			if len(device.Name) > longestName || !strings.HasPrefix(device.Name, ours) || seen[device.Name] {
				t.Errorf("name %q of %d characters", device.Name, len(device.Name))
			}
			seen[device.Name] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("interfaces: %v", seen)
	}
}

func TestRoutesLeadToBothInterfacesOfThePodByPort(t *testing.T) {
	for _, l3 := range []bool{false, true} {
		record := &attachment.Record{
			ID: attachment.ID{Container: "c", Interface: "eth0"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")},
			Sources: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/16"), netip.MustParsePrefix("fd01::7/128")},
			Memif: &annotation.Memif{
				Spec:  annotation.InterfaceSpec{L3: l3},
				Ports: []annotation.PortRange{{Protocol: "tcp", First: 4444, Last: 20000}, {Protocol: "udp", First: 6081, Last: 6081}},
			},
		}
		config := Objects(record)
		tun, memif := config.Interfaces[0].Name, config.Interfaces[1].Name
		if len(config.Routes) != 2 {
			t.Fatalf("routes %v", config.Routes)
		}
		for i, address := range []string{"10.0.0.2", "fd00::2"} {
			route, way := config.Routes[i], address
			if l3 {
				way = ""
			}
			hop, split := route.NextHops[0], route.PortSplit.NextHop
			if hop.Interface != tun || hop.Address != "" || split.Interface != memif || split.Address != way {
				t.Errorf("%s leads to %v and %v", route.Prefix, hop, split)
			}
			if got := strings.Join(route.PortSplit.Ports, ","); got != "tcp:4444-20000,udp:6081-6081" {
				t.Errorf("ports %s", got)
			}
		}
		if want := map[bool]int{false: 2, true: 0}[l3]; len(config.Neighbors) != want {
			t.Errorf("neighbours %v", config.Neighbors)
		}
		for _, device := range config.Interfaces {
			if got := strings.Join(device.AllowedSources, ","); got != "172.16.0.0/16,fd01::7/128" {
				t.Errorf("%s may send from %s, too", device.Name, got)
			}
			if device.Rpf != quiver.ReversePathFilter_REVERSE_PATH_FILTER_STRICT {
				t.Errorf("%s checks sources by %v", device.Name, device.Rpf)
			}
		}
		if surplus := Without(Refs(config), Refs(config)); surplus != nil {
			t.Errorf("surplus: %v", surplus)
		}
	}
}
