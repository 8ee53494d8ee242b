package pods

import (
	"context"
	"encoding/json"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"quiver/kubernetes/internal/escape"
)

// newRecorder writes events. Those that repeat become one with a count, and who causes many is slowed down.
func newRecorder(api client.CoreV1Interface, node string) (record.EventRecorder, record.EventBroadcaster) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&client.EventSinkImpl{Interface: api.Events("")})
	return broadcaster.NewRecorder(runtime.NewScheme(), core.EventSource{Component: "quiver-agent", Host: node}), broadcaster
}

// TellService writes a warning on a Service.
func (c *Cluster) TellService(key types.NamespacedName, uid types.UID, reason, message string) {
	whose := &core.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: key.Namespace, Name: key.Name, UID: uid}
	c.recorder.Event(whose, core.EventTypeWarning, reason, escape.Text(message))
}

// TellNode writes a warning on this node.
func (c *Cluster) TellNode(reason, message string) {
	// (As kubelet's have it, by which kubectl finds them: a node's name in the place of its UID.)
	whose := &core.ObjectReference{APIVersion: "v1", Kind: "Node", Name: c.node, UID: types.UID(c.node)}
	c.recorder.Event(whose, core.EventTypeWarning, reason, escape.Text(message))
}

// TellPolicy writes a warning on a policy of whatever kind.
func (c *Cluster) TellPolicy(policy *core.ObjectReference, reason, message string) {
	c.recorder.Event(policy, core.EventTypeWarning, reason, escape.Text(message))
}

// Annotate has a pod have an annotation. It is written as part of the pod's status, which needs no right to change pods themselves.
func (c *Cluster) Annotate(ctx context.Context, pod ID, key, value string) error {
	// With a UID, the API server refuses to write to another pod of that name.
	about := map[string]any{"annotations": map[string]string{key: value}}
	if pod.UID != "" {
		about["uid"] = pod.UID
	}
	patch, err := json.Marshal(map[string]any{"metadata": about})
	if err != nil {
		return err
	}
	_, err = c.client.Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, meta.PatchOptions{}, "status")
	return err
}

// Tell has an event on a pod written, and doesn't wait for that: it is lost if the API server refuses it, or doesn't take it for minutes or before the agent ends.
func (c *Cluster) Tell(pod ID, well bool, reason, message string) {
	kind := core.EventTypeWarning
	if well {
		kind = core.EventTypeNormal
	}
	whose := &core.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID)}
	c.recorder.Event(whose, kind, reason, escape.Text(message))
}
