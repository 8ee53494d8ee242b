package policy

import (
	"context"
	"net/http"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

const (
	// An API that isn't served is asked for again after that.
	servedLater = 5 * time.Second
	// What a list of it is said to be of; the API server says that of none.
	nothingServed = "0"
)

// reach gives a client of a version of the API of policies of administrators.
func reach(config *rest.Config, version schema.GroupVersion) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme) error{v1alpha1.Install, v1alpha2.Install} {
		if err := install(scheme); err != nil {
			return nil, err
		}
	}
	meta.AddToGroupVersion(scheme, core.SchemeGroupVersion)
	with := rest.CopyConfig(config)
	with.APIPath, with.GroupVersion = "/apis", &version
	with.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	// Custom resources are told as JSON only.
	with.ContentType, with.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(with)
}

// maybeServed lists and follows objects of an API that the cluster may not have (yet, or any more): then there are none.
type maybeServed struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported has a watch begin with a list, which tells whether the API is there.
func (maybeServed) IsWatchListSemanticsUnSupported() bool { return true }

func whereServed(client rest.Interface, resource string, later time.Duration) cache.ListerWatcher {
	served := cache.NewListWatchFromClient(client, resource, "", fields.Everything())
	return maybeServed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options meta.ListOptions) (runtime.Object, error) {
			list, err := served.ListWithContext(ctx, options)
			if errors.IsNotFound(err) {
				return &meta.List{ListMeta: meta.ListMeta{ResourceVersion: nothingServed}}, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options meta.ListOptions) (watch.Interface, error) {
			if options.ResourceVersion != nothingServed {
				return served.WatchWithContext(ctx, options)
			}
			none := watch.NewRaceFreeFake()
			go func() {
				defer none.Stop()
				for !none.IsStopped() {
					time.Sleep(later)
					if _, err := served.ListWithContext(ctx, meta.ListOptions{Limit: 1}); err == nil {
						// It ends as one that has been waiting for too long does: there is a list to be asked for.
						expired := errors.NewResourceExpired("the API is served now").Status()
						expired.Code = http.StatusGone
						none.Error(&expired)
						return
					}
				}
			}()
			return none, nil
		},
	}}
}
