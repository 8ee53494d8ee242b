package report

import (
	"fmt"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/pods"
)

// counted is what was told of an interface's troubles: by quiverd's counters, which begin anew with it.
type counted struct {
	suspensions, removals uint64
}

// troubles tells a pod's owner that nothing was sent to one of its interfaces for a while, or that its port was taken away, since it was looked at last.
func (r *Reporter) troubles(id pods.ID, known *reported, name string, state *quiver.InterfaceState) {
	now := counted{state.GetOutputSuspensions(), state.GetRemovals()}
	last, seen := known.troubles[name]
	known.troubles[name] = now
	if !seen {
		// An agent before this one may have told.
		return
	}
	if now.suspensions > last.suspensions {
		r.pods.Tell(id, false, "QuiverOutputSuspended", fmt.Sprintf(
			"%s: packets to the pod were dropped for a while (%d times by now), the last time for %s; look for packet filters, sockets or watchers in the pod that make receiving slow",
			name, now.suspensions, state.GetLastOutputSuspension()))
	}
	if now.removals > last.removals {
		r.pods.Tell(id, false, "QuiverPortTakenAway", fmt.Sprintf(
			"%s: its port was taken away, for a call to it didn't return (%d times by now): %s; after three times within a minute it stays closed until the pod is made anew",
			name, now.removals, state.GetLastRemoval()))
	}
}
