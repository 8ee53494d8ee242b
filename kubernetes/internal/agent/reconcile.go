package agent

import (
	"context"
	"errors"
	"net/netip"

	"google.golang.org/grpc/codes"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/policy"
)

// Reconcile brings quiverd to what shall be, whatever it has now. It waits for a quiverd that has been told who is guarded, but not for long:
// that there was none is told, and whoever comes back is reconciled then.
func (a *Agent) Reconcile(ctx context.Context) error {
	a.waitAdmitted(ctx)
	return errors.Join(a.compare(ctx))
}

// compare does so; errors of single pods are told apart: they are no fault of the node's.
// Before quiverd has been told who is guarded nothing is brought.
func (a *Agent) compare(ctx context.Context) (failed, ofPods error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	admitted, release, err := a.admitted(ctx)
	if a.compared = err; err != nil {
		return err, nil
	}
	defer release()
	a.compared, ofPods = a.bring(admitted)
	a.brought = a.brought || a.compared == nil && a.pools != nil && a.paths != nil
	return a.compared, ofPods
}

// bring does so; errors of single pods are told apart.
func (a *Agent) bring(ctx context.Context) (failed, ofPods error) {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if err := a.settings.Farewells.Each(func(gone attachment.ID) error { return a.hear(ctx, gone) }); err != nil {
		a.log.Error("word of a pod that went could not be heard", "why", err)
	}
	a.tellDisputes()

	there, err := a.quiverd.Objects(ctx)
	if err != nil {
		return err, nil
	}
	a.toNodes, a.looked = there.ToNodes, true
	// Without ranges, or the way to other nodes, it isn't known what the node shall have: nothing of it is changed.
	node, port, removable := &quiver.Config{}, &quiver.Config{}, there.Pods
	if a.pools != nil && a.paths != nil {
		node, port, removable = dataplane.Spare(a.node(), there.Others), dataplane.Spare(a.port(), there.Others), there.Ours()
	}
	all := &quiver.Config{}
	merge(all, node)
	merge(all, port)
	for _, record := range a.store.All() {
		merge(all, dataplane.Objects(record))
	}
	tenant := a.tenant(nil)
	merge(all, tenant)
	surplus := dataplane.Without(removable, dataplane.Refs(all))
	if !a.settings.Services {
		// An agent before this one may have kept them.
		vips, err := a.quiverd.VIPs(ctx)
		if err != nil {
			return err, nil
		}
		surplus = append(surplus, vips.Refs()...)
	}
	if a.guard == nil {
		lists, err := a.quiverd.ACLs(ctx, policy.Ours)
		if err != nil {
			return err, nil
		}
		surplus = append(surplus, lists.Refs()...)
	}
	for _, address := range dataplane.Hosts(dataplane.Without(there.Pods, dataplane.Refs(all))) {
		a.left[address] = true
	}
	err = a.quiverd.Apply(ctx, all, surplus)
	a.portAmiss = nil
	var refused *dataplane.RefusedError
	if !errors.As(err, &refused) {
		if err == nil {
			a.endLeft(ctx)
		}
		return err, nil
	}

	// One pod that can't be must not stand in the way of the others, nor the port on the uplink, without which the host's kernel carries its packets.
	if failed = a.quiverd.Apply(ctx, nil, surplus); failed == nil {
		a.endLeft(ctx)
	}
	failed = errors.Join(failed, a.quiverd.Apply(ctx, node, nil))
	for _, record := range a.store.All() {
		ofPods = errors.Join(ofPods, a.quiverd.Apply(ctx, dataplane.Objects(record), nil))
	}
	failed = errors.Join(failed, a.quiverd.Apply(ctx, tenant, nil))
	// Behind the tenant: what comes by it is looked at from its first packet on.
	a.portAmiss = a.quiverd.Apply(ctx, port, nil)
	return failed, ofPods
}

// hear is what comes of word that an attachment went. Whoever withdrew it may have been killed before its sessions were ended, and then nothing in
// quiverd tells of them.
func (a *Agent) hear(ctx context.Context, gone attachment.ID) error {
	if record := a.store.Get(gone); record != nil {
		for _, address := range record.Addresses {
			a.left[address] = true
		}
	}
	return a.forget(ctx, gone)
}

// tellDisputes lets everybody know who is left out, since another one has its address; once.
func (a *Agent) tellDisputes() {
	told := map[attachment.ID]string{}
	for _, one := range a.store.Disputes() {
		record, why := one.Record, one.String()
		if told[record.ID] = why; a.disputes[record.ID] == why {
			continue
		}
		a.log.Error("a pod has no network: delete it, so that it is made anew", "pod", record.Pod(), "interface", record.Interface, "why", why)
		if a.settings.Teller != nil && record.PodName != "" {
			pod := pods.ID{Namespace: record.PodNamespace, Name: record.PodName, UID: record.PodUID}
			a.settings.Teller.Tell(pod, false, "QuiverAddressTaken", why+"; this one has no network as long as that one is there: delete it, so that it is made anew")
		}
	}
	a.disputes = told
}

