// Package balance keeps quiverd and the host at what the cluster's Services are.
package balance

import (
	"context"
	"sync"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"quiver/kubernetes/internal/service"
)

const (
	// What slices are found by.
	byService = "service"
	// As for kube-proxy: what another proxy serves isn't our business, and of headless services there is nothing to do.
	notOurs = "!" + service.OtherProxy + ",!" + core.IsHeadlessService
)

// Objects are the cluster's Services and EndpointSlices, as the API server has them.
type Objects struct {
	services, slices cache.SharedIndexInformer
	mutex            sync.Mutex
	dirty            map[types.NamespacedName]bool
	changed          chan struct{}
}

// Follow prepares to follow them.
func Follow(config *rest.Config) (*Objects, error) {
	core, err := client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discovery, err := discoveryclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	selecting := func(labels string) func(*meta.ListOptions) {
		return func(options *meta.ListOptions) { options.LabelSelector = labels }
	}
	return newObjects(
		cache.NewFilteredListWatchFromClient(core.RESTClient(), "services", "", selecting(notOurs)),
		cache.NewFilteredListWatchFromClient(discovery.RESTClient(), "endpointslices", "", selecting(notOurs)))
}

func newObjects(services, slices cache.ListerWatcher) (*Objects, error) {
	o := &Objects{dirty: map[types.NamespacedName]bool{}, changed: make(chan struct{}, 1)}
	o.services = cache.NewSharedIndexInformer(services, &core.Service{}, 0, nil)
	o.slices = cache.NewSharedIndexInformer(slices, &discovery.EndpointSlice{}, 0, cache.Indexers{
		byService: func(object any) ([]string, error) {
			key, is := whose(object)
			if !is {
				return nil, nil
			}
			return []string{key.String()}, nil
		},
	})
	for _, informer := range []cache.SharedIndexInformer{o.services, o.slices} {
		if err := informer.SetTransform(slim); err != nil {
			return nil, err
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: o.mark,
			// A slice may be given to another service.
			UpdateFunc: func(before, after any) { o.mark(before); o.mark(after) },
			DeleteFunc: o.mark,
		})
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// slim leaves out what is of no use here, and large.
func slim(object any) (any, error) {
	if described, is := object.(meta.Object); is {
		described.SetManagedFields(nil)
	}
	return object, nil
}

// whose tells which Service an object is about.
func whose(object any) (key types.NamespacedName, is bool) {
	switch object := object.(type) {
	case *core.Service:
		return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, true
	case *discovery.EndpointSlice:
		name := object.Labels[discovery.LabelServiceName]
		return types.NamespacedName{Namespace: object.Namespace, Name: name}, name != ""
	case cache.DeletedFinalStateUnknown:
		return whose(object.Obj)
	}
	return key, false
}

func (o *Objects) mark(object any) {
	key, is := whose(object)
	if !is {
		return
	}
	o.mutex.Lock()
	o.dirty[key] = true
	o.mutex.Unlock()
	o.wake()
}

func (o *Objects) wake() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// Run follows them until the context ends.
func (o *Objects) Run(ctx context.Context) {
	go o.slices.Run(ctx.Done())
	o.services.Run(ctx.Done())
}

// Known tells whether all are known: before, nothing may be taken away.
func (o *Objects) Known() bool { return o.services.HasSynced() && o.slices.HasSynced() }

// Changed tells that Take may have something.
func (o *Objects) Changed() <-chan struct{} { return o.changed }

// Take names the Services about which something has changed since it was asked last.
func (o *Objects) Take() map[types.NamespacedName]bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	dirty := o.dirty
	o.dirty = map[types.NamespacedName]bool{}
	return dirty
}

// All names all Services.
func (o *Objects) All() map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for _, object := range o.services.GetStore().List() {
		if key, is := whose(object); is {
			all[key] = true
		}
	}
	return all
}

// Get is a Service with its slices; nil: there is none.
func (o *Objects) Get(key types.NamespacedName) (*core.Service, []*discovery.EndpointSlice) {
	object, known, _ := o.services.GetStore().GetByKey(key.String())
	if !known {
		return nil, nil
	}
	found, _ := o.slices.GetIndexer().ByIndex(byService, key.String())
	slices := make([]*discovery.EndpointSlice, 0, len(found))
	for _, slice := range found {
		slices = append(slices, slice.(*discovery.EndpointSlice))
	}
	return object.(*core.Service), slices
}
