package balance

import (
	"maps"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/service"
)

// wanted is what all Services together want, and what of it has changed since it was asked last.
type wanted struct {
	sets   map[types.NamespacedName]service.Set
	claims crowds[service.Place]
	// Places where endpoints listen that others could want to be asked at, and those of each Service.
	listening crowds[service.Place]
	listens   map[types.NamespacedName]map[service.Place]bool
	// The addresses of these places, and those that Services name themselves: see service.Set.
	dwelling, named crowds[netip.Addr]
	dwells          map[types.NamespacedName]map[netip.Addr]bool
	placed          map[service.Place]string
	// Who has a place, by what others who want it are told of him.
	holders map[service.Place]holder
	// By name, and where they are.
	vips   map[string]*quiver.Vip
	places map[string]service.Place
	// Addresses to which the host shall lead, by how many Services have it do so, and those of each.
	addresses map[netip.Addr]int
	led       map[types.NamespacedName][]netip.Addr
	ports     map[service.NodePort]int
	hostPorts map[service.HostPort]int
	external  externals

	changedVIPs      map[string]bool
	changedAddresses map[netip.Addr]bool
	changedPorts     bool
	// Whose places others have got, or have left to them: what is to be told of them isn't what it was.
	moved map[types.NamespacedName]bool
}

// holder is who has a place, and by what.
type holder struct {
	of                types.NamespacedName
	listens, assigned bool
}

func newWanted() *wanted {
	return &wanted{
		sets: map[types.NamespacedName]service.Set{}, claims: crowds[service.Place]{},
		listening: crowds[service.Place]{}, listens: map[types.NamespacedName]map[service.Place]bool{}, placed: map[service.Place]string{}, holders: map[service.Place]holder{}, vips: map[string]*quiver.Vip{}, places: map[string]service.Place{},
		dwelling: crowds[netip.Addr]{}, named: crowds[netip.Addr]{}, dwells: map[types.NamespacedName]map[netip.Addr]bool{},
		addresses: map[netip.Addr]int{}, led: map[types.NamespacedName][]netip.Addr{}, ports: map[service.NodePort]int{}, hostPorts: map[service.HostPort]int{},
		external: newExternals(), changedVIPs: map[string]bool{}, changedAddresses: map[netip.Addr]bool{}, moved: map[types.NamespacedName]bool{},
	}
}

// put has a Service, or a pod, that was made then want this from now on. The problems are its own, and that others are asked at its places.
func (w *wanted) put(key types.NamespacedName, created int64, set service.Set, here *service.Here) (problems []string) {
	before := w.sets[key]
	asked, touched := w.ask(key, created, &set, here)
	maps.Copy(touched, w.listen(key, created, &set, here))
	w.dwell(key, created, w.listens[key])
	problems = append(slices.Clone(set.Problems), w.unheard(key, &set, here)...)
	for place := range touched {
		before, holder := w.placed[place], w.holders[place]
		first := w.settle(place)
		var others []types.NamespacedName
		if w.holders[place] != holder {
			others = w.claims.others(place, key)
		}
		// To endpoints it is all one whose they are as long as nobody is asked there.
		if w.placed[place] != before {
			others = append(others, w.listening.others(place, key)...)
		}
		for _, other := range others {
			w.moved[other] = true
		}
		if first != nil && (first.of != key || first.vip == nil) && asked[place] {
			problems = append(problems, first.worded(place, key))
		}
		if barred := w.admit(place, here); barred != "" && first.of == key {
			problems = append(problems, barred)
		}
		// Somebody has been given a port by which another place is reached.
		if from, led := w.external.from[place]; led && first != nil && w.admit(from, here) != "" {
			w.move(from)
		}
	}
	led, refused := w.lead(key, created, &set)
	problems = append(problems, refused...)
	count(w.addresses, w.led[key], led, func(address netip.Addr) { w.changedAddresses[address] = true })
	if w.led[key] = led; len(led) == 0 {
		delete(w.led, key)
	}
	count(w.ports, before.NodePorts, set.NodePorts, func(service.NodePort) { w.changedPorts = true })
	count(w.external.wanted, externalOf(&before), externalOf(&set), func(service.Place) {})
	count(w.hostPorts, before.HostPorts, set.HostPorts, func(port service.HostPort) {
		w.changedPorts = true
		for place := range w.external.wanted {
			if port.Covers(place) {
				w.move(place)
			}
		}
	})
	if len(set.VIPs)+len(set.HostPorts) == 0 {
		delete(w.sets, key)
	} else {
		w.sets[key] = set
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// settle says who has a place: see first. Only who wants to be asked there is.
func (w *wanted) settle(place service.Place) (first *claim) {
	first = w.first(place)
	if first != nil {
		w.holders[place] = holder{first.of, first.vip == nil, first.assigned}
	} else {
		delete(w.holders, place)
	}
	before, after := w.placed[place], ""
	if first != nil && first.vip != nil {
		after = first.vip.Name
		w.placed[place] = after
	} else {
		delete(w.placed, place)
	}
	if before != "" && before != after {
		w.unwant(before)
	}
	if after != "" {
		w.want(first.vip, place)
	}
	return first
}

// want has there be a VIP, by which somebody is asked at a place.
func (w *wanted) want(vip *quiver.Vip, place service.Place) {
	if !proto.Equal(w.vips[vip.Name], vip) {
		w.changedVIPs[vip.Name] = true
		w.vips[vip.Name], w.places[vip.Name] = vip, place
	}
}

func (w *wanted) unwant(name string) {
	w.changedVIPs[name] = true
	delete(w.vips, name)
	delete(w.places, name)
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
