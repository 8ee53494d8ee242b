package dataplane

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/overlay"
)

var tunnels = &Overlay{
	Settings: overlay.Settings{Mode: overlay.VXLAN, Port: 4789, VNI: 4096},
	Plan: overlay.Plan{
		Locals: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		Peers: []overlay.Peer{
			{Node: "n2", Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2"), Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24")}},
			{Node: "n3", Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.3"), Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.3.0/24")}, Direct: true},
		},
	},
	MTU: 1500,
}

func TestTunnelsAreTheNodesOwnAndArePolicedWhileWhatTheyHavePackedIsNot(t *testing.T) {
	config := Tunnels(tunnels, ranges)
	found := sort(config)
	if got, want := names(found.Node), names(Refs(config)); !slices.Equal(got, want) {
		t.Errorf("the node's: %v, not %v", got, want)
	}
	if !slices.Equal(found.ToNodes, []string{"pod:to-n2", "pod:to-n3"}) || !slices.Equal(Interfaces(config), found.ToNodes) {
		t.Errorf("tunnels %v, of which packets of pods come by %v", found.ToNodes, Interfaces(config))
	}
	if spared := Spare(config, nil); !slices.Equal(names(Refs(spared)), names(Refs(config))) {
		t.Errorf("spared: %v", names(Refs(spared)))
	}
}

func TestBothEndsOfATunnelKnowTheOthersStation(t *testing.T) {
	here := Tunnels(tunnels, nil)
	there := *tunnels
	there.Peers = []overlay.Peer{{Node: "n1", Local: tunnels.Peers[0].Remote, Remote: tunnels.Peers[0].Local, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}}
	other := Tunnels(&there, nil)
	if here.Interfaces[1].Mac != other.Neighbors[0].Mac || other.Interfaces[1].Mac != here.Neighbors[0].Mac || here.Interfaces[1].Mac == other.Interfaces[1].Mac {
		t.Errorf("%v and %v", here.Interfaces[1], other.Interfaces[1])
	}
	// Nothing leads into the tunnel of a node that is reached without, but what comes by it is taken.
	for _, route := range here.Routes {
		for _, hop := range route.NextHops {
			if hop.Interface == "pod:to-n3" {
				t.Errorf("%v", route)
			}
		}
	}
	if got := here.Interfaces[1]; got.Mtu != 1450 || got.GetVxlan().Remote != "192.0.2.2" || got.GetVxlan().UnderlayVrf != underlay {
		t.Errorf("%v", got)
	}
}

func TestTunnelsBelieveWhatIsOfTheirPeersRangesAlone(t *testing.T) {
	for _, device := range Tunnels(tunnels, nil).Interfaces[1:] {
		var want []string
		if device.Name == "pod:to-n3" {
			// No route leads there that could tell.
			want = []string{"10.244.3.0/24"}
		}
		if device.Rpf != quiver.ReversePathFilter_REVERSE_PATH_FILTER_STRICT || !slices.Equal(device.AllowedSources, want) {
			t.Errorf("%v", device)
		}
	}
}

func TestNamesOfTunnelsFitAndArentThoseOfPods(t *testing.T) {
	long := strings.Repeat("node.", 50)
	seen := map[string]bool{}
	for _, node := range []string{"n1", "fd00::2", long + "a", long + "b"} {
		name := tunnelName(node)
		if len(name) > longestName || !IsTunnel(name) || seen[name] {
			t.Errorf("%q of %d characters", name, len(name))
		}
		seen[name] = true
	}
	for _, name := range []string{gateway, uplink, underlay, "pod:to-x.a:12345678:eth0", "to-n2"} {
		if IsTunnel(name) {
			t.Errorf("%s is a tunnel", name)
		}
	}
}