// node is what the dataplane has besides pods.
func (a *Agent) node() *quiver.Config {
	ranges := a.ranges()
	uplink := dataplane.Uplink{Device: a.settings.HostDevice}
	if a.paths == nil {
		return dataplane.Node(ranges, uplink)
	}
	uplink.MTU = a.paths.MTU
	node := dataplane.Node(ranges, uplink)
	if a.paths.Overlay != nil {
		merge(node, dataplane.Tunnels(a.paths.Overlay, ranges))
	}
	return node
}

// port is what it has for the port on the uplink, if there is one.
func (a *Agent) port() *quiver.Config {
	if a.paths == nil || a.paths.Port == nil {
		return &quiver.Config{}
	}
	return dataplane.Beside(a.paths.Port, a.ranges())
}

// ranges of addresses of this node's pods.
func (a *Agent) ranges() (all []dataplane.Range) {
	for _, pool := range a.pools {
		all = append(all, dataplane.Range{Prefix: pool.Prefix(), Gateway: pool.Gateway()})
	}
	return all
}

// tenant has the packets of all pods and of the host looked at for Services and policies, a pod that goes apart; nothing if neither is wanted.
func (a *Agent) tenant(gone *attachment.Record) *quiver.Config {
	if !a.settings.Services && a.guard == nil {
		return &quiver.Config{}
	}
	configs := []*quiver.Config{a.node(), a.port()}
	if a.paths == nil {
		// Those of an agent before this one go on being looked at.
		for _, name := range a.toNodes {
			configs = append(configs, &quiver.Config{Interfaces: []*quiver.Interface{{Name: name}}})
		}
	}
	for _, record := range a.store.All() {
		if gone == nil || record.ID != gone.ID {
			configs = append(configs, dataplane.Objects(record))
		}
	}
	return dataplane.Tenant(dataplane.Interfaces(configs...), a.settings.Services, a.guard != nil, a.settings.KeepSessions, a.settings.Sessions)
}

// tenantNow is the same, of a quiverd that may have interfaces to other nodes of which an agent that has just started doesn't know: what comes by them must go on being looked at.
func (a *Agent) tenantNow(ctx context.Context, gone *attachment.Record) (*quiver.Config, error) {
	if a.paths == nil && !a.looked {
		there, err := a.quiverd.Objects(ctx)
		if err != nil {
			return nil, err
		}
		a.toNodes, a.looked = there.ToNodes, true
	}
	return a.tenant(gone), nil
}

// withdraw takes the objects of an attachment away; what fails is made good by Reconcile.
func (a *Agent) withdraw(ctx context.Context, record *attachment.Record) {
	tenant, err := a.tenantNow(ctx, record)
	if err == nil {
		err = a.quiverd.Apply(ctx, tenant, dataplane.Refs(dataplane.Objects(record)))
	}
	// Nobody ends them any more: connections would be remembered for two hours, and be those of whoever has the address next.
	if err == nil && len(tenant.Tenants) > 0 {
		err = a.quiverd.EndSessions(ctx, record.Addresses)
	}
	if err != nil {
		a.log.Warn("left to be tidied up later", "pod", record.Pod(), "interface", record.Interface, "why", err)
		for _, address := range record.Addresses {
			a.left[address] = true
		}
	}
}

// endLeft ends the sessions of pods whose objects have gone in another way than by withdraw: they went while the agent or quiverd was away. What
// somebody has by now is left to him: see clear.
func (a *Agent) endLeft(ctx context.Context) {
	watched := len(a.tenant(nil).Tenants) > 0
	for address := range a.left {
		if watched && !a.store.InUse(address) {
			if err := a.quiverd.EndSessions(ctx, []netip.Addr{address}); err != nil {
				a.log.Warn("left to be tidied up later", "why", err)
				return
			}
		}
		delete(a.left, address)
	}
}

// clear ends what is left of sessions with addresses that somebody gets now: they would be his.
func (a *Agent) clear(ctx context.Context, record *attachment.Record) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	watched := len(a.tenant(nil).Tenants) > 0
	for _, address := range record.Addresses {
		if !a.left[address] {
			continue
		}
		if watched {
			if err := a.quiverd.EndSessions(ctx, []netip.Addr{address}); err != nil {
				return failure(codes.Unavailable, "see why quiverd doesn't answer", "%s: sessions of who had %s before: %v", record.Pod(), address, err)
			}
		}
		delete(a.left, address)
	}
	return nil
}

func merge(all, some *quiver.Config) {
	all.Vrfs = append(all.Vrfs, some.Vrfs...)
	all.Interfaces = append(all.Interfaces, some.Interfaces...)
	all.Routes = append(all.Routes, some.Routes...)
	all.Neighbors = append(all.Neighbors, some.Neighbors...)
	all.Tenants = append(all.Tenants, some.Tenants...)
}
