// Package agent is what quiver-agent does: it gives pods addresses and interfaces, and keeps quiverd at what shall be.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/address"
	"quiver/kubernetes/internal/annotation"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/calls"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/policy"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

const (
	// At most this long stands one change of the dataplane.
	applyTime = 10 * time.Second
	// Whether Add can work is answered in at most this time.
	statusTime = 2 * time.Second
	// So long an Add that waits for its node waits to look again.
	soon = 50 * time.Millisecond
	// This often everything is compared, whether or not something is known to have happened.
	resync = 30 * time.Second
)

// Settings of an agent.
type Settings struct {
	// HostDevice is what the host's device towards pods is called; empty: pods don't reach the host.
	HostDevice string
	// Farewells left by quiver-cni.
	Farewells attachment.Farewells
	// Last says which addresses were given last, in whichever life of the agent.
	Last address.Last
	// Services has pods' packets looked at for Services: an address of each range is kept for them.
	Services bool
	// KeepSessions has, to begin with, sessions go on that policies don't permit any more: what is new decides on new ones alone.
	KeepSessions bool
	// Sessions of pods, to begin with: how many there may be, and what they pass.
	Sessions dataplane.Sessions
	// Defaults of pods whose annotations don't say otherwise, to begin with.
	Defaults annotation.Defaults
	// Teller tells owners of pods; nil: nobody.
	Teller calls.Teller
}

// Keeper keeps something in quiverd beside pods.
type Keeper interface {
	// Ready is nil when all is as it shall be.
	Ready() error
	// Compare has everything compared: quiverd has come back.
	Compare()
}

// Balancer keeps Services, and ports of the node that lead to pods.
type Balancer interface {
	Keeper
	// Wake has it look at HostPorts again.
	Wake()
}

// Ways keeps the ways to other nodes.
type Ways interface {
	Keeper
	// Warning is what the host's own settings keep from pods; nil: nothing that is known.
	Warning() error
}

// Guard keeps what policies let pass beside pods.
type Guard interface {
	Keeper
	// Known is what Cover still lacks; nil: it can work. Without, it isn't known yet what policies say.
	Known() error
	// Cover has a new pod's addresses guarded before anything can reach them.
	Cover(ctx context.Context, pod types.NamespacedName, uid string, addresses []netip.Addr) error
	// Here tells a pod's addresses on this node; none: it isn't here any more.
	Here(pod types.NamespacedName, uid string, addresses []netip.Addr)
	// Restore has quiverd, which has come back, know all of it again.
	Restore(ctx context.Context) error
	// Safe is nil when, since the last Restore, those who were guarded are, or let nobody pass: pods may be reached.
	Safe() error
}

// Agent serves quiver-cni.
type Agent struct {
	agentv1.UnimplementedPodNetworkServer

	settings Settings
	quiverd  *dataplane.Client
	pods     pods.Source
	log      *slog.Logger

	// One change at a time, so that disk and dataplane go the same way.
	mutex lock
	store *attachment.Store
	pools []*address.Pool
	// How pods are reached from other nodes; nil: not known yet.
	paths *dataplane.Paths
	// Interfaces to other nodes that quiverd had when it was last looked at; looked tells whether it was.
	toNodes []string
	looked  bool
	// What became of the last time that everything was compared, single pods and the port on the uplink apart.
	compared error
	// What became of that port: without it the host's kernel carries its packets.
	portAmiss error
	// It was well once.
	brought bool
	// Attachments that are left out, of which was told.
	disputes map[attachment.ID]string
	// Addresses that pods had, of which quiverd may still have sessions.
	left     map[netip.Addr]bool
	services Balancer
	guard    Guard
	ways     Ways

	// The last connection to a quiverd that has been told who is guarded, which may have ended; nil: there was none.
	connection atomic.Pointer[connection]
	// So long Reconcile waits for that.
	patience time.Duration
}

// New makes an agent that has no addresses to give yet.
func New(settings Settings, store *attachment.Store, quiverd *dataplane.Client, source pods.Source, log *slog.Logger) *Agent {
	return &Agent{settings: settings, mutex: newLock(), store: store, quiverd: quiverd, pods: source, log: log, compared: errNotCompared, left: map[netip.Addr]bool{}, patience: applyTime}
}

// Set has pods that come, and sessions, be treated so from now on. What pods have got they keep.
func (a *Agent) Set(ctx context.Context, keepSessions bool, sessions dataplane.Sessions, defaults annotation.Defaults) {
	a.mutex.Lock()
	changed := a.settings.KeepSessions != keepSessions || !reflect.DeepEqual(a.settings.Sessions, sessions)
	a.settings.KeepSessions, a.settings.Sessions, a.settings.Defaults = keepSessions, sessions, defaults
	a.mutex.Unlock()
	if changed {
		_ = a.reconcile(ctx, "settings")
	}
}

// defaults are those of pods that come now.
func (a *Agent) defaults() annotation.Defaults {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.settings.Defaults
}

// Keeping tells who keeps Services, before Run.
func (a *Agent) Keeping(services Balancer) { a.services = services }

// CompareServices has what leads to Services looked at: somebody has taken away something of the host's part.
func (a *Agent) CompareServices() {
	if a.services != nil {
		a.services.Compare()
	}
}

// Following tells who keeps the ways to other nodes, before Run.
func (a *Agent) Following(ways Ways) { a.ways = ways }

