package balance

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// party is a Service made at that time, which is asked at places ("=": that it has been given), and has endpoints at others.
type party struct {
	name    string
	created int64
	asked   []string
	listens []string
}

// rest is what is there of Services; empty: nothing.
func (w *wanted) rest() string {
	if len(w.sets)+len(w.claims)+len(w.listening)+len(w.listens)+len(w.dwelling)+len(w.named)+len(w.dwells)+len(w.placed)+len(w.holders)+len(w.vips)+len(w.places)+len(w.addresses)+len(w.led) == 0 {
		return ""
	}
	return fmt.Sprint(w.sets, w.claims, w.listening, w.listens, w.dwelling, w.named, w.dwells, w.placed, w.holders, w.vips, w.places, w.addresses, w.led)
}

func (p *party) key() types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: p.name}
}

func (p *party) set() (set service.Set) {
	var backends []service.Backend
	for _, text := range p.listens {
		at := netip.MustParseAddrPort(text)
		backends = append(backends, service.Backend{Address: at.Addr(), Port: at.Port()})
	}
	for _, text := range p.asked {
		bare, assigned := strings.CutPrefix(text, "=")
		at := netip.MustParseAddrPort(bare)
		set.VIPs = append(set.VIPs, service.VIP{
			Place: service.Place{Address: at.Addr(), Protocol: core.ProtocolTCP, Port: at.Port()}, Service: p.key(), PortOf: "p", Assigned: assigned, Backends: backends,
		})
	}
	return set
}

// outcome is who is asked where with which backends, and who is told what, whoever comes first.
func outcome(t *testing.T, parties ...party) (vips, told string) {
	t.Helper()
	for i, order := range [][]party{parties, {parties[1], parties[0]}} {
		w, texts := newWanted(), map[string]string{}
		put := func(p *party) { texts[p.name] = strings.Join(w.put(p.key(), p.created, p.set(), &here), "; ") }
		for j := range order {
			put(&order[j])
		}
		for j := range order {
			if w.moved[order[j].key()] {
				put(&order[j])
			}
		}
		var lines []string
		for _, vip := range w.vips {
			line := fmt.Sprintf("%s:%d=%s", vip.Address, vip.Port, strings.Split(vip.Name, ".")[1])
			for _, backend := range vip.Backends {
				line += " " + backend.Address
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		nowVips, nowTold := strings.Join(lines, ", "), fmt.Sprint(texts)
		if i > 0 && (nowVips != vips || nowTold != told) {
			t.Errorf("the other way about: %s; %s; not %s; %s", nowVips, nowTold, vips, told)
		}
		vips, told = nowVips, nowTold
		for j := range order {
			w.put(order[j].key(), 0, service.Set{}, &here)
		}
		if rest := w.rest(); rest != "" {
			t.Errorf("left: %s", rest)
		}
	}
	return vips, told
}

func TestWhereAnEndpointListensNobodyYoungerIsAsked(t *testing.T) {
	server := party{"kubernetes", 1, []string{"=10.96.0.1:443"}, []string{"192.168.7.1:6443"}}
	for _, c := range []struct {
		one, other party
		vips, told string
	}{
		{
			server, party{"a", 2, []string{"=10.96.0.2:6443", "192.168.7.1:6443"}, []string{"203.0.113.7:1"}},
			"10.96.0.1:443=kubernetes 192.168.7.1, 10.96.0.2:6443=a 203.0.113.7",
			"map[a:192.168.7.1:6443 TCP is where an endpoint of Service default/kubernetes listens, which is older kubernetes:]",
		},
		{
			// The other way: it loses the endpoint, and nothing else.
			party{"a", 1, []string{"192.168.7.1:6443"}, []string{"203.0.113.7:1"}}, party{"b", 2, []string{"=10.96.0.1:443"}, []string{"192.168.7.1:6443", "192.168.7.2:6443"}},
			"10.96.0.1:443=b 192.168.7.2, 192.168.7.1:6443=a 203.0.113.7",
			"map[a: b:an endpoint listens at 192.168.7.1:6443 TCP, where Service default/a is asked: it gets nothing]",
		},
		{
			// What is somebody's by the API server is so for who is older, too.
			party{"a", 1, []string{"10.96.0.1:443"}, []string{"203.0.113.7:1"}}, party{"b", 2, []string{"=10.96.0.1:443"}, []string{"192.168.7.1:6443"}},
			"10.96.0.1:443=b 192.168.7.1", "map[a:10.96.0.1:443 TCP has been given to Service default/b b:]",
		},
		{
			party{"a", 1, []string{"=10.96.0.2:80"}, []string{"10.96.0.1:443", "203.0.113.7:1"}}, party{"b", 2, []string{"=10.96.0.1:443"}, []string{"192.168.7.1:6443"}},
			"10.96.0.1:443=b 192.168.7.1, 10.96.0.2:80=a 203.0.113.7", "map[a:an endpoint listens at 10.96.0.1:443 TCP, where Service default/b is asked: it gets nothing b:]",
		},
		{
			// A Service's own endpoint at one of its own places is reached there without it.
			party{"a", 1, []string{"=10.96.0.2:80", "192.168.7.1:80"}, []string{"192.168.7.1:80", "192.168.7.2:80"}}, party{name: "b"},
			"10.96.0.2:80=a 192.168.7.1 192.168.7.2", "map[a:192.168.7.1:80 TCP is where an endpoint of this Service listens: it is asked there itself b:]",
		},
	} {
		if vips, told := outcome(t, c.one, c.other); vips != c.vips || told != c.told {
			t.Errorf("%s; %s", vips, told)
		}
	}
}

// A tenant's Service names a control plane's address: it isn't the API server's Service that goes without, whatever the two are called.
func TestTheServiceOfTheAPIServerIsntRefusedForATenants(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	c := many(2)
	server, tenant := &c.services.Items[1], &c.services.Items[0]
	server.CreationTimestamp, tenant.CreationTimestamp = meta.Unix(1000, 0), meta.Unix(2000, 0)
	c.slices.Items[1].Endpoints = c.slices.Items[1].Endpoints[:1]
	c.slices.Items[1].Endpoints[0].Addresses, c.slices.Items[1].Ports[0].Port = []string{"192.168.7.1"}, new(int32(6443))
	tenant.Spec.ExternalIPs, tenant.Spec.Ports[0].Port = []string{"192.168.7.1"}, 6443
	teller := &told{texts: map[string]string{}}
	node := here
	// It is this node: single ports of its address may be led away, but not this one.
	node.Own = []netip.Addr{netip.MustParseAddr("192.168.7.1")}
	node.Addresses, node.Nodes = node.Own, map[netip.Addr]bool{node.Own[0]: true}
	host := &led{}
	keeper := New(Settings{Here: func() (service.Here, bool) { return node, true }, Teller: teller, Host: host}, c.objects(t), quiverd, slog.New(slog.DiscardHandler))
	go keeper.Run(t.Context())
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	if of, at := answering(t, quiverd, server.Spec.ClusterIP), answering(t, quiverd, "192.168.7.1"); of != 1 || at != -1 || teller.of("web-1") != "" {
		t.Errorf("%d backends, and %d at the address itself; told %q", of, at, teller.of("web-1"))
	}
	if ports := host.externalPorts(); ports != nil {
		t.Errorf("led away: %q", ports)
	}
	if got := teller.of("web-0"); !strings.Contains(got, "192.168.7.1:6443 TCP is where an endpoint of Service default/web-1 listens, which is older") {
		t.Errorf("told %q", got)
	}
}
