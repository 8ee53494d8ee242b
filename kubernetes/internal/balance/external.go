package balance

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	core "k8s.io/api/core/v1"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/service"
)

// Ports of the source address to which the host leads those of the node's own addresses: below those that Kubernetes has for node ports unless it is
// told otherwise.
const firstExternal, lastExternal = 1024, 29999

// So long a place stays the node's own after a process was last seen to listen there: one that is started anew, or is updated, gets its port back.
const barredFor = 5 * time.Minute

// kubeletPort is kubelet's where its node's object doesn't tell another.
const kubeletPort = 10250

// externals are ports of the node's own addresses at which Services are asked (service.ExternalPort), and by which ports of the source address quiverd
// is asked instead.
type externals struct {
	// How many Services want each, whoever has it.
	wanted map[service.Place]int
	// Those that lead somewhere, and whose each port of the source address is.
	led  map[service.Place]external
	from map[service.Place]service.Place
	// Where a free port is looked for next: one that has become free has long been so when it is somebody else's.
	next uint16
	// Where processes of the node listen, or have done so for barredFor at most: when they were last seen. Zero: it counts only while they are there.
	occupied map[service.Place]time.Time
	// Ports by names of VIPs that an agent before this one has given them, and whose each is: they stay what they are.
	before      map[string]service.Place
	beforeNames map[service.Place]string
}

// external is where one leads, and what the VIP is called there.
type external struct {
	to   service.Place
	name string
}

func newExternals() externals {
	return externals{
		wanted: map[service.Place]int{}, led: map[service.Place]external{}, from: map[service.Place]service.Place{}, next: firstExternal,
	}
}

// remember notes the VIPs that quiverd has at source addresses, until it forgets them.
func (e *externals) remember(vips map[string]*quiver.Vip, sources []netip.Addr) {
	e.before, e.beforeNames = map[string]service.Place{}, map[service.Place]string{}
	for name, vip := range vips {
		place, is := dataplane.PlaceOf(vip)
		for _, source := range sources {
			if is && place.Address == source {
				e.before[name], e.beforeNames[place] = place, name
			}
		}
	}
}

func (e *externals) forget() { e.before, e.beforeNames = nil, nil }

// free is a port of the source address for a VIP; false: there is none.
func (w *wanted) free(source netip.Addr, place service.Place, name string) (to service.Place, found bool) {
	e := &w.external
	usable := func() bool {
		_, led := e.from[to]
		before, known := e.beforeNames[to]
		return !led && w.first(to) == nil && (!known || before == name)
	}
	to = service.Place{Address: source, Protocol: place.Protocol, Port: e.before[name].Port}
	if to.Port != 0 && usable() {
		return to, true
	}
	for range lastExternal - firstExternal + 1 {
		to.Port = e.next
		if e.next++; e.next > lastExternal {
			e.next = firstExternal
		}
		if usable() {
			return to, true
		}
	}
	return to, false
}

// admit has the host lead to quiverd who asks at a place of the node's own from elsewhere, if whoever has it wants that, and nobody else answers there;
// else it says why not.
func (w *wanted) admit(place service.Place, here *service.Here) (barred string) {
	first, before := w.first(place), w.external.led[place]
	source := here.Source(place.Address.Is4())
	if first == nil || first.external == "" || !source.IsValid() {
		w.dismiss(place)
		return ""
	}
	if barred = w.barred(place, first, here); barred != "" {
		w.dismiss(place)
		return barred
	}
	to := before.to
	if to.Address != source || w.claims.first(to) != nil {
		var found bool
		if to, found = w.free(source, place, first.external); !found {
			w.dismiss(place)
			return fmt.Sprintf("%s: no port is left of %s to which this node could lead it: only pods are answered there", place, source)
		}
	}
	after := external{to, first.external}
	if after != before {
		w.dismiss(place)
		w.external.led[place], w.external.from[to], w.changedPorts = after, place, true
	}
	vip := dataplane.Elsewhere(first.vip, after.name, netip.AddrPortFrom(to.Address, to.Port))
	w.want(vip, place)
	return ""
}

// dismiss has the host lead nobody from there any more.
func (w *wanted) dismiss(place service.Place) {
	before, led := w.external.led[place]
	if !led {
		return
	}
	delete(w.external.led, place)
	delete(w.external.from, before.to)
	w.unwant(before.name)
	w.changedPorts = true
}

// barred says who else answers at a place of the node's own, so that nobody is led away from there; empty: nobody. What a load balancer has given is the
// Service's unless somebody listens at that very address, or it is one that belongs to the node.
func (w *wanted) barred(place service.Place, first *claim, here *service.Here) string {
	if !first.assigned {
		if pod := w.podAt(place); pod != "" {
			return fmt.Sprintf("%s is a host port of pod %s: only pods of this node are answered there by the Service", place, pod)
		}
	}
	// (Kubelet may be away, or not have begun.)
	kubelet := here.Nodes[place.Address] && place.Protocol == core.ProtocolTCP && place.Port == cmp.Or(here.Kubelet, kubeletPort)
	if kubelet || w.external.taken(place, !first.assigned || here.Nodes[place.Address]) {
		return fmt.Sprintf("%s is where a process of this node listens: only pods are answered there (take another port, or another address)", place)
	}
	return ""
}

// taken tells whether a process listens at a place, or, with wide, at all addresses.
func (e *externals) taken(place service.Place, wide bool) bool {
	all := service.Place{Address: service.Unspecified(place.Address.Is4()), Protocol: place.Protocol, Port: place.Port}
	_, there := e.occupied[place]
	_, anywhere := e.occupied[all]
	return there || wide && anywhere
}

// podAt is a pod, the first by its name, that has a host port at a place; empty: none has.
func (w *wanted) podAt(place service.Place) (pod string) {
	covers := func(port service.HostPort) bool { return port.Covers(place) }
	any := false
	for port := range w.hostPorts {
		any = any || covers(port)
	}
	if !any {
		return ""
	}
	for _, set := range w.sets {
		if slices.ContainsFunc(set.HostPorts, covers) && len(set.VIPs) > 0 {
			if name := set.VIPs[0].Service.String(); pod == "" || name < pod {
				pod = name
			}
		}
	}
	return pod
}

// occupy notes where processes of the node listen now: see host.Occupied. Who is asked where that has changed is looked at again.
func (w *wanted) occupy(found map[service.Place]bool, now time.Time) {
	before := w.external
	w.external.occupied = map[service.Place]time.Time{}
	for place, seen := range before.occupied {
		if now.Sub(seen) < barredFor {
			w.external.occupied[place] = seen
		}
	}
	for place, lasting := range found {
		if w.external.occupied[place] = (time.Time{}); lasting {
			w.external.occupied[place] = now
		}
	}
	for place := range w.external.wanted {
		for _, wide := range []bool{false, true} {
			if before.taken(place, wide) != w.external.taken(place, wide) {
				w.move(place)
			}
		}
	}
}

// externalName is what a VIP is called where the host leads to it from elsewhere.
func externalName(vip *service.VIP) string {
	there := *vip
	there.PortOf += "-external"
	return dataplane.VIPName(&there)
}

// move has whoever has a place looked at again.
func (w *wanted) move(place service.Place) {
	if first := w.first(place); first != nil {
		w.moved[first.of] = true
	}
}

// externalOf are places of a set to which the host shall lead from elsewhere.
func externalOf(set *service.Set) (places []service.Place) {
	for i := range set.VIPs {
		if set.VIPs[i].External {
			places = append(places, set.VIPs[i].Place)
		}
	}
	return places
}
