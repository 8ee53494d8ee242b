package balance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/calls"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/keeping"
	"quiver/kubernetes/internal/service"
)

const (
	// At most this long stands one change of the dataplane.
	applyTime = 30 * time.Second
	// VIPs of one batch: quiverd answers others in between.
	batch = 2000
	// When pods' claims were made: after those of all Services.
	ofPods = math.MaxInt64
)

// Host is the node's kernel: it leads packets for VIPs to quiverd.
type Host interface {
	// Bring has it do so. With all, whatever may have happened there.
	Bring(lead service.Lead, all bool) error
}

// Teller lets owners of Services know, and those of pods that have ports of the node.
type Teller interface {
	calls.Teller
	TellService(key types.NamespacedName, uid types.UID, reason, message string)
}

// Settings of a keeper.
type Settings struct {
	// Here says for which node it is; false: not known yet.
	Here func() (service.Here, bool)
	// Pods are those of the node that have ports of it; may be nil.
	Pods func() []service.Pod
	// Host has no way to VIPs if it is nil.
	Host Host
	// Occupied is where processes of the node listen: see host.Occupied. If it is nil, nowhere.
	Occupied func() (map[service.Place]bool, error)
	// Healthy is nil as long as the node leads to its pods who asks for a Service: load balancers are told. It is asked as often as they ask. If there is
	// none, they are told so always.
	Healthy func(context.Context) error
	// Now is the time; nil: time.Now.
	Now func() time.Time
	// Teller may be nil.
	Teller Teller
}

// Keeper keeps quiverd and the host at what Services are.
type Keeper struct {
	*keeping.Loop
	settings Settings
	objects  *Objects
	quiverd  *dataplane.Client
	log      *slog.Logger

	// Of the loop alone.
	here   service.Here
	wanted *wanted
	have   *dataplane.FoundVIPs
	// What is to be told of Services and pods, and what was.
	news news
	// Pods that have ports of the node, by what they are called in wanted.
	pods map[types.NamespacedName]service.Pod
	// VIPs that quiverd has refused: they are tried again when they change, or when everything is compared.
	aside map[string]aside
	// What the host couldn't do last.
	trouble string
	// Why it wasn't known last where processes of the node listen.
	blind  string
	checks checks

	mutex sync.Mutex
	// Services that have VIPs, and VIPs that there shall be.
	services, vips int
}

// New makes a keeper that has done nothing yet.
func New(settings Settings, objects *Objects, quiverd *dataplane.Client, log *slog.Logger) *Keeper {
	if settings.Now == nil {
		settings.Now = time.Now
	}
	return &Keeper{
		settings: settings, objects: objects, quiverd: quiverd, log: log, Loop: keeping.New("Services", log),
		wanted: newWanted(), checks: checks{all: map[uint16]*check{}, healthy: settings.Healthy}, news: newNews(), aside: map[string]aside{},
		pods: map[types.NamespacedName]service.Pod{},
	}
}

// Wake has it look again at which pods have ports of the node.
func (k *Keeper) Wake() { k.objects.wake() }

// Run does it until the context ends. It leaves things as they are then: traffic goes on.
func (k *Keeper) Run(ctx context.Context) {
	go k.objects.Run(ctx)
	defer k.checks.close()
	k.Turn(ctx, k.objects.Changed(), k.bring)
}

// bring does what has changed, or, with all, whatever is to do.
func (k *Keeper) bring(ctx context.Context, all bool) error {
	here, known := k.settings.Here()
	if !known || !k.objects.Known() {
		return keeping.ErrUnknown
	}
	fresh := k.have == nil
	if fresh {
		var err error
		if k.have, err = k.quiverd.VIPs(ctx); err != nil {
			return err
		}
		// What is there keeps its ports.
		k.wanted.external.remember(k.have.VIPs, here.Sources)
	}
	all = k.learn(here) || all || fresh
	k.wanted.external.forget()
	k.mutex.Lock()
	k.services, k.vips = len(k.wanted.sets)-len(k.pods), len(k.wanted.vips)
	k.mutex.Unlock()
	if all {
		if !fresh {
			there, err := k.quiverd.VIPs(ctx)
			if err != nil {
				return err
			}
			k.have = there
		}
		clear(k.aside)
		k.everything()
	}
	k.leave(here.Sources)
	if err := k.program(ctx); err != nil {
		return err
	}
	k.tell()
	k.lead(here.Sources, all)
	return nil
}

