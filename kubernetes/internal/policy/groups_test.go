package policy

import (
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A group ends with the last policy that uses it and begins with another one, and what quiverd has by its name is told of who left it before.
func TestWhoLeavesAGroupThatEndsAndBeginsAnewIsTold(t *testing.T) {
	key := types.NamespacedName{Namespace: "y", Name: "b"}
	leaver := netip.MustParseAddr("10.0.1.2")
	// (Policies are looked at in any order.)
	for range 30 {
		w := cluster()
		w.apply(t, onA+fromYB)
		w.settle()
		var set string
		for name, members := range w.groups.sets {
			if members[leaver] > 0 {
				set = name
			}
		}
		if set == "" {
			t.Fatal("nobody is in the group")
		}
		clear(w.groups.changed)
		before := w.groups.pods[key.Namespace][key.Name]
		w.setPod(key, &Pod{key, "", labels.Set{"pod": "other"}, before.Addresses, before.Ports})
		w.setPolicy(types.NamespacedName{Namespace: "x", Name: "p"}, nil)
		w.apply(t, strings.Replace(onA, "name: p", "name: q", 1)+fromYB)
		w.settle()
		if members, is := w.groups.sets[set]; !is || members[leaver] > 0 || !w.groups.changed[set][leaver] {
			t.Fatalf("%v, %v; changed: %v", is, members, w.groups.changed[set])
		}
	}
}
