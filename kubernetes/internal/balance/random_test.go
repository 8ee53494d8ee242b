package balance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/service"
)

// What comes of Services that come, change and go is what comes of those that are there, had they been looked at in any order.
func TestWhatIsWantedFollowsFromWhatThereIs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	some := func(prefix string) (places []string) {
		for address := range 3 {
			for port := 1; port < 3; port++ {
				if random.IntN(3) == 0 {
					places = append(places, fmt.Sprintf("%s203.0.113.%d:%d", prefix, address, port))
				}
			}
		}
		return places
	}
	type entry struct {
		created int64
		set     service.Set
	}
	there := map[types.NamespacedName]entry{}
	node := here
	node.Own = []netip.Addr{netip.MustParseAddr("203.0.113.2")}
	put := func(w *wanted, key types.NamespacedName) []string {
		return w.put(key, there[key].created, there[key].set, &node)
	}
	// settled puts those again who have moved, as the keeper does.
	settled := func(w *wanted, told map[types.NamespacedName][]string) string {
		moved := w.moved
		w.moved = map[types.NamespacedName]bool{}
		for key := range moved {
			if _, is := there[key]; is {
				told[key] = put(w, key)
			}
		}
		if len(w.moved) > 0 {
			t.Errorf("moved again: %v", w.moved)
		}
		var lines []string
		for _, vip := range w.vips {
			line := fmt.Sprint(vip.Name, " ", vip.Address, ":", vip.Port)
			if vip.Address == node.Sources[0].String() {
				// Which one it is is all one.
				line = fmt.Sprint(vip.Name, " ", w.places[vip.Name])
			}
			for _, backend := range vip.Backends {
				line += fmt.Sprint(" ", backend.Address, ":", backend.Port)
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		// (fmt orders maps.)
		if strings.Contains(w.ways(), "but") || len(w.external.from) != len(w.external.led) {
			t.Errorf("led %s; %v", w.ways(), w.external.from)
		}
		return fmt.Sprint(lines, w.placed, w.addresses, told, len(w.external.led), w.external.wanted)
	}
	w, told := newWanted(), map[types.NamespacedName][]string{}
	for round := range 2000 {
		p := party{name: fmt.Sprint("s", random.IntN(6)), created: random.Int64N(3), asked: some([]string{"", "="}[random.IntN(2)]), listens: some("")}
		key := p.key()
		there[key] = entry{p.created, p.set()}
		if set := there[key].set; len(set.VIPs) == 0 {
			delete(there, key)
		} else {
			set.Named = map[netip.Addr]bool{}
			for i, vip := range set.VIPs {
				set.VIPs[i].External = slices.Contains(node.Own, vip.Address)
				if !slices.Contains(set.Addresses, vip.Address) {
					set.Addresses = append(set.Addresses, vip.Address)
				}
				set.Named[vip.Address] = !vip.Assigned
			}
			maps.DeleteFunc(set.Named, func(_ netip.Addr, named bool) bool { return !named })
			there[key] = entry{p.created, set}
		}
		if told[key] = put(w, key); there[key].set.VIPs == nil {
			delete(told, key)
		}
		got := settled(w, told)
		fresh, wantTold := newWanted(), map[types.NamespacedName][]string{}
		// In whichever order the map has them.
		for key := range there {
			wantTold[key] = put(fresh, key)
		}
		if want := settled(fresh, wantTold); got != want {
			t.Fatalf("round %d:\n%s\nnot\n%s", round, got, want)
		}
	}
}
