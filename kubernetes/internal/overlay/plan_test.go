package overlay

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"quiver/kubernetes/internal/pods"
)

func node(t *testing.T, name, text string) pods.Node {
	t.Helper()
	made, err := pods.ParsePeer(text)
	if err != nil {
		t.Fatal(err)
	}
	made.Name = name
	return made
}

func on(mode Mode) *Settings { return &Settings{Mode: mode, Port: DefaultPort, VNI: DefaultVNI} }

func names(nodes []pods.Node) (all []string) {
	for _, node := range nodes {
		all = append(all, node.Name)
	}
	return all
}

func TestTunnelsEndAtAddressesOfOneFamilyAndAtIPv4First(t *testing.T) {
	self := node(t, "n1", "192.0.2.1,fd00::1=10.244.1.0/24,fd01:1::/64")
	others := []pods.Node{
		node(t, "n2", "fd00::2,192.0.2.2,192.0.2.22=10.244.2.0/24,fd01:2::/64"), node(t, "n3", "fd00::3=fd01:3::/64"), {Name: "fresh", Addresses: self.Addresses},
	}
	plan, err := on(VXLAN).For(self, others, nil)
	if err != nil || len(plan.Peers) != 2 || len(plan.Routed) != 0 || len(plan.Through()) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	for i, want := range []string{"192.0.2.1 192.0.2.2", "fd00::1 fd00::3"} {
		if got := plan.Peers[i].Local.String() + " " + plan.Peers[i].Remote.String(); got != want {
			t.Errorf("tunnel from and to %s, not %s", got, want)
		}
	}
	if plan.Headers() != 70 || !slices.Equal(plan.Locals, self.Addresses) {
		t.Errorf("%d bytes, locals %v", plan.Headers(), plan.Locals)
	}
	if plan, _ := on(VXLAN).For(self, others[:1], nil); plan.Headers() != 50 {
		t.Errorf("%d bytes with IPv4 alone", plan.Headers())
	}
}

func TestWithoutPeersThereIsAnEndAlreadyAndWithoutOverlayNothing(t *testing.T) {
	self := node(t, "n1", "192.0.2.1,fd00::1=10.244.1.0/24")
	if plan, err := on(VXLAN).For(self, nil, nil); err != nil || plan.Headers() != 50 {
		t.Errorf("%+v, %v", plan, err)
	}
	others := []pods.Node{node(t, "n2", "192.0.2.2=10.244.2.0/24")}
	plan, err := on(None).For(self, others, nil)
	if err != nil || plan.Headers() != 0 || len(plan.Peers) != 0 || !slices.Equal(names(plan.Routed), []string{"n2"}) {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestWhoHasNoAddressOfOursIsNamedAndTheOthersAreReached(t *testing.T) {
	self := node(t, "n1", "192.0.2.1=10.244.1.0/24")
	plan, err := on(VXLAN).For(self, []pods.Node{node(t, "six", "fd00::2=10.244.2.0/24"), node(t, "n3", "192.0.2.3=10.244.3.0/24")}, nil)
	if err == nil || !strings.Contains(err.Error(), "node six") || len(plan.Peers) != 1 || plan.Peers[0].Node != "n3" {
		t.Errorf("%+v, %v", plan, err)
	}
	if _, err := on(VXLAN).For(pods.Node{Name: "n1"}, nil, nil); err == nil || !strings.Contains(err.Error(), "node n1 has no InternalIP") {
		t.Errorf("told %v", err)
	}
}

func TestTwoNodesOfOneAddressHaveOneTunnelAndAreNamed(t *testing.T) {
	self := node(t, "n1", "192.0.2.1=10.244.1.0/24")
	plan, err := on(VXLAN).For(self, []pods.Node{node(t, "n2", "192.0.2.2=10.244.2.0/24"), node(t, "stale", "192.0.2.2=10.244.9.0/24")}, nil)
	if err == nil || !strings.Contains(err.Error(), "nodes n2 and stale") || len(plan.Peers) != 1 || len(plan.Peers[0].Ranges) != 2 {
		t.Errorf("%+v, %v", plan, err)
	}
}

func TestNeighboursInANetworkOfOursAreReachedWithoutTheTunnelThatTheyMayUse(t *testing.T) {
	self := node(t, "n1", "192.0.2.1,fd00::1=10.244.1.0/24,fd01:1::/64")
	others := []pods.Node{
		node(t, "near", "192.0.2.2,fd00::2=10.244.2.0/24,fd01:2::/64"), node(t, "far", "198.51.100.2,fd00:9::2=10.244.3.0/24,fd01:3::/64"),
		// Near by one family alone.
		node(t, "half", "192.0.2.4,fd00:9::4=10.244.4.0/24,fd01:4::/64"),
	}
	networks := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fd00::/64")}
	plan, err := on(CrossSubnet).For(self, others, networks)
	if err != nil || len(plan.Peers) != 3 || !slices.Equal(names(plan.Routed), []string{"near"}) {
		t.Fatalf("%+v, %v", plan, err)
	}
	for i, direct := range []bool{true, false, false} {
		if plan.Peers[i].Direct != direct {
			t.Errorf("%s: direct %v", plan.Peers[i].Node, plan.Peers[i].Direct)
		}
	}
	if through := plan.Through(); len(through) != 2 || through[0].Node != "far" {
		t.Errorf("through tunnels: %+v", through)
	}
}

func TestSettingsThatCannotBeAreRefused(t *testing.T) {
	mode := None
	if err := mode.Set("geneve"); err == nil || !strings.Contains(err.Error(), "cross-subnet") || mode != None {
		t.Errorf("told %v", err)
	}
	if err := mode.Set("cross-subnet"); err != nil || mode != CrossSubnet {
		t.Errorf("told %v", err)
	}
	for _, wrong := range []Settings{{Port: 0}, {Port: 65536}, {Port: 1, VNI: 1 << 24}} {
		if wrong.Check() == nil {
			t.Errorf("%+v passes", wrong)
		}
	}
	if err := on(VXLAN).Check(); err != nil {
		t.Error(err)
	}
}