// leave has the host lead nothing any more to addresses that go: without VIP and route, quiverd would send it back.
func (k *Keeper) leave(sources []netip.Addr) {
	w, goes := k.wanted, false
	for address := range w.changedAddresses {
		goes = goes || w.addresses[address] == 0 && k.have.Routes[address]
	}
	if !goes || k.settings.Host == nil {
		return
	}
	// What fails is told when all else is done.
	_ = k.settings.Host.Bring(k.led(sources), false)
}

// led is what the host has to do. It leads to quiverd what is sent to addresses, and to ports of its own ones, where that knows what to do.
func (k *Keeper) led(sources []netip.Addr) service.Lead {
	w := k.wanted
	lead := service.Lead{NodePorts: slices.Collect(maps.Keys(w.ports)), HostPorts: slices.Collect(maps.Keys(w.hostPorts)), Sources: sources}
	for place, led := range w.external.led {
		to := netip.AddrPortFrom(led.to.Address, led.to.Port)
		if there := k.have.VIPs[led.name]; there.GetAddress() == to.Addr().String() && there.GetPort() == uint32(to.Port()) {
			lead.ExternalPorts = append(lead.ExternalPorts, service.ExternalPort{Place: place, To: to})
		}
	}
	for address := range w.addresses {
		if k.have.Routes[address] {
			lead.Addresses = append(lead.Addresses, address)
		}
	}
	return lead
}

// lead has the host do what has changed. What it can't do, such as a route that somebody else has, is told, and tried again when everything is
// compared: the node serves its pods nevertheless.
func (k *Keeper) lead(sources []netip.Addr, all bool) {
	w := k.wanted
	if k.settings.Host == nil {
		return
	}
	failed := k.checks.bring(w)
	if all || w.changedPorts || len(w.changedAddresses) > 0 {
		err := k.settings.Host.Bring(k.led(sources), all)
		failed = errors.Join(failed, err)
	} else if k.trouble != "" {
		return
	}
	trouble := ""
	if failed != nil {
		trouble = failed.Error()
	}
	if trouble != k.trouble {
		if k.trouble = trouble; trouble != "" {
			k.log.Error("not all Services are reached by and through this host", "why", trouble)
		} else {
			k.log.Info("all Services are reached by and through this host")
		}
	}
	clear(w.changedAddresses)
	w.changedPorts = false
}

// learn works out anew what Services want that have changed; all of them if the node has. Then it is true.
func (k *Keeper) learn(here service.Here) (anew bool) {
	dirty := k.objects.Take()
	// Of the kernel's addresses only pods with ports of the node are told: devices of others come and go, and are nothing to Services.
	kernel := !slices.Equal(here.Kernel, k.here.Kernel)
	k.here.Kernel = here.Kernel
	if anew = !reflect.DeepEqual(here, k.here); anew {
		k.here = here
		maps.Copy(dirty, k.objects.All())
		for key := range k.wanted.sets {
			dirty[key] = true
		}
	}
	k.learnPods(anew || kernel)
	for key := range dirty {
		if _, pod := k.pods[key]; pod {
			continue
		}
		owner, slices := k.objects.Get(key)
		if owner == nil {
			k.wanted.put(key, 0, service.Set{}, &k.here)
			k.news.forget(key)
			continue
		}
		k.news.put(key, k.wanted.put(key, owner.CreationTimestamp.UnixNano(), service.Of(owner, slices, &k.here), &k.here))
	}
	k.learnOccupied()
	k.learnMoved()
	return anew
}

