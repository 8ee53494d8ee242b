package report

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
)

const (
	portsKey = "cni.projectcalico.org/vppExtraMemifPorts"
	specKey  = "quiver.io/extraMemifSpec"
)

// place is a pod with a reporter, and a clock.
type place struct {
	*testing.T
	told   *cluster
	record *attachment.Record
	has    *states
	now    time.Time
	fails  error
	*Reporter
}

func (p *place) Attachments() []*attachment.Record { return []*attachment.Record{p.record} }

func (p *place) KeepAnnotations(id attachment.ID, since time.Time, made, told map[string]string) error {
	if p.fails != nil {
		return p.fails
	}
	if id != p.record.ID || !since.Equal(p.record.Since) {
		p.Errorf("kept of %s since %s", id, since)
	}
	kept := *p.record
	kept.Annotations, kept.Told = made, told
	p.record = &kept
	return nil
}

func newPlace(t *testing.T, made, now map[string]string) *place {
	record := web(false)
	record.Annotations = made
	p := &place{T: t, told: &cluster{annotations: now}, record: record, has: &states{dataplane.MemifName(record): {}}}
	p.begin()
	return p
}

// begin has an agent begin anew.
func (p *place) begin() {
	p.Reporter = New(p, p.has, p.told, slog.New(slog.DiscardHandler))
}

// expect judges of which annotations there are events after two more looks, and which are said to be changed.
func (p *place) expect(what, changed string, keys ...string) {
	p.Helper()
	for range 2 {
		p.now = p.now.Add(rest)
		p.round(p.Context(), p.now)
	}
	var want []string
	for _, key := range keys {
		want = append(want, "QuiverChangeIgnored annotation "+key+
			" was changed after the pod's network was made, which has no effect: delete the pod, so that it is made anew")
	}
	if !slices.Equal(p.told.events, want) {
		p.Errorf("%s: told %q, want %q", what, p.told.events, want)
	}
	p.told.events = nil
	if status := read(p.told.annotations[Annotation]); strings.Join(status.Changed, " ") != changed || len(status.Interfaces) != 2 {
		p.Errorf("%s: %s", what, p.told.annotations[Annotation])
	}
}

func TestAChangeOfAnAnnotationIsToldOnce(t *testing.T) {
	now := map[string]string{portsKey: "tcp:80", "example.com/x": "1"}
	p := newPlace(t, map[string]string{portsKey: "tcp:80"}, now)
	p.expect("as it was made", "")
	now["example.com/x"], now[portsKey] = "2", " tcp:80 "
	p.expect("others, and blanks", "")
	now[portsKey] = "tcp:81"
	p.expect("changed", portsKey, portsKey)
	now[portsKey] = "tcp:82"
	p.expect("changed again", portsKey, portsKey)
	now[specKey] = `{"rx": 2}`
	p.expect("another is new", portsKey+" "+specKey, specKey)
	p.begin()
	p.expect("another agent", portsKey+" "+specKey)
	delete(now, specKey)
	now[portsKey] = "tcp:80"
	p.expect("as it was made, again", "")
	delete(now, portsKey)
	p.expect("gone", portsKey, portsKey)
}

// The runtime makes another sandbox for the same pod, by what is asked for by then.
func TestAPodWhoseNetworkIsMadeAnewHasWhatItAsksFor(t *testing.T) {
	now := map[string]string{portsKey: "tcp:80"}
	p := newPlace(t, map[string]string{portsKey: "tcp:80"}, now)
	now[portsKey] = "tcp:81"
	p.expect("changed", portsKey, portsKey)
	made := func(container, ports string) {
		anew := *p.record
		anew.Container, anew.Annotations, anew.Told, anew.Since = container, map[string]string{portsKey: ports}, nil, p.record.Since.Add(time.Second)
		p.record = &anew
		p.has = &states{dataplane.MemifName(p.record): {}}
		p.Reporter.dataplane = p.has
	}
	made("d", "tcp:81")
	p.expect("made anew", "")
	now[portsKey] = "tcp:82"
	p.expect("changed again", portsKey, portsKey)
	made("d", "tcp:82")
	p.expect("made anew under the same ID", "")
	now[portsKey] = "tcp:80"
	p.expect("changed back", portsKey, portsKey)
}

