package report

import (
	"slices"

	"quiver/kubernetes/internal/annotation"
	"quiver/kubernetes/internal/attachment"
)

// edits are annotations of a pod that were changed after its network was made, which has no effect.
type edits struct {
	// The sandbox whose network it is: a pod may be given another one.
	of string
	// What its network was made by.
	made map[string]string
	// Values that were told of; "": it is gone.
	told map[string]string
}

// newEdits begins with what was told before, by whatever agent.
func newEdits(record *attachment.Record, now map[string]string, told []string) edits {
	e := edits{record.Container, record.Annotations, map[string]string{}}
	if e.made == nil {
		// An agent made it that kept no annotations: those that are there now are as good as any.
		e.made = annotation.Meant(now)
	}
	for _, key := range told {
		e.told[key] = now[key]
	}
	return e
}

// news are those that nobody was told of yet, in a fixed order.
func (e edits) news(now map[string]string) (news []string) {
	changed := annotation.Changed(e.made, now)
	for key := range e.told {
		if !slices.Contains(changed, key) {
			// As it was when the network was made: a change from here on is a new one.
			delete(e.told, key)
		}
	}
	for _, key := range changed {
		if value, told := e.told[key]; !told || value != now[key] {
			e.told[key] = now[key]
			news = append(news, key)
		}
	}
	return news
}

// keys are all those that say something else now.
func (e edits) keys() (all []string) {
	for key := range e.told {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}
