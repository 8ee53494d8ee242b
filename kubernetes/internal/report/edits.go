package report

import (
	"maps"
	"slices"
	"time"

	"quiver/kubernetes/internal/annotation"
	"quiver/kubernetes/internal/attachment"
)

// What no annotation says: in the place of what one said that isn't known any more.
const forgotten = "\x00"

// edits are annotations of a pod that were changed after its network was made, which has no effect.
type edits struct {
	// The attachment whose network it is, and since when: a pod may be given another one, also of the same ID.
	of    attachment.ID
	since time.Time
	// What its network was made by.
	made map[string]string
	// Values that were told of; "": it is gone.
	told map[string]string
	// The record has both.
	kept bool
}

// newEdits begins with what was told before, by whatever agent: with what the record says of that, or else the pod's status.
func newEdits(record *attachment.Record, now map[string]string, changed []string) edits {
	e := edits{record.ID, record.Since, maps.Clone(record.Annotations), maps.Clone(record.Told), record.Annotations != nil}
	if e.made == nil {
		// An agent made it that kept no annotations: those that are there now are as good as any, but for those that it found changed.
		e.made = annotation.Meant(now)
		for _, key := range changed {
			e.made[key] = forgotten
		}
	}
	if e.told == nil {
		e.told = map[string]string{}
		for _, key := range changed {
			e.told[key], e.kept = now[key], false
		}
	}
	return e
}

// after are those of an attachment that is the newest now. Where that is since a newer one went, its pod's owner was told of what is so already.
func (e *edits) after(record *attachment.Record, now map[string]string) edits {
	next := newEdits(record, now, nil)
	if record.Since.Before(e.since) && len(e.told) > 0 {
		maps.Copy(next.told, e.told)
		next.kept = false
	}
	return next
}

// about tells whether they are those of an attachment.
func (e *edits) about(record *attachment.Record) bool {
	return e.of == record.ID && e.since.Equal(record.Since)
}

// news are those that nobody was told of yet, in a fixed order.
func (e *edits) news(now map[string]string) (news []string) {
	changed := annotation.Changed(e.made, now)
	for key := range e.told {
		if !slices.Contains(changed, key) {
			// As it was when the network was made: a change from here on is a new one.
			delete(e.told, key)
			e.kept = false
		}
	}
	for _, key := range changed {
		if value, told := e.told[key]; !told || value != now[key] {
			e.told[key], e.kept = now[key], false
			news = append(news, key)
		}
	}
	return news
}

// keep has the record have what another agent has to know, after it was handed over to be told. Neither waits for the other: an event that the API server
// doesn't take before the agent ends is lost, and what couldn't be kept until then is told again by the next one. `changed` of the pod's status is so in any case.
func (e *edits) keep(write func(id attachment.ID, since time.Time, made, told map[string]string) error) error {
	if e.kept {
		return nil
	}
	err := write(e.of, e.since, maps.Clone(e.made), maps.Clone(e.told))
	e.kept = err == nil
	return err
}

// keys are all those that say something else now.
func (e *edits) keys() []string { return slices.Sorted(maps.Keys(e.told)) }
