package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/health"
)

var errNotCompared = errors.New("quiverd hasn't been told yet what shall be")

// Ready tells whether pods' packets are forwarded: there are addresses, quiverd has what it shall have, all of its workers go on, and it answers a ping that the
// host sends through its device towards pods. (The worker that answers isn't the one of every pod.)
func (a *Agent) Ready(ctx context.Context) error {
	if _, err := a.Status(ctx, &agentv1.StatusRequest{}); err != nil {
		return err
	}
	routers, err := a.routers()
	if err != nil {
		return fmt.Errorf("not everything is as it shall be: %w", err)
	}
	for what, keeper := range a.beside() {
		if err := keeper.Ready(); err != nil {
			return fmt.Errorf("not all %s are as they shall be: %w", what, err)
		}
	}
	if err := a.goesOn(ctx); err != nil {
		return err
	}
	if a.settings.HostDevice == "" {
		// The host has no way to pods by which it could ask.
		return nil
	}
	return health.Forwards(ctx, routers)
}

// Warning is what whoever looks after the node should know though it is ready; nil: nothing.
func (a *Agent) Warning() error {
	if a.ways == nil {
		return nil
	}
	return a.ways.Warning()
}

// goesOn is nil when no worker of quiverd stands still.
func (a *Agent) goesOn(ctx context.Context) error {
	// (There is to be time for the ping, too.)
	ctx, cancel := context.WithTimeout(ctx, statusTime/2)
	defer cancel()
	return a.quiverd.Standstill(ctx)
}

// routers are the addresses that quiverd has in each range; an error if it wasn't brought to what shall be.
func (a *Agent) routers() (addresses []netip.Addr, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, pool := range a.pools {
		addresses = append(addresses, pool.Gateway())
	}
	return addresses, a.compared
}
