package dataplane

import (
	"net/netip"
	"strings"
	"testing"

	"quiver/kubernetes/internal/annotation"
	"quiver/kubernetes/internal/attachment"
)

func TestNamesFitAndTellPodsApart(t *testing.T) {
	seen := map[string]bool{}
	for _, container := range []string{"a", "b"} {
		record := &attachment.Record{
			ID: attachment.ID{Container: container, Interface: "fifteen-letters"}, PodNamespace: "default", PodName: strings.Repeat("long.", 50),
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2")},
			Memif:     &attachment.Memif{Memif: annotation.Memif{}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.3")}},
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

func TestEveryRouteLeadsToAnInterfaceOfTheSamePod(t *testing.T) {
	record := &attachment.Record{
		ID: attachment.ID{Container: "c", Interface: "eth0"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")},
		Memif: &attachment.Memif{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.3"), netip.MustParseAddr("fd00::3")}},
	}
	config := Objects(record)
	ways := map[string]string{}
	for _, route := range config.Routes {
		ways[route.Prefix] = route.NextHops[0].Interface + " " + route.NextHops[0].Address
	}
	tun, memif := config.Interfaces[0].Name, config.Interfaces[1].Name
	for prefix, want := range map[string]string{
		"10.0.0.2/32": tun + " ", "fd00::2/128": tun + " ",
		"10.0.0.3/32": memif + " 10.0.0.3", "fd00::3/128": memif + " fd00::3",
	} {
		if ways[prefix] != want {
			t.Errorf("%s leads to %q, not %q", prefix, ways[prefix], want)
		}
	}
	if len(ways) != 4 || len(config.Neighbors) != 2 {
		t.Errorf("routes %v, neighbours %v", ways, config.Neighbors)
	}
	if surplus := Without(Refs(config), Refs(config)); surplus != nil {
		t.Errorf("surplus: %v", surplus)
	}
}
