package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"google.golang.org/grpc/codes"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/health"
)

var (
	errNotCompared = errors.New("quiverd hasn't been told yet what shall be")
	errBusy        = failure(codes.Unavailable, "wait", "how the node is can't be told: the agent is busy with a change that takes long")
)

// Ready tells whether pods' packets are forwarded: there are addresses, quiverd has what it shall have, all of its workers go on, and it answers pings that the
// host sends through its device towards pods, in each family. (The worker that answers isn't the one of every pod.)
func (a *Agent) Ready(ctx context.Context) error { return a.forwards(ctx, a.beside()) }

// Serves tells whether who asks for a Service at this node is led to its pods: all of Ready, but for what is between nodes, and policies. A node that the others
// can't reach must not have load balancers turn away from all of them.
func (a *Agent) Serves(ctx context.Context) error {
	keepers := map[string]Keeper{}
	if a.services != nil {
		keepers["Services"] = a.services
	}
	return a.forwards(ctx, keepers)
}

// forwards is Ready as far as these keepers are concerned.
func (a *Agent) forwards(ctx context.Context, keepers map[string]Keeper) error {
	if _, err := a.Status(ctx, &agentv1.StatusRequest{}); err != nil {
		return err
	}
	routers, err := a.routers(ctx)
	if errors.Is(err, errBusy) {
		return err
	}
	if err != nil {
		return fmt.Errorf("not everything is as it shall be: %w", err)
	}
	for what, keeper := range keepers {
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

// Well is what a node does that is ready.
func (a *Agent) Well() string { return "forwarding" }

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
func (a *Agent) routers(ctx context.Context) (addresses []netip.Addr, err error) {
	if a.mutex.LockUntil(ctx) != nil {
		return nil, errBusy
	}
	defer a.mutex.Unlock()
	for _, pool := range a.pools {
		addresses = append(addresses, pool.Gateway())
	}
	return addresses, a.compared
}
