package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
)

func TestAnAddressOfPodsIsOneNodes(t *testing.T) {
	others := []pods.Node{
		{Name: "a", Ranges: prefixes("10.244.2.0/24", "fd00:10:244:2::/64")},
		{Name: "b", Ranges: prefixes("10.244.2.0/24", "fd00:10:244:3::/64")},
		{Name: "c", Ranges: prefixes("10.244.2.128/25")},
		{Name: "d", Ranges: prefixes("10.244.0.0/16", "fd00:10::/32")},
		{Name: "e", Ranges: prefixes("10.244.1.0/26")},
		{Name: "f", Ranges: prefixes("10.244.3.0/24", "fd00:10:244:4::/64")},
		{Name: "g"},
	}
	all, doubts := distinct(self, others)
	var got []string
	for _, node := range all {
		got = append(got, fmt.Sprint(node.Name, node.Ranges))
	}
	want := []string{"a[10.244.2.0/24 fd00:10:244:2::/64]", "b[fd00:10:244:3::/64]", "c[]", "d[]", "e[]", "f[10.244.3.0/24 fd00:10:244:4::/64]", "g[]"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	told := strings.Split(doubts.Error(), "\n")
	if len(told) != 5 {
		t.Errorf("told %q", told)
	}
	for _, words := range []string{
		"10.244.2.0/24 of node b overlaps 10.244.2.0/24 of node a", "10.244.2.128/25 of node c overlaps 10.244.2.0/24 of node a", "10.244.0.0/16 of node d overlaps ",
		"fd00:10::/32 of node d overlaps ", "10.244.1.0/26 of node e overlaps 10.244.1.0/24 of this node",
	} {
		if !strings.Contains(doubts.Error(), words) {
			t.Errorf("%q isn't among %q", words, told)
		}
	}
	if _, doubts := distinct(self, others[:1]); doubts != nil || !slices.Equal(others[1].Ranges, prefixes("10.244.2.0/24", "fd00:10:244:3::/64")) {
		t.Errorf("%v, or the nodes themselves were changed: %v", doubts, others[1])
	}
}

// A node object is left of a machine that has been set up anew by another name.
func TestTwoNodesOfOneRangeAreToldAndTheFirstIsReachedAllTheTime(t *testing.T) {
	stale := pods.Node{Name: "stale", Ranges: n2.Ranges, Addresses: addresses("192.168.7.9", "fd00:7::9")}
	usurper := pods.Node{Name: "usurper", Ranges: self.Ranges, Addresses: addresses("192.168.7.8", "fd00:7::8")}
	for _, mode := range []overlay.Mode{overlay.None, overlay.VXLAN} {
		t.Run(string(mode), func(t *testing.T) {
			f, told := withOverlay(t, mode, n2, stale, usurper)
			var first []string
			for range 3 {
				if !f.bring(t.Context()) || f.Ready() != nil || f.unreached != 4 {
					t.Fatalf("%v; %d nodes aren't reached; %v", f.Ready(), f.unreached, f.told)
				}
				now := routes(t)
				if first == nil {
					first = now
				}
				// The range that is this node's own leads to no other.
				all := strings.Join(now, "\n")
				if !slices.Equal(now, first) || strings.Contains(all, "10.244.1.0/24 ") || strings.Contains(all, "fd00:10:244:1::/64") || strings.Contains(all, "via 192.168.7.9 dev eth0 proto 81") {
					t.Errorf("routes:\n%s", strings.Join(now, "\n"))
				}
			}
			via := map[overlay.Mode]string{overlay.None: "10.244.2.0/24 via 192.168.7.2 dev eth0", overlay.VXLAN: "10.244.2.0/24 dev quiver0"}[mode]
			if !strings.Contains(strings.Join(first, "\n"), via) {
				t.Errorf("routes:\n%s", strings.Join(first, "\n"))
			}
			if peers := told().Overlay; mode == overlay.VXLAN {
				seen := map[string]bool{}
				for _, route := range dataplane.Tunnels(peers, nil).Routes {
					if seen[route.Vrf+"/"+route.Prefix] {
						t.Errorf("quiverd is told of two routes to %s", route.Prefix)
					}
					seen[route.Vrf+"/"+route.Prefix] = true
				}
			}
			// The one that isn't in use goes.
			f.Nodes = static(n2)
			if !f.bring(context.Background()) || f.unreached != 0 || !slices.Equal(routes(t), first) {
				t.Errorf("%d nodes aren't reached; routes:\n%s\n%s", f.unreached, strings.Join(routes(t), "\n"), nstest.IP(t, "route"))
			}
		})
	}
}

// A machine has been set up anew by another name, and its first node object is still there: nothing leads from the machine to itself, and all others are reached.
func TestANodeObjectWithThisNodesAddressIsLeftOut(t *testing.T) {
	former := pods.Node{Name: "former", Ranges: prefixes("10.244.5.0/24", "fd00:10:244:5::/64"), Addresses: addresses("192.168.7.1", "fd00:7::1")}
	halfway := pods.Node{Name: "halfway", Ranges: prefixes("10.244.6.0/24", "fd00:10:244:6::/64"), Addresses: addresses("192.168.7.6", "fd00:7::1")}
	for _, mode := range []overlay.Mode{overlay.None, overlay.CrossSubnet, overlay.VXLAN} {
		t.Run(string(mode), func(t *testing.T) {
			f, told := withOverlay(t, mode, former, halfway, n2)
			for range 2 {
				if !f.bring(t.Context()) || f.Ready() != nil || f.unreached != 2 {
					t.Fatalf("%v; %d nodes aren't reached; %v", f.Ready(), f.unreached, f.told)
				}
			}
			doubts := f.told["nodes whose objects don't say how to reach them"]
			for _, words := range []string{"node former has the InternalIP 192.168.7.1 of this node, n1", "node halfway has the InternalIP fd00:7::1 of this node, n1"} {
				if !strings.Contains(doubts, words) {
					t.Errorf("%q isn't in %q", words, doubts)
				}
			}
			all := strings.Join(routes(t), "\n")
			for _, none := range []string{"10.244.5.", "10.244.6.", "fd00:10:244:5:", "fd00:10:244:6:"} {
				if strings.Contains(all, none) {
					t.Errorf("routes:\n%s", all)
				}
			}
			if !strings.Contains(all, "10.244.2.0/24") || !strings.Contains(all, "fd00:10:244:2::/64") {
				t.Errorf("routes:\n%s", all)
			}
			if mode == overlay.None {
				return
			}
			if peers := told().Overlay.Peers; len(peers) != 1 || peers[0].Node != "n2" {
				t.Errorf("tunnels to %+v", peers)
			}
		})
	}
}
