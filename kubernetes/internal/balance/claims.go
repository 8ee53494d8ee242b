package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
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
	return cmp.Or(
		cmp.Compare(rank(c.assigned), rank(other.assigned)), cmp.Compare(c.created, other.created), cmp.Compare(c.of.String(), other.of.String()),
		cmp.Compare(rank(c.vip == nil), rank(other.vip == nil)))
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
func (w *wanted) first(place service.Place) (first *claim) {
	for _, all := range [][]claim{w.claims[place], w.listening[place]} {
		for i := range all {
			if first == nil || all[i].compare(first) < 0 {
				first = &all[i]
			}
		}
	}
	return first
}

// listen notes where endpoints of a Service listen from now on, and gives the places where that is new, or no longer so.
func (w *wanted) listen(key types.NamespacedName, created int64, set *service.Set, here *service.Here) (touched map[service.Place]bool) {
	touched = map[service.Place]bool{}
	for _, place := range w.listens[key] {
		w.listening[place] = slices.DeleteFunc(w.listening[place], func(c claim) bool { return c.of == key })
		touched[place] = true
		if len(w.listening[place]) == 0 {
			delete(w.listening, place)
		}
	}
	there := map[service.Place]bool{}
	for i := range set.VIPs {
		for _, backend := range set.VIPs[i].Backends {
			if place, could := askable(backend, set.VIPs[i].Protocol, here); could {
				there[place], touched[place] = true, true
			}
		}
	}
	delete(w.listens, key)
	for place := range there {
		w.listening[place] = append(w.listening[place], claim{of: key, created: created})
		w.listens[key] = append(w.listens[key], place)
	}
	return touched
}

// askable is where a backend listens, if Services can be asked there: at pods they can't, whose addresses these mostly are.
func askable(backend service.Backend, protocol core.Protocol, here *service.Here) (place service.Place, could bool) {
	place = service.Place{Address: backend.Address, Protocol: protocol, Port: backend.Port}
	within := func(prefix netip.Prefix) bool { return prefix.Contains(backend.Address) }
	return place, slices.Contains(here.Sources, backend.Address) || !slices.ContainsFunc(here.Pods, within)
}

// unheard leaves out endpoints of a Service at places where somebody else is asked, and tells of them: quiverd would refuse all of the Service.
func (w *wanted) unheard(key types.NamespacedName, set *service.Set, here *service.Here) (problems []string) {
	lost := map[service.Place]bool{}
	for _, place := range w.listens[key] {
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
		claims := w.claims[rest.Place]
		at := slices.IndexFunc(claims, func(c claim) bool { return c.of == key })
		claims[at].vip = dataplane.VIP(&rest, here)
	}
	return problems
}
