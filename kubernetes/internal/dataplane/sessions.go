package dataplane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// Limits of sessions, as quiverd takes them.
const (
	DefaultMaxSessions   = 1_000_000
	MostSessions         = 1 << 28
	MostSessionsOfSource = 1<<24 - 1
)

// SessionServices are those that sessions of pods may pass besides what the agent needs for Services and policies: they need nothing that would have to be said.
var SessionServices = []string{"tcp-check", "session-stats"}

// Sessions of pods, and of whoever speaks with them.
type Sessions struct {
	// Max is how many there may be on a node; 0: as many as by default.
	Max uint32
	// MaxOfSource is how many of them one address may have begun; 0: all.
	MaxOfSource uint32
	// AllSources has those of all addresses counted, not only of the node's own pods. One may be that of many: of all processes of a node, kubelet among
	// them, or of all clients that come in at another node.
	AllSources bool
	// Services that they pass, of SessionServices.
	Services []string
}

// SetMax reads how many there may be.
func (s *Sessions) SetMax(text string) (err error) {
	s.Max, err = number(text, 1, MostSessions)
	return err
}

// SetMaxOfSource reads how many of them one address may have begun.
func (s *Sessions) SetMaxOfSource(text string) (err error) {
	s.MaxOfSource, err = number(text, 0, MostSessionsOfSource)
	return err
}

// SetSources reads whose are counted.
func (s *Sessions) SetSources(text string) error {
	if text != "pods" && text != "all" {
		return fmt.Errorf("%q: take pods or all", text)
	}
	s.AllSources = text == "all"
	return nil
}

// SetServices says which they pass.
func (s *Sessions) SetServices(names []string) error {
	var all []string
	for _, name := range names {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case !slices.Contains(SessionServices, name):
			return fmt.Errorf("service %q: take some of %s", name, strings.Join(SessionServices, ", "))
		case slices.Contains(all, name):
			return fmt.Errorf("service %q: is there twice; leave one out", name)
		default:
			all = append(all, name)
		}
	}
	s.Services = all
	return nil
}

func number(text string, least, most uint64) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: take %d to %d", text, least, most)
	}
	return uint32(n), nil
}

// most are how many there may be, and how many of one source; 0: all.
func (s *Sessions) most() (all, ofSource uint32) {
	all = s.Max
	if all == 0 {
		all = DefaultMaxSessions
	}
	return all, s.MaxOfSource
}

// String is for logs.
func (s Sessions) String() string {
	all, ofSource := s.most()
	source := "pod"
	if s.AllSources {
		source = "source"
	}
	return fmt.Sprintf("%d, of one %s %d, by %s", all, source, ofSource, s.Services)
}

// limit tells the tenant how many there may be.
func (s *Sessions) limit(tenant *quiver.Tenant) {
	tenant.MaxSessions, tenant.MaxSessionsPerSource = s.most()
	if tenant.MaxSessionsPerSource == 0 {
		return
	}
	// Pods of a node share their link's prefix, and each has an address of its own.
	tenant.SourceIpv6PrefixLength = 128
	if !s.AllSources {
		// Pods of other nodes are counted there.
		tenant.SourceExemptInterfaces = slices.DeleteFunc(slices.Clone(tenant.Interfaces), isPods)
	}
}
