package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/service"
)

// claim is what a Service, or a pod, wants of a place: to be asked there, or to be left alone, since an endpoint of its listens there. quiverd
// couldn't tell the two apart, and refuses whoever comes second, or, of those that come together, whose name is later.
type claim struct {
	of      types.NamespacedName
	created int64
	// By which it is asked; nil: an endpoint listens.
	vip *quiver.Vip
	// See service.VIP.
	assigned bool
	// What the VIP is called where the host leads to it (service.ExternalPort); empty: it doesn't.
	external string
}

// compare says who of two has a place: whom it has been given to, else who is older. Of a Service itself it is the endpoint, which is reached there
// without it.
func (c *claim) compare(other *claim) int {
	rank := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	// Ages mostly decide: no more is looked at then.
	if order := cmp.Or(cmp.Compare(rank(c.assigned), rank(other.assigned)), cmp.Compare(c.created, other.created)); order != 0 {
		return order
	}
	return cmp.Or(
		cmp.Compare(c.of.Namespace, other.of.Namespace), cmp.Compare(c.of.Name, other.of.Name), cmp.Compare(rank(c.vip == nil), rank(other.vip == nil)))
}

// worded is what somebody is told who wants to be asked at a place that is this one's.
func (c *claim) worded(place service.Place, whom types.NamespacedName) string {
	switch {
	case c.of == whom:
		return fmt.Sprintf("%s is where an endpoint of this Service listens: it is asked there itself", place)
	case c.vip == nil:
		return fmt.Sprintf("%s is where an endpoint of Service %s listens, which is older", place, c.of)
	case c.assigned:
		return fmt.Sprintf("%s has been given to Service %s", place, c.of)
	}
	return fmt.Sprintf("%s is that of Service %s, which is older", place, c.of)
}

// first is who has a place; nil: nobody wants it.
func (w *wanted) first(place service.Place) *claim {
	asked, listens := w.claims.first(place), w.listening.first(place)
	if asked == nil || listens != nil && listens.compare(asked) < 0 {
		return listens
	}
	return asked
}

// listen notes where endpoints of a Service listen from now on, and gives the places where that is new, or no longer so.
func (w *wanted) listen(key types.NamespacedName, created int64, set *service.Set, here *service.Here) (touched map[service.Place]bool) {
	there, seen := map[service.Place]bool{}, map[service.Place]bool{}
	for i := range set.VIPs {
		for _, backend := range set.VIPs[i].Backends {
			// All VIPs of a Service may have the same ones.
			place := service.Place{Address: backend.Address, Protocol: set.VIPs[i].Protocol, Port: backend.Port}
			if !seen[place] && askable(place.Address, here) {
				there[place] = true
			}
			seen[place] = true
		}
	}
	touched = map[service.Place]bool{}
	for place := range w.listens[key] {
		if !there[place] {
			w.listening.leave(place, key)
			touched[place] = true
		}
	}
	for place := range there {
		if now := w.listening.of(place, key); now == nil || now.created != created {
			w.listening.join(place, &claim{of: key, created: created})
			touched[place] = true
		}
	}
	if delete(w.listens, key); len(there) > 0 {
		w.listens[key] = there
	}
	return touched
}

// ask notes where a Service wants to be asked from now on, and gives the places where that is, or was.
func (w *wanted) ask(key types.NamespacedName, created int64, set *service.Set, here *service.Here) (asked, touched map[service.Place]bool) {
	asked, touched = map[service.Place]bool{}, map[service.Place]bool{}
	for i := range set.VIPs {
		vip := &set.VIPs[i]
		asked[vip.Place], touched[vip.Place] = true, true
		one := &claim{of: key, created: created, vip: dataplane.VIP(vip, here), assigned: vip.Assigned}
		if vip.External {
			one.external = externalName(vip)
		}
		w.claims.join(vip.Place, one)
	}
	for i := range w.sets[key].VIPs {
		if place := w.sets[key].VIPs[i].Place; !asked[place] {
			w.claims.leave(place, key)
			touched[place] = true
		}
	}
	return asked, touched
}

// askable tells whether Services can be asked where a backend listens: at pods they can't, whose addresses these mostly are.
func askable(address netip.Addr, here *service.Here) bool {
	within := func(prefix netip.Prefix) bool { return prefix.Contains(address) }
	return slices.Contains(here.Sources, address) || !slices.ContainsFunc(here.Pods, within)
}

// unheard leaves out endpoints of a Service at places where somebody else is asked, and tells of them: quiverd would refuse all of the Service.
func (w *wanted) unheard(key types.NamespacedName, set *service.Set, here *service.Here) (problems []string) {
	lost := map[service.Place]bool{}
	for place := range w.listens[key] {
		if first := w.first(place); first.vip != nil {
			lost[place] = true
			problems = append(problems, fmt.Sprintf("an endpoint listens at %s, where Service %s is asked: it gets nothing", place, first.of))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	for i := range set.VIPs {
		rest := set.VIPs[i]
		rest.Backends = slices.DeleteFunc(slices.Clone(rest.Backends), func(backend service.Backend) bool {
			return lost[service.Place{Address: backend.Address, Protocol: rest.Protocol, Port: backend.Port}]
		})
		w.claims.of(rest.Place, key).vip = dataplane.VIP(&rest, here)
	}
	return problems
}
