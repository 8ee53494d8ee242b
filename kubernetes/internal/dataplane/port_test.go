package dataplane

import (
	"net/netip"
	"slices"
	"testing"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

func TestThePortOnTheUplinkSeesAndBelievesPodsAlone(t *testing.T) {
	config := Beside(&Port{Device: "eth0", Station: "02:00:00:00:00:11", MTU: 9000, Hops: []Hop{
		{netip.MustParseAddr("192.0.2.2"), "02:00:00:00:00:12", []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24")}},
		{netip.MustParseAddr("2001:db8::2"), "02:00:00:00:00:12", []netip.Prefix{netip.MustParsePrefix("fd00:2::/64")}},
	}}, ranges)
	port := config.Interfaces[0]
	if got := port.GetAfPacket(); got.HostInterface != "eth0" || !slices.Equal(got.Destinations, []string{"10.244.1.0/24", "fd00:1::/64"}) {
		t.Errorf("%v", got)
	}
	// Of an address of its own it would tell others.
	if port.Addresses != nil || port.ProxyArp != nil || port.Mac != "02:00:00:00:00:11" || port.Mtu != 9000 || port.Rpf != quiver.ReversePathFilter_REVERSE_PATH_FILTER_STRICT {
		t.Errorf("%v", port)
	}
	want := []string{"interface pod:uplink", "neighbor pod:uplink/192.0.2.2", "neighbor pod:uplink/2001:db8::2", "route default/10.244.2.0/24", "route default/fd00:2::/64"}
	if got := names(Refs(config)); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	found := sort(config)
	if got := names(found.Node); !slices.Equal(got, want) || !slices.Equal(found.ToNodes, []string{"pod:uplink"}) || !slices.Equal(Interfaces(config), found.ToNodes) {
		t.Errorf("the node's: %v; to nodes: %v; of which packets of pods come by %v", got, found.ToNodes, Interfaces(config))
	}
	if IsTunnel(uplinkPort) {
		t.Error("it is a tunnel")
	}
}
