package balance

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/service"
)

var here = service.Here{
	Name: "n1", Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, Pods: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")},
	Sources: []netip.Addr{netip.MustParseAddr("10.244.1.254")},
}

// asks has a Service, of that age in seconds, be asked at addresses, and gives what is told.
func asks(w *wanted, name string, age int, addresses ...string) string {
	owner := &core.Service{ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: meta.Time{Time: time.Unix(1_000_000-int64(age), 0)}}}
	key := types.NamespacedName{Namespace: "default", Name: name}
	var set service.Set
	for _, text := range addresses {
		at := netip.MustParseAddrPort(text)
		set.VIPs = append(set.VIPs, service.VIP{Place: service.Place{Address: at.Addr(), Protocol: core.ProtocolTCP, Port: at.Port()}, Service: key, PortOf: "p"})
		if !slices.Contains(set.Addresses, at.Addr()) {
			set.Addresses = append(set.Addresses, at.Addr())
		}
	}
	return strings.Join(w.put(key, owner.CreationTimestamp.UnixNano(), set, &here), "; ")
}

// state is who is asked where, and to which addresses there are ways; then what has changed is forgotten.
func state(w *wanted) (all, changed string) {
	var lines []string
	for _, vip := range w.vips {
		lines = append(lines, fmt.Sprintf("%s:%d=%s", vip.Address, vip.Port, strings.Split(vip.Name, ".")[1]))
	}
	slices.Sort(lines)
	addresses := slices.SortedFunc(maps.Keys(w.addresses), netip.Addr.Compare)
	all = fmt.Sprint(lines, addresses)
	changed = fmt.Sprintf("%d vips %v", len(w.changedVIPs), slices.SortedFunc(maps.Keys(w.changedAddresses), netip.Addr.Compare))
	clear(w.changedVIPs)
	clear(w.changedAddresses)
	return all, changed
}

func TestTheOldestServiceHasThePlaceAndOthersFollow(t *testing.T) {
	w := newWanted()
	// Others of whom something else is to be told now.
	moved := func(want ...string) {
		t.Helper()
		var got []string
		for key := range w.moved {
			got = append(got, key.Name)
		}
		clear(w.moved)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("others of whom there is something to tell: %q", got)
		}
	}
	expect := func(told, wantTold, want, wantChanged string) {
		t.Helper()
		if all, changed := state(w); told != wantTold || all != want || changed != wantChanged {
			t.Errorf("told %q; %s; %s", told, all, changed)
		}
	}
	expect(asks(w, "b", 10, "203.0.113.1:80", "10.96.0.2:80"), "", "[10.96.0.2:80=b 203.0.113.1:80=b] [10.96.0.2 203.0.113.1]", "2 vips [10.96.0.2 203.0.113.1]")
	// A younger one, then one that is older.
	const taken = "203.0.113.1:80 TCP is that of Service default/b, which is older"
	expect(asks(w, "c", 5, "203.0.113.1:80", "203.0.113.1:81"), taken, "[10.96.0.2:80=b 203.0.113.1:80=b 203.0.113.1:81=c] [10.96.0.2 203.0.113.1]", "1 vips []")
	moved()
	expect(asks(w, "a", 20, "203.0.113.1:80"), "", "[10.96.0.2:80=b 203.0.113.1:80=a 203.0.113.1:81=c] [10.96.0.2 203.0.113.1]", "2 vips []")
	moved("b", "c")
	// The same again changes nothing.
	expect(asks(w, "a", 20, "203.0.113.1:80"), "", "[10.96.0.2:80=b 203.0.113.1:80=a 203.0.113.1:81=c] [10.96.0.2 203.0.113.1]", "0 vips []")
	moved()
	expect(asks(w, "a", 20), "", "[10.96.0.2:80=b 203.0.113.1:80=b 203.0.113.1:81=c] [10.96.0.2 203.0.113.1]", "2 vips []")
	moved("b", "c")
	expect(asks(w, "b", 10), "", "[203.0.113.1:80=c 203.0.113.1:81=c] [203.0.113.1]", "3 vips [10.96.0.2]")
	moved("c")
	expect(asks(w, "c", 5), "", "[] []", "2 vips [203.0.113.1]")
	if len(w.claims) != 0 || len(w.sets) != 0 || len(w.placed) != 0 {
		t.Errorf("left: %v %v %v", w.claims, w.sets, w.placed)
	}
}
