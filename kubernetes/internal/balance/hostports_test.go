package balance

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

func TestAPodIsToldOfPortsOfTheNodeThatDontLeadToIt(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	node := here
	node.Addresses = []netip.Addr{netip.MustParseAddr("192.168.7.1")}
	pod := service.Pod{
		Attachment: "a", Name: types.NamespacedName{Namespace: "default", Name: "dns"}, UID: "u-1", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.7")},
		Ports: []service.PodPort{{Protocol: core.ProtocolUDP, Node: netip.MustParseAddr("8.8.8.8"), Port: 53, Target: 53}},
	}
	teller := &told{texts: map[string]string{}}
	settings := Settings{Here: func() (service.Here, bool) { return node, true }, Pods: func() []service.Pod { return []service.Pod{pod} }, Teller: teller}
	keeper := New(settings, many(0).objects(t), quiverd, slog.New(slog.DiscardHandler))
	go keeper.Run(t.Context())
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	if got := teller.of("dns"); !strings.HasPrefix(got, "u-1 false QuiverHostPort host port 53: hostIP 8.8.8.8 is no address of this node") {
		t.Errorf("told %q", got)
	}
	if found, err := quiverd.VIPs(t.Context()); err != nil || len(found.VIPs) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}
