package agent

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"quiver/kubernetes/internal/annotation"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/pods"
)

// Add gives a pod its interfaces.
func (a *Agent) Add(ctx context.Context, request *agentv1.AddRequest) (*agentv1.AddResponse, error) {
	id := idOf(request.Attachment)
	if _, err := os.Stat(request.Netns); err != nil {
		return nil, failure(codes.InvalidArgument, "let the runtime make the pod anew", "network namespace %s of %s: %v", request.Netns, id, err)
	}
	if err := a.waitForNode(ctx, id); err != nil {
		return nil, err
	}
	// First, since annotations are for who is made: what an agent before this one took from them stays, whatever this one permits.
	if response, known, err := a.again(ctx, id, request); known || err != nil {
		return response, err
	}
	pod := pods.ID{Namespace: request.PodNamespace, Name: request.PodName, UID: request.PodUid}
	asked, by, err := a.read(ctx, id, pod, request)
	if err != nil {
		return nil, err
	}

	a.mutex.Lock()
	defer a.mutex.Unlock()
	if response, known, err := a.known(ctx, id, request); known || err != nil {
		return response, err
	}
	if err := a.prepared(); err != nil {
		return nil, err
	}
	record := &attachment.Record{
		ID: id, Netns: request.Netns, Network: request.Network, PodNamespace: pod.Namespace, PodName: pod.Name, PodUID: pod.UID, MTU: a.paths.MTU, Tun: asked.Tun, Memif: asked.Memif, Sources: asked.Sources, Annotations: by,
	}
	if err := a.claim(record, request.HostPorts); err != nil {
		return nil, err
	}
	if err := a.allocate(record); err != nil {
		return nil, err
	}
	if err := a.clear(ctx, record); err != nil {
		return nil, err
	}
	// First to disk: an agent that is killed here knows what to finish or to undo.
	if err := a.store.Put(record); err != nil {
		return nil, failure(codes.Unavailable, "see whether the disk is full", "%s: %v", record.Pod(), err)
	}
	err = a.cover(ctx, record)
	if err == nil {
		err = a.program(ctx, record)
	}
	if err != nil {
		a.undo(ctx, record)
		if undone := a.store.Delete(id); undone != nil {
			a.log.Error("an address stays in use", "pod", record.Pod(), "why", undone)
		}
		a.uncover(record)
		return nil, err
	}
	a.ported(record)
	if words := strings.Join(asked.Ignored, "; "); words != "" {
		a.log.Warn("not all that a pod asks for has an effect", "pod", record.Pod(), "why", words)
		if a.settings.Teller != nil && pod.Name != "" {
			a.settings.Teller.Tell(pod, false, "QuiverIgnored", words)
		}
	}
	a.log.Info("added", "pod", record.Pod(), "interface", id.Interface, "addresses", record.Addresses, "memif", record.Memif != nil)
	return answer(record), nil
}

