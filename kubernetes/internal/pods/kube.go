package pods

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
)

// Cluster knows the pods of one node, and the other nodes, from the API server.
type Cluster struct {
	client   client.CoreV1Interface
	node     string
	informer cache.SharedIndexInformer
	nodes    cache.SharedInformer
	changed  chan struct{}
	recorder record.EventRecorder
	events   record.EventBroadcaster
}

// Access says how to reach the API server that a kubeconfig names (empty: the one of the cluster we run in).
func Access(kubeconfig string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// Connect prepares to ask it.
func Connect(config *rest.Config, node string) (*Cluster, error) {
	core, err := client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{client: core, node: node, changed: make(chan struct{}, 1)}
	cluster.recorder, cluster.events = newRecorder(core, node)
	cluster.informer, err = newPods(cache.NewListWatchFromClient(core.RESTClient(), "pods", "", fields.OneTermEqualSelector("spec.nodeName", node)))
	if err != nil {
		return nil, err
	}
	cluster.nodes, err = newNodes(cache.NewListWatchFromClient(core.RESTClient(), "nodes", "", fields.Everything()), cluster.changed)
	return cluster, err
}

// The index of pods by the addresses that they have, as far as that is the network of pods.
const byAddress = "address"

func newPods(pods cache.ListerWatcher) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(pods, &core.Pod{}, 0, cache.Indexers{byAddress: claims})
	// Annotations and addresses are all that is wanted; the rest of a pod needn't stay in memory.
	err := informer.SetTransform(func(object any) (any, error) {
		if pod, is := object.(*core.Pod); is {
			kept := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: pod.Annotations}}
			if !pod.Spec.HostNetwork && pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed {
				kept.Status.PodIPs = pod.Status.PodIPs
			}
			return kept, nil
		}
		return object, nil
	})
	return informer, err
}

// claims are the addresses of a pod, each as it is written.
func claims(object any) (all []string, err error) {
	if pod, is := object.(*core.Pod); is {
		for _, one := range pod.Status.PodIPs {
			all = append(all, one.IP)
		}
	}
	return all, nil
}

// Known is nil when the API server has told of the node's pods.
func (c *Cluster) Known() error {
	if !c.informer.HasSynced() {
		return fmt.Errorf("the API server hasn't told yet which pods node %s has", c.node)
	}
	return nil
}

// Claimed tells whether the API server had another pod of this node with an address when it told last.
func (c *Cluster) Claimed(address netip.Addr, by ID) bool {
	found, err := c.informer.GetIndexer().ByIndex(byAddress, address.String())
	return err == nil && slices.ContainsFunc(found, func(object any) bool {
		pod, is := object.(*core.Pod)
		return is && (pod.Namespace != by.Namespace || pod.Name != by.Name)
	})
}

// Run follows the node's pods, and the other nodes, until the context ends.
func (c *Cluster) Run(ctx context.Context) {
	go c.nodes.Run(ctx.Done())
	c.informer.Run(ctx.Done())
	c.events.Shutdown()
}

// Annotations are those that the API server has, whatever was given.
func (c *Cluster) Annotations(ctx context.Context, id ID, _ map[string]string) (map[string]string, error) {
	if annotations, known := c.Seen(id); known {
		return annotations, nil
	}
	// The runtime may be ahead of the watch.
	pod, err := c.client.Pods(id.Namespace).Get(ctx, id.Name, meta.GetOptions{})
	if errors.IsNotFound(err) || err == nil && id.UID != "" && string(pod.UID) != id.UID {
		return nil, &GoneError{id}
	}
	if err != nil {
		return nil, err
	}
	return pod.Annotations, nil
}

// Seen are those that the API server had when it told last; not known: it hasn't told of this pod.
func (c *Cluster) Seen(id ID) (annotations map[string]string, known bool) {
	object, known, _ := c.informer.GetStore().GetByKey(id.Namespace + "/" + id.Name)
	if !known {
		return nil, false
	}
	pod := object.(*core.Pod)
	if id.UID != "" && string(pod.UID) != id.UID {
		return nil, false
	}
	return pod.Annotations, true
}

// Ranges waits until the node has ranges of addresses for pods, and tells them. Trouble that stays, maybe for hours, is told once.
func (c *Cluster) Ranges(ctx context.Context, trouble func(error)) ([]netip.Prefix, error) {
	told := ""
	for {
		node, err := c.client.Nodes().Get(ctx, c.node, meta.GetOptions{})
		if err == nil && len(node.Spec.PodCIDRs) == 0 {
			err = fmt.Errorf("node %s has no podCIDRs: let kube-controller-manager give them (--allocate-node-cidrs)", c.node)
		}
		if err == nil {
			return ParseRanges(node.Spec.PodCIDRs)
		}
		if text := err.Error(); text != told {
			told = text
			trouble(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// ParseRanges reads ranges of addresses, at most one per family.
func ParseRanges(texts []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		for _, other := range ranges {
			if other.Addr().Is4() == prefix.Addr().Is4() {
				return nil, fmt.Errorf("%s and %s are of the same family: one range per family is supported", other, prefix)
			}
		}
		ranges = append(ranges, prefix)
	}
	return ranges, nil
}
