// Package pods tells what the cluster says of the node's pods.
package pods

import (
	"context"
	"fmt"
	"net/netip"
)

// ID names a pod.
type ID struct {
	// Namespace and Name of the pod.
	Namespace, Name string
	// UID tells it from an earlier pod of the same name; empty: not known.
	UID string
}

// Source knows the annotations of pods, and their addresses.
type Source interface {
	// Annotations of a pod. Given are those that came with the request.
	Annotations(ctx context.Context, pod ID, given map[string]string) (map[string]string, error)
	// Claimed tells whether the cluster takes an address for one of another pod on this node: also of one whose network has gone, which
	// Services still lead to.
	Claimed(address netip.Addr, by ID) bool
	// Known is nil when all of the node's pods have been told of.
	Known() error
}

// Standalone is a node without a cluster: a pod has the annotations that its runtime gives along.
type Standalone struct{}

// Annotations are those given.
func (Standalone) Annotations(_ context.Context, _ ID, given map[string]string) (map[string]string, error) {
	return given, nil
}

// Claimed is what nobody says.
func (Standalone) Claimed(netip.Addr, ID) bool { return false }

// Known is nil: there is nobody to tell.
func (Standalone) Known() error { return nil }

// GoneError is a pod that the cluster doesn't know, or not any more.
type GoneError struct {
	// Pod that was asked for.
	Pod ID
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("the API server has no pod %s/%s with UID %s", e.Pod.Namespace, e.Pod.Name, e.Pod.UID)
}