// read reads what a pod asks for, and by which annotations.
func (a *Agent) read(ctx context.Context, id attachment.ID, pod pods.ID, request *agentv1.AddRequest) (asked *annotation.Pod, by map[string]string, err error) {
	annotations, err := a.pods.Annotations(ctx, pod, request.Annotations)
	var gone *pods.GoneError
	if errors.As(err, &gone) {
		return nil, nil, failure(codes.InvalidArgument, "nothing: it was deleted, or is made anew under another UID", "%v", err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("the API server doesn't answer")
	}
	if err != nil {
		return nil, nil, failure(codes.Unavailable, "see whether this node reaches the API server", "annotations of pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	asked, err = annotation.Read(annotations, id.Interface, a.defaults())
	if err != nil {
		var fault *annotation.Error
		errors.As(err, &fault)
		return nil, nil, failure(codes.InvalidArgument, fault.Remedy, "pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return asked, annotation.Meant(annotations), nil
}

// again is known by itself.
func (a *Agent) again(ctx context.Context, id attachment.ID, request *agentv1.AddRequest) (response *agentv1.AddResponse, known bool, err error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.known(ctx, id, request)
}

// known answers for an attachment that is there already; false: there is none.
func (a *Agent) known(ctx context.Context, id attachment.ID, request *agentv1.AddRequest) (response *agentv1.AddResponse, known bool, err error) {
	// Others were first, and may have waited for somebody: a pod that nobody asks for any more isn't made.
	if err := ctx.Err(); err != nil {
		return nil, false, failure(codes.Unavailable, "see what ails quiverd, or the API server", "%s waited for others until its time was over", id)
	}
	// The runtime may use a name again of which word was left that it went.
	if err := a.settings.Farewells.Each(func(gone attachment.ID) error { return a.remove(ctx, gone) }); err != nil {
		a.log.Error("word of a pod that went could not be heard", "why", err)
	}
	if one, is := a.store.Disputed(id); is {
		return nil, false, failure(codes.FailedPrecondition, "delete it, so that it is made anew", "%s: %s", one.Record.Pod(), one)
	}
	record := a.store.Get(id)
	if record == nil {
		return nil, false, nil
	}
	if record.Netns != request.Netns {
		return nil, false, failure(codes.InvalidArgument, "delete it first", "%s is there already, in network namespace %s", id, record.Netns)
	}
	// Asked again, since the answer was lost.
	return answer(record), true, a.program(ctx, record)
}

// cover has an attachment guarded before anything can reach it.
func (a *Agent) cover(ctx context.Context, record *attachment.Record) error {
	if a.guard == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	if err := a.guard.Cover(ctx, podOf(record), record.PodUID, a.addresses(record)); err != nil {
		return failure(codes.Unavailable, "see whether this node reaches the API server, and quiverd answers", "%s: NetworkPolicies: %v", record.Pod(), err)
	}
	return nil
}

// uncover tells which addresses an attachment's pod has, now that it isn't there any more.
func (a *Agent) uncover(record *attachment.Record) {
	if a.guard != nil {
		a.guard.Here(podOf(record), record.PodUID, a.addresses(record))
	}
}

// undo withdraws what may be there of an attachment that failed, even if its caller has gone.
func (a *Agent) undo(ctx context.Context, record *attachment.Record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTime)
	defer cancel()
	a.withdraw(ctx, record)
}

// waitForNode waits until there is all that a pod needs of its node, which may have booted just now: a pod that is refused is tried again by kubelet
// only after ten seconds or more. A pod that is known has all that. It doesn't wait for so long that the caller would no longer hear what is missing.
func (a *Agent) waitForNode(ctx context.Context, id attachment.ID) error {
	ctx, cancel := patient(ctx)
	defer cancel()
	if err := a.waitForQuiverd(ctx); err != nil {
		return err
	}
	for {
		a.mutex.Lock()
		known := a.store.Get(id) != nil
		_, release, err := a.admitted(ctx)
		if err == nil {
			release()
		} else {
			err = failure(codes.Unavailable, "see the agent's log", "%v", err)
		}
		if err == nil && !known {
			err = a.prepared()
		}
		a.mutex.Unlock()
		if err == nil || !pause(ctx, soon) {
			return err
		}
	}
}

// patient is the time that a caller has, less what it takes to tell it of a failure.
func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	patience := applyTime
	if deadline, limited := ctx.Deadline(); limited {
		patience = time.Until(deadline) * 3 / 4
	}
	return context.WithTimeout(ctx, patience)
}

// waitForQuiverd waits until quiverd answers.
func (a *Agent) waitForQuiverd(ctx context.Context) error {
	if err := a.quiverd.Wait(ctx); err != nil {
		return failure(codes.Unavailable, "see why quiverd doesn't run on this node", "%v", err)
	}
	return nil
}

// prepared tells whether there is all that a pod needs of its node, quiverd apart.
func (a *Agent) prepared() error {
	if len(a.pools) == 0 {
		return failure(codes.Unavailable, "see whether this node reaches the API server, and its node object has podCIDRs", "there are no addresses for pods yet")
	}
	if a.paths == nil {
		return failure(codes.Unavailable, "see the agent's log", "%v", errNoPaths)
	}
	// Of which addresses others have, too.
	if unknown := a.pods.Known(); unknown != nil {
		return failure(codes.Unavailable, "see whether this node reaches the API server", "%v", unknown)
	}
	if a.guard != nil {
		if unknown := a.guard.Known(); unknown != nil {
			return failure(codes.Unavailable, "see whether this node reaches the API server", "%v", unknown)
		}
	}
	return nil
}

// allocate takes an address of each family: one that the cluster takes for another pod's only if there is no other.
func (a *Agent) allocate(record *attachment.Record) error {
	pod := pods.ID{Namespace: record.PodNamespace, Name: record.PodName, UID: record.PodUID}
	claimed := func(address netip.Addr) bool { return a.store.InUse(address) || a.pods.Claimed(address, pod) }
	for _, pool := range a.pools {
		free, err := pool.Take(claimed)
		if err != nil {
			free, err = pool.Take(a.store.InUse)
		}
		if err != nil {
			return failure(codes.ResourceExhausted, "delete pods, or give the node a larger range", "%s: %v", record.Pod(), err)
		}
		record.Addresses = append(record.Addresses, free)
	}
	if err := a.settings.Last.Write(a.pools); err != nil {
		a.log.Warn("addresses may not rest for as long as they should", "why", err)
	}
	return nil
}

// program tells quiverd of an attachment.
func (a *Agent) program(ctx context.Context, record *attachment.Record) error {
	ctx, release, err := a.admitted(ctx)
	if err != nil {
		return failure(codes.Unavailable, "see the agent's log", "%s: %v", record.Pod(), err)
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	all := &quiver.Config{}
	merge(all, dataplane.Objects(record))
	tenant, err := a.tenantNow(ctx, nil)
	if err == nil {
		merge(all, tenant)
		err = a.quiverd.Apply(ctx, all, nil)
	}
	var refused *dataplane.RefusedError
	if errors.As(err, &refused) {
		return failure(codes.FailedPrecondition, refused.Remedy, "%s: %v", record.Pod(), err)
	}
	if err != nil {
		return failure(codes.Unavailable, "see why quiverd doesn't answer", "%s: %v", record.Pod(), err)
	}
	return nil
}

// answer is what quiver-cni is told of an attachment.
func answer(record *attachment.Record) *agentv1.AddResponse {
	response := &agentv1.AddResponse{Addresses: hosts(record.Addresses), Mtu: record.MTU}
	if record.Memif != nil {
		spec := record.Memif.Spec
		response.Memif = &agentv1.Memif{
			Socket: dataplane.Socket(record.Interface), L3: spec.L3, RxQueues: spec.RxQueues, TxQueues: spec.TxQueues, RingSize: spec.MostRing(),
		}
	}
	return response
}

func hosts(addresses []netip.Addr) (texts []string) {
	for _, address := range addresses {
		texts = append(texts, netip.PrefixFrom(address, address.BitLen()).String())
	}
	return texts
}

func idOf(named *agentv1.Attachment) attachment.ID {
	return attachment.ID{Container: named.GetContainerId(), Interface: named.GetInterface()}
}
