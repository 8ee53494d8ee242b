package report

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"quiver/kubernetes/internal/annotation"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/pods"
)

const (
	// This often quiverd is asked.
	every = 5 * time.Second
	// At most this often a pod is written to, however often its application comes and goes, and this many are at a time.
	rest = 10 * time.Second
	most = 20
	// At most this long one round takes.
	patience = 20 * time.Second
)

// Dataplane knows interfaces as they are.
type Dataplane interface {
	// Interfaces are all, by name.
	Interfaces(ctx context.Context) (map[string]*quiver.InterfaceState, error)
	// Memifs of all, by name of the interface.
	Memifs(ctx context.Context) (map[string]*quiver.MemifState, error)
}

// Pods are written to.
type Pods interface {
	// Annotations of a pod. Given are those that came with the request.
	Annotations(ctx context.Context, pod pods.ID, given map[string]string) (map[string]string, error)
	// Seen are the annotations of a pod as they are at this moment, as far as it is known without asking.
	Seen(pod pods.ID) (annotations map[string]string, known bool)
	// Annotate has a pod have an annotation.
	Annotate(ctx context.Context, pod pods.ID, key, value string) error
	// Tell has an event written, and doesn't wait for that.
	Tell(pod pods.ID, well bool, reason, message string)
}

// Attachments are what there is to tell of.
type Attachments interface {
	// Attachments are all on this node. Nobody changes them.
	Attachments() []*attachment.Record
	// KeepAnnotations keeps of the attachment that has been there since then by which annotations it was made, and what was told of their changes.
	KeepAnnotations(id attachment.ID, since time.Time, made, told map[string]string) error
}

// Reporter keeps annotations.
type Reporter struct {
	attachments Attachments
	dataplane   Dataplane
	pods        Pods
	log         *slog.Logger

	known map[pods.ID]*reported
}

// reported is what a pod has been told.
type reported struct {
	text   string
	when   time.Time
	memifs map[string]*seen
	// By interface, as its owner knows it.
	troubles map[string]counted
	edits    edits
	// Its last write failed so; and that of what it was told.
	failure, unkept string
}

// seen is a memif as it was last.
type seen struct {
	connected bool
	since     *time.Time
	connects  uint64
	// What was told of it.
	told bool
}

// New makes one for the attachments that there are whenever it asks.
func New(attachments Attachments, dataplane Dataplane, pods_ Pods, log *slog.Logger) *Reporter {
	return &Reporter{attachments, dataplane, pods_, log, map[pods.ID]*reported{}}
}

