package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"quiver/kubernetes/internal/dataplane"
)

var errNoPaths = errors.New("it isn't known yet how other nodes are reached, and by which MTU")

// Follow has quiverd go the ways to other nodes, where they are news. That single pods can't be, since their namespaces went with an earlier life
// of the node, doesn't matter here: else the node wouldn't be ready before the runtime has deleted the last of them.
func (a *Agent) Follow(ctx context.Context, paths dataplane.Paths) error {
	changed, err := a.SetPaths(paths)
	if err != nil || !changed {
		return err
	}
	failed, ofPods := a.compare(ctx)
	if ofPods != nil {
		a.log.Warn("not all pods are what they shall be", "why", ofPods)
	}
	return failed
}

// SetPaths tells how other nodes are reached, and is told whether that is any news, so that quiverd has to be brought there. Pods that are here already
// get the new MTU, too.
func (a *Agent) SetPaths(paths dataplane.Paths) (changed bool, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	changed = a.paths == nil || !reflect.DeepEqual(*a.paths, paths) || cmp.Or(a.compared, a.portAmiss) != nil
	a.paths = &paths
	for _, record := range a.store.All() {
		if record.MTU == paths.MTU {
			continue
		}
		// Others may be reading the one that there was.
		resized := *record
		resized.MTU = paths.MTU
		if err := a.store.Put(&resized); err != nil {
			return true, fmt.Errorf("%s: MTU %d: %w", record.Pod(), paths.MTU, err)
		}
		changed = true
		a.log.Info("another MTU", "pod", record.Pod(), "interface", record.Interface, "mtu", paths.MTU, "before", record.MTU)
	}
	return changed, nil
}

// Port is nil when other nodes' pods are reached by the port on the uplink that the last Follow told of.
func (a *Agent) Port(ctx context.Context) error {
	a.mutex.Lock()
	amiss := a.portAmiss
	a.mutex.Unlock()
	if amiss != nil {
		return amiss
	}
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	return a.quiverd.Port(ctx)
}