// Guarding tells who keeps policies, before Run: pods that are there already are handed to it.
func (a *Agent) Guarding(guard Guard) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.guard = guard
	for _, record := range a.store.All() {
		guard.Here(podOf(record), record.PodUID, a.addresses(record))
	}
}

// Attachments are all on this node. Nobody changes them.
func (a *Agent) Attachments() []*attachment.Record {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.store.All()
}

// KeepAnnotations keeps of the attachment that has been there since then by which annotations it was made, and what was told of their changes; not of one
// that has gone, be there another one of its ID.
func (a *Agent) KeepAnnotations(id attachment.ID, since time.Time, made, told map[string]string) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	record := a.store.Get(id)
	if record == nil || !record.Since.Equal(since) {
		return nil
	}
	changed := *record
	changed.Annotations, changed.Told = made, told
	return a.store.Put(&changed)
}

// podOf names an attachment's pod as the API server does.
func podOf(record *attachment.Record) types.NamespacedName {
	return types.NamespacedName{Namespace: record.PodNamespace, Name: record.PodName}
}

// addresses are all that an attachment's pod has on this node, by whatever attachments.
func (a *Agent) addresses(of *attachment.Record) (all []netip.Addr) {
	for _, record := range a.store.All() {
		if podOf(record) == podOf(of) && record.PodUID == of.PodUID {
			all = append(all, record.Addresses...)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// SetRanges tells which addresses there are to give.
func (a *Agent) SetRanges(ranges []netip.Prefix) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	given, err := a.settings.Last.Read()
	if err != nil {
		a.log.Warn("addresses may not rest for as long as they should", "why", err)
	}
	var pools []*address.Pool
	for _, prefix := range ranges {
		last, known := given[prefix]
		if !known {
			last = a.highest(prefix)
		}
		pool, err := address.NewPool(prefix, last)
		if err != nil {
			return err
		}
		if a.settings.Services {
			pool.Reserve(a.store.InUse)
		}
		pools = append(pools, pool)
	}
	a.pools = pools
	return nil
}

// highest is the highest address in use in a range. A pool goes on there where it isn't known which one was given last: an address that has just become
// free rests, if there are higher ones.
func (a *Agent) highest(prefix netip.Prefix) netip.Addr {
	var highest netip.Addr
	for _, record := range a.store.All() {
		for _, used := range record.Addresses {
			if prefix.Contains(used) && highest.Less(used) {
				highest = used
			}
		}
	}
	return highest
}

// Sources are the addresses kept for Services, and the ranges that they are of; none before quiverd has been told, and the host has its
// device.
func (a *Agent) Sources() (sources []netip.Addr, ranges []netip.Prefix) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if !a.brought {
		return nil, nil
	}
	for _, pool := range a.pools {
		ranges = append(ranges, pool.Prefix())
		if reserved := pool.Reserved(); reserved.IsValid() {
			sources = append(sources, reserved)
		}
	}
	return sources, ranges
}

// Run keeps quiverd at what shall be until the context ends: when it comes back, and now and then.
func (a *Agent) Run(ctx context.Context) {
	go func() {
		for ctx.Err() == nil {
			err := a.watch(ctx)
			if ctx.Err() == nil {
				a.log.Warn("quiverd went away", "why", err)
			}
			pause(ctx, 200*time.Millisecond)
		}
	}()
	for pause(ctx, resync) {
		_ = a.reconcile(ctx, "resync")
	}
}

// watch waits for quiverd, brings it to what shall be, and returns when it went.
func (a *Agent) watch(ctx context.Context) error {
	here, gone := context.WithCancel(ctx)
	defer gone()
	var busy sync.WaitGroup
	err := a.quiverd.Watch(here, func() { busy.Go(func() { a.comeBack(here) }) })
	// What still goes on must not meet the quiverd that comes next, which may know nothing.
	gone()
	busy.Wait()
	return err
}

// comeBack has a quiverd that has come know all that it shall, and first who is guarded: before anybody can be reached.
func (a *Agent) comeBack(ctx context.Context) {
	if a.guard != nil {
		a.restore(ctx)
	}
	a.connection.Store(&connection{ctx})
	for ctx.Err() == nil {
		err := a.reconcile(ctx, "quiverd is there")
		for _, keeper := range a.beside() {
			keeper.Compare()
		}
		var held *HeldError
		if !errors.As(err, &held) {
			return
		}
	}
}

// restore has quiverd know who is guarded, and tells what became of that.
func (a *Agent) restore(ctx context.Context) {
	err := a.guard.Restore(ctx)
	var damaged *policy.DamagedError
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, policy.ErrShut):
		a.log.Info("policies are not in force anew yet: pods that were guarded still are, or let nobody pass", "why", err)
	case errors.As(err, &damaged):
		a.log.Error("pods are open that policies may be for", "why", err)
	default:
		a.log.Warn("pods are held back: those who were guarded may not be yet", "why", err)
	}
}

// beside are those who keep what isn't the agent's own, by what they keep.
func (a *Agent) beside() map[string]Keeper {
	all := map[string]Keeper{}
	if a.services != nil {
		all["Services"] = a.services
	}
	if a.guard != nil {
		all["NetworkPolicies"] = a.guard
	}
	if a.ways != nil {
		all["ways to other nodes"] = a.ways
	}
	return all
}

// pause waits; false: the context ended first.
func pause(ctx context.Context, time_ time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time_):
		return true
	}
}

func (a *Agent) reconcile(ctx context.Context, why string) error {
	err := a.Reconcile(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.Error("the dataplane is not what it shall be; trying again", "occasion", why, "why", err)
	}
	return err
}
