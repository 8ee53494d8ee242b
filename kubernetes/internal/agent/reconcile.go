package agent

import (
	"context"
	"errors"
	"net/netip"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
)

// Reconcile brings quiverd to what shall be, whatever it has now.
func (a *Agent) Reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if err := a.settings.Farewells.Each(a.store.Delete); err != nil {
		a.log.Error("word of a pod that went could not be heard", "why", err)
	}

	there, err := a.quiverd.Ours(ctx)
	if err != nil {
		return err
	}
	all, keep := &quiver.Config{}, dataplane.Refs(dataplane.Gateway(nil))
	if a.pools != nil {
		merge(all, a.gateway())
	}
	for _, record := range a.store.All() {
		merge(all, dataplane.Objects(record))
	}
	surplus := dataplane.Without(there, append(keep, dataplane.Refs(all)...))
	err = a.quiverd.Apply(ctx, all, surplus)
	var refused *dataplane.RefusedError
	if !errors.As(err, &refused) {
		return err
	}

	// One pod that can't be must not stand in the way of the others.
	failed := a.quiverd.Apply(ctx, nil, surplus)
	if a.pools != nil {
		failed = errors.Join(failed, a.quiverd.Apply(ctx, a.gateway(), nil))
	}
	for _, record := range a.store.All() {
		failed = errors.Join(failed, a.quiverd.Apply(ctx, dataplane.Objects(record), nil))
	}
	return failed
}

func (a *Agent) gateway() *quiver.Config {
	var addresses []netip.Addr
	for _, pool := range a.pools {
		addresses = append(addresses, pool.Gateway())
	}
	return dataplane.Gateway(addresses)
}

// withdraw takes the objects of an attachment away; what fails is made good by Reconcile.
func (a *Agent) withdraw(ctx context.Context, record *attachment.Record) {
	if err := a.quiverd.Apply(ctx, nil, dataplane.Refs(dataplane.Objects(record))); err != nil {
		a.log.Warn("left to be tidied up later", "pod", record.Pod(), "interface", record.Interface, "why", err)
	}
}

func merge(all, some *quiver.Config) {
	all.Interfaces = append(all.Interfaces, some.Interfaces...)
	all.Routes = append(all.Routes, some.Routes...)
	all.Neighbors = append(all.Neighbors, some.Neighbors...)
}
