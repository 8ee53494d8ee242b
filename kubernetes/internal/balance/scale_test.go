package balance

import (
	"context"
	"net/netip"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/dial"
	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// How long it takes until quiverd has 10000 Services of ten endpoints, and to follow one endpoint; what is lost meanwhile of sessions with others:
// first with a pod, then with the endpoint of a Service.
func BenchmarkTenThousandServices(b *testing.B) {
	c := many(10_000)
	asked, pod := netip.MustParseAddr("10.97.0.1"), netip.MustParseAddr("10.127.0.1")
	owner, slice := numbered(10_000, 1)
	owner.Spec.ClusterIP, owner.Spec.ClusterIPs = asked.String(), []string{asked.String()}
	owner.Spec.Ports[0].Protocol, slice.Ports[0].Protocol = core.ProtocolUDP, new(core.ProtocolUDP)
	slice.Endpoints[0].Addresses[0] = pod.String()
	c.services.Items, c.slices.Items = append(c.services.Items, *owner), append(c.slices.Items, *slice)

	directory := b.TempDir()
	quiverd, _ := realtest.Start(b, directory)
	connection, err := dial.Unix("quiverd", realtest.Socket(directory))
	if err != nil {
		b.Fatal(err)
	}
	defer connection.Close()
	source, other := netip.MustParseAddr("10.127.0.2"), netip.MustParseAddr("10.127.0.3")
	flow := realtest.StartFlow(b, directory, quiverd, "direct", source, netip.AddrPortFrom(other, 80), other)
	begin := time.Now()
	keeper, _ := keep(b, c, quiverd)
	realtest.Eventually(b, "all are there", func() bool { return keeper.Ready() == nil })
	b.ReportMetric(time.Since(begin).Seconds(), "s/sync")
	sync := flow.End(b)

	flow = realtest.StartFlow(b, directory, quiverd, "served", source, netip.AddrPortFrom(asked, 80), pod)
	var each []time.Duration
	ctx := context.Background()
	for i := range max(b.N, 20) {
		owner, slice := numbered(7*i%10_000, 9)
		set := service.Of(owner, []*discovery.EndpointSlice{slice}, &here)
		name := dataplane.VIPName(&set.VIPs[0])
		begin = time.Now()
		c.changes["slices"].Modify(slice)
		for count := 10; count != 9; {
			stream, err := quiver.NewQuiverClient(connection).Get(ctx, &quiver.GetRequest{Kind: quiver.Kind_KIND_VIP, Name: name})
			if err != nil {
				b.Fatal(err)
			}
			part, err := stream.Recv()
			if err != nil {
				b.Fatal(err)
			}
			count = len(part.Objects[0].GetVip().Backends)
		}
		each = append(each, time.Since(begin))
	}
	realtest.ReportTimes(b, "endpoint", each)
	served := flow.End(b)
	realtest.Sent{Sent: sync.Sent + served.Sent, Lost: sync.Lost + served.Lost}.Report(b)
}
