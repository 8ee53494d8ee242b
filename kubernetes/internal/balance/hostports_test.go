package balance

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
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
	go keeper.objects.Run(t.Context())
	realtest.Eventually(t, "all are there", func() bool { return keeper.bring(t.Context(), true) == nil })
	if got := teller.of("dns"); !strings.HasPrefix(got, "u-1 false QuiverHostPort host port 53: hostIP 8.8.8.8 is no address of this node") {
		t.Errorf("told %q", got)
	}
	// The kernel gets it: the next thing to tell is another one.
	node.Kernel = []netip.Addr{netip.MustParseAddr("8.8.8.8")}
	if anew := keeper.learn(node); anew || len(keeper.news.problems) > 0 {
		t.Errorf("all of it anew: %t; %v", anew, keeper.news.problems)
	}
	if found, err := quiverd.VIPs(t.Context()); err != nil || len(found.VIPs) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// Somebody else is asked at many places: pods and Services that want these are told, and all others are there.
func TestWhoWantsAPlaceThatQuiverdRefusesIsTold(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	node := here
	node.Addresses = []netip.Addr{netip.MustParseAddr("192.168.7.1")}
	theirs := &quiver.Config{Vips: []*quiver.Vip{{Name: "theirs", Address: "192.168.7.1", Protocol: quiver.VipProtocol_VIP_PROTOCOL_TCP, Port: 8080}}}
	pod := service.Pod{
		Attachment: "a", Name: types.NamespacedName{Namespace: "default", Name: "dns"}, UID: "u-1", Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.7")},
		Ports: []service.PodPort{{Protocol: core.ProtocolTCP, Port: 8080, Target: 53}, {Protocol: core.ProtocolTCP, Port: 8081, Target: 54}},
	}
	c := many(3)
	for i := range 2 {
		c.services.Items[i].Spec.ExternalIPs = []string{"203.0.113.1"}
		c.services.Items[i].Spec.Ports[0].Port += int32(i)
		theirs.Vips = append(theirs.Vips, &quiver.Vip{Name: fmt.Sprintf("theirs-%d", i), Address: "203.0.113.1", Protocol: quiver.VipProtocol_VIP_PROTOCOL_TCP, Port: uint32(80 + i)})
	}
	if err := quiverd.Apply(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	teller := &told{texts: map[string]string{}}
	settings := Settings{Here: func() (service.Here, bool) { return node, true }, Pods: func() []service.Pod { return []service.Pod{pod} }, Teller: teller}
	keeper := New(settings, c.objects(t), quiverd, slog.New(slog.DiscardHandler))
	go keeper.Run(t.Context())
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	for name, want := range map[string]string{
		"dns": "u-1 false QuiverHostPort 192.168.7.1:8080 TCP: ", "web-0": "203.0.113.1:80 TCP: ", "web-1": "203.0.113.1:81 TCP: ",
	} {
		realtest.Eventually(t, name+" is told", func() bool { return strings.HasPrefix(teller.of(name), want) })
		if got := teller.of(name); !strings.Contains(got, "theirs") {
			t.Errorf("%s: told %q", name, got)
		}
	}
	found, err := quiverd.VIPs(t.Context())
	if err != nil || len(found.VIPs) != 4 || teller.of("web-2") != "" {
		t.Errorf("%d VIPs, %v, %q", len(found.VIPs), err, teller.of("web-2"))
	}
}

// A Service has a problem of its own, and quiverd refuses one of its VIPs: its owner is told of both, once, whatever of the two is looked at again.
func TestOwnersAreToldOfAllThatIsAmissOnce(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	c := many(1)
	c.services.Items[0].Spec.ExternalIPs = []string{"203.0.113.1", "nonsense"}
	theirs := &quiver.Config{Vips: []*quiver.Vip{{Name: "theirs", Address: "203.0.113.1", Protocol: quiver.VipProtocol_VIP_PROTOCOL_TCP, Port: 80}}}
	if err := quiverd.Apply(t.Context(), theirs, nil); err != nil {
		t.Fatal(err)
	}
	teller := &told{texts: map[string]string{}}
	node := here
	keeper := New(Settings{Here: func() (service.Here, bool) { return node, true }, Teller: teller}, c.objects(t), quiverd, slog.New(slog.DiscardHandler))
	go keeper.objects.Run(t.Context())
	realtest.Eventually(t, "all is there", func() bool { return keeper.bring(t.Context(), true) == nil })
	for _, words := range []string{"203.0.113.1:80 TCP: ", `"nonsense" is no IP address`} {
		if got := teller.of("web-0"); !strings.Contains(got, words) {
			t.Errorf("told %q, without %q", got, words)
		}
	}
	key := types.NamespacedName{Name: "web-0"}
	for _, again := range []func(){
		func() {},
		// All of it anew.
		func() { node.Zone = "elsewhere" },
		// Its own alone.
		func() { keeper.wanted.moved[types.NamespacedName{Namespace: "default", Name: "web-0"}] = true },
	} {
		again()
		for _, all := range []bool{false, true} {
			teller.TellService(key, "", "", "")
			if err := keeper.bring(t.Context(), all); err != nil || teller.of("web-0") != "" {
				t.Errorf("%v; told again: %q", err, teller.of("web-0"))
			}
		}
	}
	// The place is free: the rest is still to be said.
	if err := quiverd.Apply(t.Context(), nil, dataplane.Refs(theirs)); err != nil {
		t.Fatal(err)
	}
	if err := keeper.bring(t.Context(), true); err != nil || !strings.HasPrefix(teller.of("web-0"), "spec.externalIPs: ") {
		t.Errorf("%v, told %q", err, teller.of("web-0"))
	}
}