// learnOccupied looks where processes of the node listen, if Services are asked at places of the node's own. If that can't be told, it stays as it was.
func (k *Keeper) learnOccupied() {
	if k.settings.Occupied == nil || len(k.wanted.external.wanted) == 0 {
		return
	}
	occupied, err := k.settings.Occupied()
	if err != nil {
		if text := err.Error(); text != k.blind {
			k.blind = text
			k.log.Error("processes that have begun to listen on this host may lose ports to externalIPs of Services", "why", err)
		}
		return
	}
	if k.blind != "" {
		k.blind = ""
		k.log.Info("it is known again where processes of this host listen")
	}
	k.wanted.occupy(occupied, k.settings.Now())
}

// learnMoved lets owners know to whom others have left a place, or from whom they have got it, though nothing of their own has changed.
func (k *Keeper) learnMoved() {
	moved := k.wanted.moved
	k.wanted.moved = map[types.NamespacedName]bool{}
	for key := range moved {
		set, there := k.wanted.sets[key]
		if !there {
			continue
		}
		if _, is := k.pods[key]; is {
			k.news.put(key, k.wanted.put(key, ofPods, set, &k.here))
		} else if owner, _ := k.objects.Get(key); owner != nil {
			k.news.put(key, k.wanted.put(key, owner.CreationTimestamp.UnixNano(), set, &k.here))
		}
	}
}

// learnPods does the same for pods that have ports of the node. A Service that is asked at the same place has it.
func (k *Keeper) learnPods(anew bool) {
	if k.settings.Pods == nil {
		return
	}
	there := map[types.NamespacedName]bool{}
	for _, pod := range k.settings.Pods() {
		// No Service is called so.
		key := types.NamespacedName{Namespace: pod.Name.Namespace, Name: pod.Name.Name + "/" + pod.Attachment}
		there[key] = true
		if before, known := k.pods[key]; known && !anew && reflect.DeepEqual(before, pod) {
			continue
		}
		k.pods[key] = pod
		k.news.put(key, k.wanted.put(key, ofPods, service.OfPod(&pod, &k.here), &k.here))
	}
	for key := range k.pods {
		if !there[key] {
			k.wanted.put(key, 0, service.Set{}, &k.here)
			delete(k.pods, key)
			k.news.forget(key)
		}
	}
}

// everything marks what differs from what quiverd has.
func (k *Keeper) everything() {
	w := k.wanted
	for name, vip := range w.vips {
		if !proto.Equal(vip, k.have.VIPs[name]) {
			w.changedVIPs[name] = true
		}
	}
	for name := range k.have.VIPs {
		if w.vips[name] == nil {
			w.changedVIPs[name] = true
		}
	}
	for address := range w.addresses {
		w.changedAddresses[address] = true
	}
	for address := range k.have.Routes {
		w.changedAddresses[address] = true
	}
}

