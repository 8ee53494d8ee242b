package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
)

var ranges = []Range{
	{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("10.244.1.1")},
	{netip.MustParsePrefix("fd00:1::/64"), netip.MustParseAddr("fd00:1::1")},
}

func names(refs []*quiver.ObjectRef) (all []string) {
	for _, ref := range refs {
		all = append(all, refName(ref))
	}
	slices.Sort(all)
	return all
}

func TestWhoseObjectsAreIsToldByThemselves(t *testing.T) {
	node := Node(ranges, Uplink{Device: "quiver0", MTU: 1500})
	pod := Objects(&attachment.Record{ID: attachment.ID{Container: "c", Interface: "eth0"}, Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.2")}})
	foreign := &quiver.Config{
		Interfaces: []*quiver.Interface{{Name: "mine"}},
		Routes: []*quiver.Route{
			{Prefix: "10.9.0.0/16", NextHops: []*quiver.NextHop{{Interface: "mine"}}},
			{Prefix: "10.8.0.0/16", Action: quiver.RouteAction_ROUTE_ACTION_UNREACHABLE},
			{Prefix: "10.7.0.0/16", NextHops: []*quiver.NextHop{{Interface: "mine"}, {Interface: uplink}}},
		},
	}
	all := &quiver.Config{}
	for _, some := range []*quiver.Config{foreign, pod, node} {
		all.Interfaces = append(all.Interfaces, some.Interfaces...)
		all.Routes = append(all.Routes, some.Routes...)
	}
	found := sort(all)
	for i, pair := range [][2][]*quiver.ObjectRef{{found.Pods, Refs(pod)}, {found.Node, Refs(node)}, {found.Others, Refs(foreign)}} {
		if !slices.Equal(names(pair[0]), names(pair[1])) {
			t.Errorf("%d: %v, not %v", i, names(pair[0]), names(pair[1]))
		}
	}
	if len(found.Node) != 6 || len(found.Ours()) != 8 {
		t.Errorf("node: %v", names(found.Node))
	}
}

func TestTheWayOutLeadsToTheHostUnlessSomebodyElseHasOne(t *testing.T) {
	ways := func(config *quiver.Config) (all []string) {
		for _, route := range config.Routes {
			way := fmt.Sprint(route.Prefix, " ", route.Action)
			for _, hop := range route.NextHops {
				way = route.Prefix + " " + hop.Interface
			}
			all = append(all, way)
		}
		return all
	}
	node := Node(ranges, Uplink{Device: "quiver0", MTU: 1500})
	inside := []string{"10.244.1.0/24 ROUTE_ACTION_UNREACHABLE", "fd00:1::/64 ROUTE_ACTION_UNREACHABLE"}
	if got := ways(node); !slices.Equal(got, []string{"0.0.0.0/0 pod:host", inside[0], "::/0 pod:host", inside[1]}) {
		t.Errorf("got %q", got)
	}
	others := []*quiver.ObjectRef{{Kind: quiver.Kind_KIND_ROUTE, Name: "default/0.0.0.0/0"}, {Kind: quiver.Kind_KIND_ROUTE, Name: "red/::/0"}}
	if got := ways(Spare(node, others)); !slices.Equal(got, []string{inside[0], "::/0 pod:host", inside[1]}) {
		t.Errorf("got %q", got)
	}
	if alone := Node(ranges, Uplink{}); len(alone.Interfaces) != 1 || alone.Routes != nil {
		t.Errorf("without a device: %v", alone)
	}
}
