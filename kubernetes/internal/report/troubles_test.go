package report

import (
	"log/slog"
	"strings"
	"testing"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/pods"
)

func TestPodsAreToldOfTroublesOnce(t *testing.T) {
	told := &cluster{}
	reporter := New(nil, nil, told, slog.New(slog.DiscardHandler))
	known := &reported{troubles: map[string]counted{}}
	for _, step := range []struct {
		suspensions, removals uint64
		events                []string
	}{
		// What there was before the agent.
		{3, 1, nil},
		{3, 1, nil},
		{5, 1, []string{"QuiverOutputSuspended eth0: packets to the pod were dropped for a while (5 times by now), the last time for 4.0 s: too long"}},
		{5, 2, []string{"QuiverPortTakenAway eth0: its port was taken away, for a call to it didn't return (2 times by now): stuck"}},
		// The port is made anew.
		{0, 0, nil},
		{1, 1, []string{"QuiverOutputSuspended eth0", "QuiverPortTakenAway eth0"}},
	} {
		told.events = nil
		reporter.troubles(pods.ID{}, known, "eth0", &quiver.InterfaceState{
			OutputSuspensions: step.suspensions, LastOutputSuspension: "4.0 s: too long", Removals: step.removals, LastRemoval: "stuck",
		})
		if len(told.events) != len(step.events) {
			t.Fatalf("%d, %d: told %q", step.suspensions, step.removals, told.events)
		}
		for at, event := range step.events {
			if !strings.HasPrefix(told.events[at], event) {
				t.Errorf("%q isn't %q", told.events[at], event)
			}
		}
	}
}