// Run reports until the context ends.
func (r *Reporter) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.round(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

// round tells what has changed. While quiverd doesn't answer nothing is known, and nothing told.
func (r *Reporter) round(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	devices, err := r.dataplane.Interfaces(ctx)
	if err != nil {
		return
	}
	memifs, err := r.dataplane.Memifs(ctx)
	if err != nil {
		return
	}
	has := running{devices, memifs}
	of := map[pods.ID][]*attachment.Record{}
	for _, record := range r.attachments.Attachments() {
		if record.PodName != "" {
			id := pods.ID{Namespace: record.PodNamespace, Name: record.PodName, UID: record.PodUID}
			of[id] = append(of[id], record)
		}
	}
	for id := range r.known {
		if of[id] == nil {
			delete(r.known, id)
		}
	}
	written := 0
	for id, records := range of {
		if written < most && r.pod(ctx, id, records, has, now) {
			written++
		}
	}
}

// pod tells one, if there is something new and it hasn't just been told; true: it tried.
func (r *Reporter) pod(ctx context.Context, id pods.ID, records []*attachment.Record, has running, now time.Time) bool {
	newest := slices.MaxFunc(records, func(a, b *attachment.Record) int { return a.Since.Compare(b.Since) })
	known := r.known[id]
	if known == nil {
		annotations, err := r.pods.Annotations(ctx, id, nil)
		if err != nil {
			return true
		}
		text := annotations[Annotation]
		known = &reported{text: text, memifs: map[string]*seen{}, troubles: map[string]counted{}, edits: newEdits(newest, annotations, read(text).Changed)}
		r.known[id] = known
	}
	if annotations, is := r.pods.Seen(id); is {
		if !known.edits.about(newest) {
			known.edits = known.edits.after(newest, annotations)
		}
		for _, key := range known.edits.news(annotations) {
			r.pods.Tell(id, false, "QuiverChangeIgnored", fmt.Sprintf(
				"annotation %s was changed after the pod's network was made, which has no effect: delete the pod, so that it is made anew", key))
		}
		if err := known.edits.keep(r.attachments.KeepAnnotations); err == nil {
			known.unkept = ""
		} else if known.unkept != err.Error() {
			known.unkept = err.Error()
			r.log.Warn("what a pod was told of its annotations isn't kept; trying again", "pod", id.Namespace+"/"+id.Name, "why", err)
		}
	}
	slices.SortFunc(records, func(a, b *attachment.Record) int { return strings.Compare(a.Interface, b.Interface) })
	var all []Interface
	for _, record := range records {
		some := has.of(record)
		if some == nil {
			// It is about to have them, or is told of otherwise why it hasn't.
			return false
		}
		for i := range some {
			if some[i].Memif != nil {
				known.follow(&some[i], has.memifs[dataplane.MemifName(record)], now)
			}
		}
		all = append(all, some...)
		r.troubles(id, known, record.Interface, has.interfaces[dataplane.TunName(record)])
		if record.Memif != nil {
			r.troubles(id, known, "memif-"+record.Interface, has.interfaces[dataplane.MemifName(record)])
		}
	}
	wanted := status{all, known.edits.keys()}.text()
	if now.Sub(known.when) < rest {
		return false
	}
	// Somebody else may have written it: in so much time our own write has been seen.
	there := known.text
	if annotations, is := r.pods.Seen(id); is {
		there = annotations[Annotation]
	}
	if wanted == known.text && wanted == there {
		return false
	}
	known.when = now
	if err := r.pods.Annotate(ctx, id, Annotation, wanted); err != nil {
		if known.failure != err.Error() {
			known.failure = err.Error()
			r.log.Warn("a pod isn't told what it has; trying again", "pod", id.Namespace+"/"+id.Name, "why", err)
		}
		return true
	}
	known.text, known.failure = wanted, ""
	for _, one := range all {
		if one.Memif != nil {
			r.event(id, one, known.memifs[one.Name])
		}
	}
	return true
}

// follow tells since when a memif is as it is.
func (k *reported) follow(one *Interface, state *quiver.MemifState, now time.Time) {
	last, now := k.memifs[one.Name], now.UTC().Truncate(time.Second)
	switch {
	case last == nil:
		// An agent before this one may have told.
		last = &seen{connects: state.GetConnects()}
		if told := read(k.text).memif(one.Name); told != nil {
			last.since, last.connected, last.told = told.Since, told.Connected, told.Connected
		}
		k.memifs[one.Name] = last
		if last.connected != one.Connected {
			last.connected, last.since = one.Connected, &now
		}
	case last.connected != one.Connected || last.connects != state.GetConnects() && one.Connected:
		last.connected, last.since, last.connects = one.Connected, &now, state.GetConnects()
	}
	if !one.Connected && last.since != nil && state.GetLastDisconnectNs() > 0 {
		ended := time.Unix(0, int64(state.GetLastDisconnectNs())).UTC().Truncate(time.Second)
		last.since = &ended
	}
	one.Since = last.since
}

// event tells that an application has come or gone, if that is new.
func (r *Reporter) event(id pods.ID, one Interface, last *seen) {
	if one.Connected == last.told {
		return
	}
	last.told = one.Connected
	if one.Connected {
		r.pods.Tell(id, true, "QuiverMemifConnected", fmt.Sprintf("%s: application %q is connected: %s, rings of %d, mode %s",
			one.Name, one.Peer, annotation.Queues(one.RxQueues, one.TxQueues), one.RingSize, one.Mode))
		return
	}
	why := ""
	if one.LastDisconnect != "" {
		why = ": " + one.LastDisconnect
	}
	where := "its ports go to " + one.Fallback
	if one.Fallback == "drop" {
		where = "what is for its ports is dropped"
	}
	r.pods.Tell(id, true, "QuiverMemifDisconnected", one.Name+": no application is connected any more"+why+"; "+where)
}
