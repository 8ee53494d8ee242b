package balance

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// Services of ten endpoints in each family. (Ten thousand are for the benchmark.)
const manyServices = 1000

// dual is a Service of both families, with a slice for each.
func dual(i, endpoints int) (*core.Service, []*discovery.EndpointSlice) {
	owner, four := numbered(i, endpoints)
	owner.Spec.ClusterIPs = append(owner.Spec.ClusterIPs, fmt.Sprintf("fd00:96::%x", i+1))
	six := four.DeepCopy()
	six.Name, six.AddressType = owner.Name+"-y", discovery.AddressTypeIPv6
	for j := range six.Endpoints {
		six.Endpoints[j].Addresses = []string{fmt.Sprintf("fd00:128::%x:%x", i+1, j+1)}
	}
	return owner, []*discovery.EndpointSlice{four, six}
}

// named are a Service's VIPs, by what they are called in quiverd.
func named(owner *core.Service, slices []*discovery.EndpointSlice) (names []string) {
	set := service.Of(owner, slices, &here)
	for i := range set.VIPs {
		names = append(names, dataplane.VIPName(&set.VIPs[i]))
	}
	return names
}

// Of a thousand Services one has an endpoint less, or more: that VIP alone is sent, and sessions with others lose no packet.
func TestAnEndpointOfManyServicesThatChangesIsOneObjectAndCostsNobodyElseAPacket(t *testing.T) {
	directory := t.TempDir()
	quiverd, _ := realtest.Start(t, directory)
	recorded, applied := realtest.Recorded(t, directory)
	c := &cluster{}
	c.services.ResourceVersion, c.slices.ResourceVersion = "1", "1"
	add := func(owner *core.Service, both []*discovery.EndpointSlice) {
		c.services.Items = append(c.services.Items, *owner)
		for _, slice := range both {
			c.slices.Items = append(c.slices.Items, *slice)
		}
	}
	for i := range manyServices {
		add(dual(i, 10))
	}
	// One more, whose only endpoint of each family is where packets come out.
	owner, both := dual(manyServices, 1)
	owner.Spec.Ports[0].Protocol = core.ProtocolUDP
	for _, slice := range both {
		slice.Ports[0].Protocol = new(core.ProtocolUDP)
	}
	add(owner, both)

	// By hand, so that when it is done nothing else is on its way.
	keeper := New(Settings{Here: func() (service.Here, bool) { return here, true }}, c.objects(t), recorded, slog.New(slog.DiscardHandler))
	go keeper.objects.Run(t.Context())
	realtest.Eventually(t, "all are known", keeper.objects.Known)
	bring := func(all bool) (sent, gone int, vips []*quiver.Vip) {
		t.Helper()
		if err := keeper.bring(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		batch := applied.Take()
		return len(dataplane.Refs(batch.Upserts)), len(batch.Deletes), batch.Upserts.Vips
	}
	// Each VIP, and the route of its address, once.
	if sent, gone, vips := bring(true); sent != 4*(manyServices+1) || gone != 0 || len(vips) != 2*(manyServices+1) {
		t.Fatalf("%d objects sent, %d VIPs among them, and %d deleted", sent, len(vips), gone)
	}
	found, err := quiverd.VIPs(t.Context())
	if err != nil || len(found.VIPs) != 2*(manyServices+1) || len(found.Routes) != len(found.VIPs) {
		t.Fatalf("quiverd has %d VIPs and %d routes: %v", len(found.VIPs), len(found.Routes), err)
	}
	of := map[int]int{}
	for _, vip := range found.VIPs {
		of[len(vip.Backends)]++
	}
	if !maps.Equal(of, map[int]int{10: 2 * manyServices, 1: 2}) {
		t.Fatalf("VIPs by number of backends: %v", of)
	}

	var flows []*realtest.Flow
	for family, source := range []string{"10.127.0.2", "fd00:127::2"} {
		asked, pod := netip.MustParseAddr(owner.Spec.ClusterIPs[family]), netip.MustParseAddr(both[family].Endpoints[0].Addresses[0])
		flows = append(flows, realtest.StartFlow(t, directory, quiverd, fmt.Sprint("served", family), netip.MustParseAddr(source), netip.AddrPortFrom(asked, 80), pod))
	}
	for round := range 20 {
		i, family, endpoints := 37*round, round%2, 9+2*(round/10)
		owner, both := dual(i, endpoints)
		changed := both[family]
		changed.ResourceVersion = "2"
		c.changes["slices"].Modify(changed)
		realtest.Eventually(t, "it is heard of", func() bool {
			keeper.objects.mutex.Lock()
			defer keeper.objects.mutex.Unlock()
			return keeper.objects.dirty[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}]
		})
		sent, gone, vips := bring(false)
		if sent != 1 || gone != 0 || len(vips) != 1 || len(vips[0].Backends) != endpoints || !slices.Contains(named(owner, []*discovery.EndpointSlice{changed}), vips[0].Name) {
			t.Errorf("Service %d, family %d: %d objects sent, %d VIPs among them, and %d deleted", i, family, sent, len(vips), gone)
		}
		if got := answering(t, quiverd, owner.Spec.ClusterIPs[family]); got != endpoints {
			t.Errorf("Service %d, family %d: %d backends", i, family, got)
		}
	}
	// Also when everything is compared, what is as it shall be isn't sent again.
	if sent, gone, _ := bring(true); sent != 0 || gone != 0 {
		t.Errorf("%d objects sent, %d deleted where nothing had changed", sent, gone)
	}
	for family, flow := range flows {
		if end := flow.End(t); end.Lost != 0 {
			t.Errorf("family %d: of %d packets %d are lost", family, end.Sent, end.Lost)
		}
	}
}
