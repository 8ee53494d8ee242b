package dataplane

import (
	"fmt"
	"slices"
	"strings"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// Limits of sessions, as quiverd takes them.
const (
	DefaultMaxSessions   = 1_000_000
	MostSessions         = 1 << 28
	MostSessionsOfSource = 1<<24 - 1
)

// One source has this part of all sessions at most, unless something else is said: so no pod keeps all others of the node from beginning some.
const partOfSource = 4

// SessionServices are those that sessions of pods may pass besides what the agent needs for Services and policies: they need nothing that would have to be said.
var SessionServices = []string{"tcp-check", "session-stats"}

// Sessions of pods, and of whoever speaks with them.
type Sessions struct {
	// Max is how many there may be on a node; 0: as many as by default.
	Max uint32
	// MaxOfSource is how many of them one address may have begun, 0: all; nil: a quarter.
	MaxOfSource *uint32
	// Services that they pass, of SessionServices.
	Services []string
	// Keep has those go on that policies don't permit any more: what is new decides on new ones alone.
	Keep bool
}

// ParseSessionServices reads names of SessionServices, separated by commas.
func ParseSessionServices(text string) (all []string, err error) {
	for name := range strings.SplitSeq(text, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case !slices.Contains(SessionServices, name):
			return nil, fmt.Errorf("service %q: take some of %s", name, strings.Join(SessionServices, ", "))
		case slices.Contains(all, name):
			return nil, fmt.Errorf("service %q: is there twice; leave one out", name)
		default:
			all = append(all, name)
		}
	}
	return all, nil
}

// limit tells the tenant how many there may be.
func (s *Sessions) limit(tenant *quiver.Tenant) {
	most := s.Max
	if most == 0 {
		most = DefaultMaxSessions
	}
	tenant.MaxSessions = most
	if s.MaxOfSource != nil {
		tenant.MaxSessionsPerSource = *s.MaxOfSource
	} else {
		tenant.MaxSessionsPerSource = min(max(most/partOfSource, 1), MostSessionsOfSource)
	}
	if tenant.MaxSessionsPerSource > 0 {
		// Pods of a node share their link's prefix, and each has an address of its own.
		tenant.SourceIpv6PrefixLength = 128
	}
}
