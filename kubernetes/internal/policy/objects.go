package policy

import (
	"context"
	"slices"
	"strings"
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
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Objects are the cluster's pods, namespaces, nodes and policies, as the API server has them.
type Objects struct {
	core                              client.CoreV1Interface
	pods, namespaces, nodes, policies cache.SharedInformer
	// Policies of administrators by their kinds, and who reaches these.
	clusterwide map[string]cache.SharedInformer
	admins      map[string]rest.Interface
	unreported  chan struct{}
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
	nodes          map[string]bool
}

func noChanges() changes {
	return changes{map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}, map[string]bool{}, map[string]bool{}}
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
	from := sources{
		pods:        cache.NewListWatchFromClient(core.RESTClient(), "pods", "", all),
		namespaces:  cache.NewListWatchFromClient(core.RESTClient(), "namespaces", "", all),
		nodes:       cache.NewListWatchFromClient(core.RESTClient(), "nodes", "", all),
		policies:    cache.NewListWatchFromClient(networking.RESTClient(), "networkpolicies", "", all),
		clusterwide: map[string]cache.ListerWatcher{},
	}
	admins := map[string]rest.Interface{}
	for kind, resource := range resources {
		if admins[kind], err = reach(config, resource.GroupVersion()); err != nil {
			return nil, err
		}
		from.clusterwide[kind] = whereServed(admins[kind], resource.Resource, servedLater)
	}
	o, err := newObjects(from)
	if err == nil {
		o.core, o.admins = core, admins
	}
	return o, err
}

// sources are where objects come from.
type sources struct {
	pods, namespaces, nodes, policies cache.ListerWatcher
	clusterwide                       map[string]cache.ListerWatcher
}

func newObjects(from sources) (*Objects, error) {
	o := &Objects{dirty: noChanges(), changed: make(chan struct{}, 1), unreported: make(chan struct{}, 1), clusterwide: map[string]cache.SharedInformer{}}
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
	if o.pods, err = follow(from.pods, &core.Pod{}, func(key types.NamespacedName) { o.dirty.pods[key] = true }); err != nil {
		return nil, err
	}
	if o.namespaces, err = follow(from.namespaces, &core.Namespace{}, func(key types.NamespacedName) { o.dirty.namespaces[key.Name] = true }); err != nil {
		return nil, err
	}
	if o.nodes, err = follow(from.nodes, &core.Node{}, func(key types.NamespacedName) { o.dirty.nodes[key.Name] = true }); err != nil {
		return nil, err
	}
	for kind, of := range map[string]runtime.Object{
		clusterKind: &v1alpha2.ClusterNetworkPolicy{}, adminKind: &v1alpha1.AdminNetworkPolicy{}, baselineKind: &v1alpha1.BaselineAdminNetworkPolicy{},
	} {
		o.clusterwide[kind], err = follow(from.clusterwide[kind], of, func(key types.NamespacedName) {
			o.dirty.policies[clusterKey(kind, key.Name)] = true
			select {
			case o.unreported <- struct{}{}:
			default:
			}
		})
		if err != nil {
			return nil, err
		}
	}
	o.policies, err = follow(from.policies, &networking.NetworkPolicy{}, func(key types.NamespacedName) { o.dirty.policies[key] = true })
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
	if node, is := object.(*core.Node); is {
		return &core.Node{ObjectMeta: meta.ObjectMeta{Name: node.Name, UID: node.UID, Labels: node.Labels}, Spec: core.NodeSpec{PodCIDRs: node.Spec.PodCIDRs}, Status: core.NodeStatus{Addresses: node.Status.Addresses}}, nil
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
	go o.nodes.Run(ctx.Done())
	for _, policies := range o.clusterwide {
		go policies.Run(ctx.Done())
	}
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

// nodeNamed is a node as the API server has it; nil: there is none.
func (o *Objects) nodeNamed(name string) *Pod {
	object, known, _ := o.nodes.GetStore().GetByKey(name)
	if !known {
		return nil
	}
	return nodeOf(object.(*core.Node))
}

// administrators is a policy of theirs as the API server has it; nil: there is none.
func (o *Objects) administrators(key types.NamespacedName) *clusterwide {
	kind, name, _ := strings.Cut(key.Name, "/")
	if policies := o.clusterwide[kind]; policies != nil {
		if object, known, _ := policies.GetStore().GetByKey(name); known {
			return clusterwideOf(object)
		}
	}
	return nil
}

// allClusterwide are all of these.
func (o *Objects) allClusterwide() (all []*clusterwide) {
	for _, policies := range o.clusterwide {
		for _, object := range policies.GetStore().List() {
			all = append(all, clusterwideOf(object))
		}
	}
	return all
}

// askNamespace asks the API server itself for the labels of a namespace.
func (o *Objects) askNamespace(ctx context.Context, name string) (labels.Set, error) {
	object, err := o.core.Namespaces().Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return nil, err
	}
	return labels.Merge(object.Labels, nil), nil
}

// policy is one as the API server has it; nil: there is none.
func (o *Objects) policy(key types.NamespacedName) *networking.NetworkPolicy {
	object, known, _ := o.policies.GetStore().GetByKey(key.String())
	if !known {
		return nil
	}
	return object.(*networking.NetworkPolicy)
}
