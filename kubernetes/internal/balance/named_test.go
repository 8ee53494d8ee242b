package balance

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/service"
)

// A Service names an address at which an endpoint of an older one listens, outside of the cluster: another of its ports is no way to have the host
// send to nobody what is for the endpoint.
func TestTheHostIsntLedAwayFromWhereAnOlderServicesEndpointListens(t *testing.T) {
	const address = "203.0.113.7"
	server, serverSlice := numbered(0, 1)
	serverSlice.Endpoints[0].Addresses, serverSlice.Ports[0].Port = []string{address}, new(int32(6443))
	tenant, tenantSlice := numbered(1, 1)
	tenant.Spec.ExternalIPs = []string{address}
	tenant.Spec.Ports = []core.ServicePort{{Name: "http", Port: 6443, Protocol: core.ProtocolTCP}, {Name: "discard", Port: 9, Protocol: core.ProtocolTCP}}
	const (
		refused = "203.0.113.7:6443 TCP is where an endpoint of Service default/web-0 listens, which is older"
		unled   = "203.0.113.7 is where an endpoint of Service default/web-0, which is older, listens: only pods are answered there"
		only    = "[10.96.0.1 10.96.0.2]"
		both    = "[10.96.0.1 10.96.0.2 203.0.113.7]"
	)
	w, told := newWanted(), map[string][]string{}
	put := func(owner *core.Service, slice *discovery.EndpointSlice, created int64) {
		key := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
		told[owner.Name] = w.put(key, created, service.Of(owner, []*discovery.EndpointSlice{slice}, &here), &here)
	}
	expect := func(what, wantLed string, wantTold ...string) {
		t.Helper()
		// As the keeper does.
		if w.moved[types.NamespacedName{Namespace: "default", Name: "web-1"}] {
			put(tenant, tenantSlice, tenant.CreationTimestamp.UnixNano())
		}
		clear(w.moved)
		led := fmt.Sprint(slices.SortedFunc(maps.Keys(w.addresses), netip.Addr.Compare))
		if led != wantLed || !slices.Equal(told["web-1"], wantTold) || len(told["web-0"]) > 0 {
			t.Errorf("%s: the host leads to %s; told %q", what, led, told)
		}
	}
	tenant.CreationTimestamp = meta.Unix(0, 2000)
	put(tenant, tenantSlice, 2000)
	expect("alone", "[10.96.0.2 203.0.113.7]")
	put(server, serverSlice, 1000)
	expect("with the older one", only, unled, refused)
	if len(w.vips) != 4 {
		t.Errorf("%d VIPs", len(w.vips))
	}
	// The endpoint goes elsewhere, and comes back.
	elsewhere := serverSlice.DeepCopy()
	elsewhere.Endpoints[0].Addresses = []string{"203.0.113.8"}
	put(server, elsewhere, 1000)
	expect("the endpoint is elsewhere", both)
	put(server, serverSlice, 1000)
	expect("it is back", only, unled, refused)
	// What a load balancer has given is the Service's.
	given := tenant.DeepCopy()
	given.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{IP: address}}
	put(given, tenantSlice, 2000)
	told["web-0"] = nil
	expect("given", both)
	// Its own endpoint is reached there without it, too.
	for _, name := range []string{"web-0", "web-1"} {
		w.put(types.NamespacedName{Namespace: "default", Name: name}, 0, service.Set{}, &here)
		delete(told, name)
	}
	clear(w.moved)
	if rest := w.rest(); rest != "" {
		t.Errorf("left: %s", rest)
	}
	own := tenantSlice.DeepCopy()
	own.Endpoints[0].Addresses = []string{address}
	put(tenant, own, 2000)
	expect("its own", "[10.96.0.2]", "203.0.113.7 is where an endpoint of this Service listens: only pods are answered there")
}
