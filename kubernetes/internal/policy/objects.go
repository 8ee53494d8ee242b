package policy

import (
	"context"
	"slices"
	"sync"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Objects are the cluster's pods, namespaces and NetworkPolicies, as the API server has them.
type Objects struct {
	core                       client.CoreV1Interface
	pods, namespaces, policies cache.SharedInformer
	// Whether what was there at the beginning has been heard of.
	heard   []cache.InformerSynced
	mutex   sync.Mutex
	dirty   changes
	changed chan struct{}
}

// changes names what may not be as it was.
type changes struct {
	pods, policies map[types.NamespacedName]bool
	namespaces     map[string]bool
}

func noChanges() changes {
	return changes{map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}, map[string]bool{}}
}

// Follow prepares to follow them.
func Follow(config *rest.Config) (*Objects, error) {
	core, err := client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	networking, err := networkingclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := fields.Everything()
	o, err := newObjects(
		cache.NewListWatchFromClient(core.RESTClient(), "pods", "", all),
		cache.NewListWatchFromClient(core.RESTClient(), "namespaces", "", all),
		cache.NewListWatchFromClient(networking.RESTClient(), "networkpolicies", "", all))
	if err == nil {
		o.core = core
	}
	return o, err
}

func newObjects(pods, namespaces, policies cache.ListerWatcher) (*Objects, error) {
	o := &Objects{dirty: noChanges(), changed: make(chan struct{}, 1)}
	follow := func(watch cache.ListerWatcher, of runtime.Object, mark func(types.NamespacedName)) (cache.SharedInformer, error) {
		informer := cache.NewSharedInformer(watch, of, 0)
		note := func(object any) {
			if key, err := cache.DeletionHandlingObjectToName(object); err == nil {
				o.mutex.Lock()
				mark(types.NamespacedName(key))
				o.mutex.Unlock()
				o.wake()
			}
		}
		if err := informer.SetTransform(slim); err != nil {
			return nil, err
		}
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, after any) { note(after) }, DeleteFunc: note})
		if err == nil {
			o.heard = append(o.heard, registration.HasSynced)
		}
		return informer, err
	}
	var err error
	if o.pods, err = follow(pods, &core.Pod{}, func(key types.NamespacedName) { o.dirty.pods[key] = true }); err != nil {
		return nil, err
	}
	if o.namespaces, err = follow(namespaces, &core.Namespace{}, func(key types.NamespacedName) { o.dirty.namespaces[key.Name] = true }); err != nil {
		return nil, err
	}
	o.policies, err = follow(policies, &networking.NetworkPolicy{}, func(key types.NamespacedName) { o.dirty.policies[key] = true })
	return o, err
}

// wake has whoever waits for changes look.
func (o *Objects) wake() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// slim leaves out what is of no use here, and large.
func slim(object any) (any, error) {
	if pod, is := object.(*core.Pod); is {
		kept := &core.Pod{
			ObjectMeta: meta.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: pod.Labels},
			Spec:       core.PodSpec{HostNetwork: pod.Spec.HostNetwork},
			Status:     core.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs},
		}
		for _, container := range append(append([]core.Container(nil), pod.Spec.InitContainers...), pod.Spec.Containers...) {
			if len(container.Ports) > 0 {
				kept.Spec.Containers = append(kept.Spec.Containers, core.Container{Ports: container.Ports})
			}
		}
		return kept, nil
	}
	if described, is := object.(meta.Object); is {
		described.SetManagedFields(nil)
		described.SetAnnotations(nil)
	}
	return object, nil
}

// Run follows them until the context ends.
func (o *Objects) Run(ctx context.Context) {
	go o.namespaces.Run(ctx.Done())
	go o.policies.Run(ctx.Done())
	o.pods.Run(ctx.Done())
}

// Known tells whether all are known: before, nobody can be let pass.
func (o *Objects) Known() bool {
	return !slices.ContainsFunc(o.heard, func(all cache.InformerSynced) bool { return !all() })
}

// take names what has changed since it was asked last.
func (o *Objects) take() changes {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	dirty := o.dirty
	o.dirty = noChanges()
	return dirty
}

// pod is one as the API server has it; nil: there is none.
func (o *Objects) pod(key types.NamespacedName) *Pod {
	if object, known, _ := o.pods.GetStore().GetByKey(key.String()); known {
		return PodOf(object.(*core.Pod))
	}
	return nil
}

// ask asks the API server itself for a pod, which may be ahead of what was followed.
func (o *Objects) ask(ctx context.Context, key types.NamespacedName) (*Pod, error) {
	object, err := o.core.Pods(key.Namespace).Get(ctx, key.Name, meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	return PodOf(object), nil
}

// namespace tells the labels of one; nil: there is none.
func (o *Objects) namespace(name string) labels.Set {
	object, known, _ := o.namespaces.GetStore().GetByKey(name)
	if !known {
		return nil
	}
	if set := object.(*core.Namespace).Labels; set != nil {
		return set
	}
	return labels.Set{}
}

// policy is one as the API server has it; nil: there is none.
func (o *Objects) policy(key types.NamespacedName) *networking.NetworkPolicy {
	object, known, _ := o.policies.GetStore().GetByKey(key.String())
	if !known {
		return nil
	}
	return object.(*networking.NetworkPolicy)
}
