package balance

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/service"
)

// dwell notes at which addresses endpoints of a Service listen, at whatever ports. Others that name one of these are looked at again where somebody
// else comes first now.
func (w *wanted) dwell(key types.NamespacedName, created int64, places map[service.Place]bool) {
	there := map[netip.Addr]bool{}
	for place := range places {
		there[place.Address] = true
	}
	change := func(address netip.Addr, do func()) {
		before := w.dwelling.first(address)
		do()
		if w.dwelling.first(address) != before {
			for _, other := range w.named.others(address, key) {
				w.moved[other] = true
			}
		}
	}
	for address := range w.dwells[key] {
		if !there[address] {
			change(address, func() { w.dwelling.leave(address, key) })
		}
	}
	for address := range there {
		if now := w.dwelling.of(address, key); now == nil || now.created != created {
			change(address, func() { w.dwelling.join(address, &claim{of: key, created: created}) })
		}
	}
	if delete(w.dwells, key); len(there) > 0 {
		w.dwells[key] = there
	}
}

// lead is to which addresses a Service has the host lead. Not to one that it has named itself, and where an endpoint of an older one listens, or of its
// own: a way for one port is one for all, and the endpoint would be reached at none of its own.
func (w *wanted) lead(key types.NamespacedName, created int64, set *service.Set) (led []netip.Addr, problems []string) {
	for address := range w.sets[key].Named {
		if !set.Named[address] {
			w.named.leave(address, key)
		}
	}
	refused := map[netip.Addr]bool{}
	for address := range set.Named {
		one := &claim{of: key, created: created, vip: &quiver.Vip{}}
		w.named.join(address, one)
		first := w.dwelling.first(address)
		if first == nil || one.compare(first) < 0 {
			continue
		}
		refused[address] = true
		whose := fmt.Sprintf("an endpoint of Service %s, which is older,", first.of)
		if first.of == key {
			whose = "an endpoint of this Service"
		}
		problems = append(problems, fmt.Sprintf("%s is where %s listens: only pods are answered there", address, whose))
	}
	return slices.DeleteFunc(slices.Clone(set.Addresses), func(address netip.Addr) bool { return refused[address] }), problems
}
