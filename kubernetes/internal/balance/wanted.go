package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/service"
)

// claim is a Service's wish to be asked at a place.
type claim struct {
	of      types.NamespacedName
	created int64
	vip     *quiver.Vip
}

// wanted is what all Services together want, and what of it has changed since it was asked last.
type wanted struct {
	sets      map[types.NamespacedName]service.Set
	claims    map[service.Place][]claim
	placed    map[service.Place]string
	vips      map[string]*quiver.Vip
	addresses map[netip.Addr]int
	ports     map[service.NodePort]int
	hostPorts map[service.HostPort]int

	changedVIPs      map[string]bool
	changedAddresses map[netip.Addr]bool
	changedPorts     bool
	// Whose places others have got, or have left to them: what is to be told of them isn't what it was.
	moved map[types.NamespacedName]bool
}

func newWanted() *wanted {
	return &wanted{
		sets: map[types.NamespacedName]service.Set{}, claims: map[service.Place][]claim{}, placed: map[service.Place]string{}, vips: map[string]*quiver.Vip{},
		addresses: map[netip.Addr]int{}, ports: map[service.NodePort]int{}, hostPorts: map[service.HostPort]int{},
		changedVIPs: map[string]bool{}, changedAddresses: map[netip.Addr]bool{}, moved: map[types.NamespacedName]bool{},
	}
}

// put has a Service, or a pod, that was made then want this from now on. The problems are its own, and that others are asked at its places.
func (w *wanted) put(key types.NamespacedName, created int64, set service.Set, here *service.Here) (problems []string) {
	before := w.sets[key]
	touched := map[service.Place]bool{}
	for _, vip := range before.VIPs {
		touched[vip.Place] = true
		w.claims[vip.Place] = slices.DeleteFunc(w.claims[vip.Place], func(c claim) bool { return c.of == key })
	}
	for i := range set.VIPs {
		vip := &set.VIPs[i]
		touched[vip.Place] = true
		w.claims[vip.Place] = append(w.claims[vip.Place], claim{key, created, dataplane.VIP(vip, here)})
	}
	problems = slices.Clone(set.Problems)
	for place := range touched {
		before := w.placed[place]
		first := w.settle(place)
		if w.placed[place] != before {
			for _, other := range w.claims[place] {
				if other.of != key {
					w.moved[other.of] = true
				}
			}
		}
		if first != nil && first.of != key && slices.ContainsFunc(w.claims[place], func(c claim) bool { return c.of == key }) {
			problems = append(problems, fmt.Sprintf("%s is that of Service %s, which is older", place, first.of))
		}
	}
	count(w.addresses, before.Addresses, set.Addresses, func(address netip.Addr) { w.changedAddresses[address] = true })
	count(w.ports, before.NodePorts, set.NodePorts, func(service.NodePort) { w.changedPorts = true })
	count(w.hostPorts, before.HostPorts, set.HostPorts, func(service.HostPort) { w.changedPorts = true })
	if len(set.VIPs)+len(set.HostPorts) == 0 {
		delete(w.sets, key)
	} else {
		w.sets[key] = set
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// settle says who of those that want to be asked at a place is: the oldest one.
func (w *wanted) settle(place service.Place) (first *claim) {
	claims := w.claims[place]
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.of.String(), b.of.String()))
	})
	before, after := w.placed[place], ""
	if len(claims) > 0 {
		first = &claims[0]
		after = first.vip.Name
		w.placed[place] = after
	} else {
		delete(w.claims, place)
		delete(w.placed, place)
	}
	if before != "" && before != after {
		w.changedVIPs[before] = true
		delete(w.vips, before)
	}
	if first != nil && !proto.Equal(w.vips[after], first.vip) {
		w.changedVIPs[after] = true
		w.vips[after] = first.vip
	}
	return first
}

// count keeps how many want something.
func count[T comparable](counts map[T]int, before, after []T, changed func(T)) {
	for _, one := range after {
		if counts[one]++; counts[one] == 1 {
			changed(one)
		}
	}
	for _, one := range before {
		if counts[one]--; counts[one] == 0 {
			delete(counts, one)
			changed(one)
		}
	}
}