// program has quiverd do what has changed. First comes what goes. A route comes in one batch with a VIP of its address, so that nothing is sent
// to and fro, and an agent that is killed leaves no route which the next one wouldn't know for its own.
func (k *Keeper) program(ctx context.Context) error {
	w := k.wanted
	upserts, deletes := &quiver.Config{}, []*quiver.ObjectRef(nil)
	var missing map[string]netip.Addr
	for address := range w.changedAddresses {
		switch wanted, has := w.addresses[address] > 0, k.have.Routes[address]; {
		case wanted && !has:
			if missing == nil {
				missing = map[string]netip.Addr{}
			}
			missing[address.String()] = address
		case !wanted && has:
			deletes = append(deletes, dataplane.Refs(&quiver.Config{Routes: []*quiver.Route{dataplane.Unreachable(address)}})...)
			delete(k.have.Routes, address)
		}
	}
	if missing != nil {
		// Of VIPs that are there, somebody has taken the route away.
		for _, vip := range k.have.VIPs {
			if address, is := missing[vip.Address]; is && w.vips[vip.Name] != nil {
				upserts.Routes = append(upserts.Routes, dataplane.Unreachable(address))
				delete(missing, vip.Address)
				k.have.Routes[address] = true
			}
		}
	}
	var names []string
	for name := range w.changedVIPs {
		if vip := w.vips[name]; vip != nil && proto.Equal(vip, k.aside[name].vip) {
			continue
		} else if vip != nil && !proto.Equal(vip, k.have.VIPs[name]) {
			names = append(names, name)
		} else if vip == nil && k.have.VIPs[name] != nil {
			deletes = append(deletes, &quiver.ObjectRef{Kind: quiver.Kind_KIND_VIP, Name: name})
		} else {
			delete(w.changedVIPs, name)
		}
	}
	slices.Sort(names)
	for first := true; first || len(names) > 0; first = false {
		some := names[:min(len(names), batch)]
		names = names[len(some):]
		for _, name := range some {
			upserts.Vips = append(upserts.Vips, w.vips[name])
		}
		if len(upserts.Vips) == 0 && len(upserts.Routes) == 0 && len(deletes) == 0 {
			break
		}
		if err := k.apply(ctx, upserts, deletes); err != nil {
			// Part of it may have been done.
			k.have = nil
			return err
		}
		for _, vip := range upserts.Vips {
			k.have.VIPs[vip.Name] = vip
			delete(w.changedVIPs, vip.Name)
		}
		for _, ref := range deletes {
			if ref.Kind == quiver.Kind_KIND_VIP {
				delete(k.have.VIPs, ref.Name)
				delete(w.changedVIPs, ref.Name)
			}
		}
		for _, route := range upserts.Routes {
			if prefix, err := netip.ParsePrefix(route.Prefix); err == nil {
				k.have.Routes[prefix.Addr()] = true
				w.changedAddresses[prefix.Addr()] = true
			}
		}
		upserts, deletes = &quiver.Config{}, nil
	}
	// One that can't be is its owner's to mend: the node is ready nevertheless.
	return nil
}

// apply hands a batch over, with the routes that its VIPs lack, but for VIPs that quiverd refuses: these are left out.
func (k *Keeper) apply(ctx context.Context, upserts *quiver.Config, deletes []*quiver.ObjectRef) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	mended := upserts.Routes
	for {
		upserts.Routes = append(slices.Clip(mended), k.lacking(upserts.Vips)...)
		err := k.quiverd.Apply(ctx, upserts, deletes)
		var why *dataplane.RefusedError
		if !errors.As(err, &why) {
			return err
		}
		// All at once: whoever names many that can't be must not hold up the others.
		these := map[string]*dataplane.RefusedError{}
		for _, one := range why.All() {
			these[one.Name] = one
		}
		before := len(upserts.Vips)
		upserts.Vips = slices.DeleteFunc(upserts.Vips, func(vip *quiver.Vip) bool {
			one := these[vip.Name]
			if one != nil {
				k.aside[vip.Name] = aside{vip, fmt.Sprintf("%s (%s)", one.Reason, one.Remedy)}
			}
			return one != nil
		})
		if len(upserts.Vips) == before {
			return err
		}
	}
}

// lacking are the routes that addresses of these VIPs shall have and don't have.
func (k *Keeper) lacking(vips []*quiver.Vip) (routes []*quiver.Route) {
	seen := map[netip.Addr]bool{}
	for _, vip := range vips {
		address, err := netip.ParseAddr(vip.Address)
		if err == nil && !seen[address] && k.wanted.addresses[address] > 0 && !k.have.Routes[address] {
			seen[address] = true
			routes = append(routes, dataplane.Unreachable(address))
		}
	}
	return routes
}