// A pod may have several attachments, the newest of which counts.
func TestWhatWasToldIsKnownWhenTheNewestOfSeveralGoes(t *testing.T) {
	now := map[string]string{portsKey: "tcp:80"}
	p := newPlace(t, map[string]string{portsKey: "tcp:80"}, now)
	older := *p.record
	newer := older
	newer.Container, newer.Since = "d", older.Since.Add(time.Second)
	p.record = &newer
	p.has = &states{dataplane.MemifName(p.record): {}}
	p.Reporter.dataplane = p.has
	now[portsKey] = "tcp:81"
	p.expect("changed", portsKey, portsKey)
	p.record = &older
	p.has = &states{dataplane.MemifName(p.record): {}}
	p.Reporter.dataplane = p.has
	p.expect("the newest went", portsKey)
	p.begin()
	p.expect("another agent", portsKey)
	now[portsKey] = "tcp:82"
	p.expect("changed again", portsKey, portsKey)
}

func TestAChangeWhileThereWasNoAgentIsTold(t *testing.T) {
	now := map[string]string{portsKey: "tcp:80"}
	p := newPlace(t, map[string]string{}, now)
	p.expect("new", portsKey, portsKey)
	// Also a second one of the same annotation.
	now[portsKey] = "tcp:81"
	p.begin()
	p.expect("changed again", portsKey, portsKey)
	now[specKey] = "{}"
	p.begin()
	p.expect("another is new", portsKey+" "+specKey, specKey)
	delete(now, specKey)
	p.begin()
	p.expect("as it was made", portsKey)
	now[specKey] = "{}"
	p.begin()
	p.expect("new again", portsKey+" "+specKey, specKey)
}

// (Another agent that comes meanwhile would tell it again.)
func TestWhatCanNotBeKeptIsToldAndKeptLater(t *testing.T) {
	now := map[string]string{portsKey: "tcp:81"}
	p := newPlace(t, map[string]string{portsKey: "tcp:80"}, now)
	p.fails = errors.New("disk full")
	p.expect("changed", portsKey, portsKey)
	p.fails = nil
	p.expect("kept", portsKey)
	now[portsKey] = "tcp:82"
	p.begin()
	p.expect("changed again", portsKey, portsKey)
}

// Records of agents that kept no annotations: what there is when the next one comes is taken for what the pod was made by.
func TestOfWhatAnOlderAgentMadeOnlyLaterChangesAreTold(t *testing.T) {
	now := map[string]string{portsKey: "tcp:80"}
	p := newPlace(t, nil, now)
	p.expect("as found", "")
	now[portsKey] = "tcp:81"
	p.expect("changed", portsKey, portsKey)
	p.begin()
	p.expect("another agent", portsKey)
	now[portsKey] = "tcp:80"
	p.expect("as found, again", "")
	now[portsKey] = "tcp:82"
	p.begin()
	p.expect("changed while there was no agent", portsKey, portsKey)
}

// An agent that kept nothing told of changes in the status: they go on to be ones, though what they have been from isn't known.
func TestWhatAnOlderAgentFoundChangedIsSo(t *testing.T) {
	for _, now := range []map[string]string{{portsKey: "tcp:81"}, {}} {
		now[Annotation] = `{"interfaces":[],"changed":["` + portsKey + `"]}`
		p := newPlace(t, nil, now)
		p.expect("as found", portsKey)
		p.begin()
		p.expect("another agent", portsKey)
		now[portsKey] = "tcp:82"
		p.expect("changed again", portsKey, portsKey)
	}
}
