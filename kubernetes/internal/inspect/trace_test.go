package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What `quiver` printed of a SYN to a Service, whose backend is on the other node, and of others beside it.
const (
	routesOfPod = `{"objects": [
		{"object": {"route": {"prefix": "10.244.7.3/32", "next_hops": [{"interface": "pod:default.other:5096cfc6:eth0"}]}}},
		{"object": {"route": {"prefix": "10.244.7.0/24"}}},
		{"object": {"route": {"prefix": "10.244.7.2/32", "next_hops": [{"interface": "pod:default.client:dcf4c0dd:eth0"}],
			"port_split": {"ports": ["tcp:80-80"], "next_hop": {"interface": "pod:default.client:dcf4c0dd:memif-eth0"}}}}}]}`
	interfacesOfNode = `{"objects": [
		{"object": {"interface": {"name": "pod:gateway", "loopback": {}}}},
		{"object": {"interface": {"name": "pod:host", "tap": {"host_name": "quiver0"}}}},
		{"object": {"interface": {"name": "uplink", "af_packet": {"host_interface": "eth1"}}}},
		{"object": {"interface": {"name": "pod:shop.web:5096cfc6:eth0", "tap": {}}}}]}`
	sent = `{"interface": "pod:default.client:dcf4c0dd:eth0", "timestamp_ns": 1795461092195188658, "steps": [
		{"node": "tap-input", "text": "interface 3 length 60"},
		{"node": "ip4-input", "offset_ns": 29877, "text": "IP4: 10.244.7.2 -> 10.96.0.10 TCP ttl 64 len 60 DF\nTCP: 38876 -> 80 SYN seq 1207852559 ack 0 window 64240 mss 1460 wscale 10\n-> ip4-lookup"},
		{"node": "tap-tx", "offset_ns": 84010}]}`
	// (To a port of the same number.)
	elsewhere = `{"interface": "pod:default.client:dcf4c0dd:eth0", "timestamp_ns": 1795461092195188650, "steps": [
		{"node": "ip4-input", "offset_ns": 29877, "text": "IP4: 10.244.7.2 -> 10.96.0.1 TCP ttl 64 len 60 DF\nTCP: 38870 -> 80 SYN seq 3 ack 0 window 64240\n-> ip4-lookup"}]}`
	arrived = `{"interface": "pod:host", "timestamp_ns": 1795461092195288658, "steps": [
		{"node": "ip4-input", "offset_ns": 29877, "text": "IP4: 10.244.7.2 -> 10.244.8.5 TCP ttl 62 len 60 DF\nTCP: 38876 -> 8080 SYN seq 1207852559 ack 0 window 64240 mss 1460 wscale 10\n-> ip4-session-input"},
		{"node": "drop", "offset_ns": 40000, "text": "ingress-denied"}]}`
)

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func quiverOn(name string) Node { return Node{Name: name, Pod: pod(core.ConditionTrue)} }

// nodes answers as two nodes do: what `trace show` says comes from shows, the last for ever.
type nodes struct {
	mutex sync.Mutex
	shows map[string][]string
	calls []string
	fails string
	// Whoever has asked goes away when this has been said.
	until  string
	cancel context.CancelFunc
}

func (n *nodes) call(ctx context.Context, node string, words ...string) ([]byte, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	line := node + ": " + strings.TrimSuffix(strings.Join(words, " "), " --output json")
	n.calls = append(n.calls, line)
	switch {
	case n.fails != "" && strings.HasPrefix(line, n.fails):
		return nil, errors.New("command terminated with exit code 3")
	case words[0] == "get" && words[1] == "route":
		return []byte(routesOfPod), nil
	case words[0] == "get":
		return []byte(interfacesOfNode), nil
	case words[1] != "show":
		return nil, nil
	}
	shows := n.shows[node]
	if len(shows) > 1 {
		n.shows[node] = shows[1:]
	}
	if n.cancel != nil && shows[0] == n.until {
		n.cancel()
	}
	return fmt.Appendf(nil, `{"packets": [%s]}`, shows[0]), nil
}

// ordered is a plan for a Service, with a backend on n2 alone.
func ordered(t *testing.T, order Order) *plan {
	t.Helper()
	order.From = "client"
	to := receiver{asked: addresses("10.96.0.10"), answers: addresses("10.244.8.5"), nodes: []string{"n2"}, service: true}
	all, err := spots(order, end{addresses: addresses("10.244.7.2"), node: "n1"}, to, []Node{quiverOn("n1"), quiverOn("n2"), quiverOn("n3")})
	if err != nil {
		t.Fatal(err)
	}
	return &plan{order, all, true, time.Millisecond}
}

func TestAPacketIsFollowedToAnotherNodeThroughAService(t *testing.T) {
	n := &nodes{shows: map[string][]string{"n1": {"", elsewhere, elsewhere + "," + sent}, "n2": {"", arrived}}}
	traced, err := ordered(t, Order{Protocol: "tcp", Port: 80, Count: 1, Timeout: time.Minute}).run(t.Context(), n.call)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := PrintTraced(&out, traced, false); err != nil {
		t.Fatal(err)
	}
	want := `Packet 1: IP4: 10.244.7.2 -> 10.96.0.10 TCP ttl 64 len 60 DF; TCP: 38876 -> 80 SYN seq 1207852559 ack 0 window 64240 mss 1460 wscale 10
  n1, from pod:default.client:dcf4c0dd:eth0 at 19:11:32.195188
    tap-input  +0.0 us   interface 3 length 60
    ip4-input  +29.9 us  IP4: 10.244.7.2 -> 10.96.0.10 TCP ttl 64 len 60 DF
                         TCP: 38876 -> 80 SYN seq 1207852559 ack 0 window 64240 mss 1460 wscale 10
    tap-tx     +84.0 us  
  n2, from pod:host at 19:11:32.195288
    ip4-input  +29.9 us  IP4: 10.244.7.2 -> 10.244.8.5 TCP ttl 62 len 60 DF
                         TCP: 38876 -> 8080 SYN seq 1207852559 ack 0 window 64240 mss 1460 wscale 10
    drop       +40.0 us  ingress-denied

Meant, of those traced: n1: 1 of 2 packets, n2: 1 of 1 packets
`
	if out.String() != want {
		t.Errorf("printed:\n%s", out.String())
	}
	// Where they arrive first; the memif's, too; n3 isn't asked; and nothing is left.
	var steps []string
	for _, call := range n.calls {
		if !strings.Contains(call, " show") {
			steps = append(steps, call)
		}
	}
	if want := []string{
		"n2: get interface --status", "n2: trace clear", "n2: trace add pod:host 500", "n2: trace add uplink 500",
		"n1: get route --status", "n1: trace clear", "n1: trace add pod:default.client:dcf4c0dd:eth0 500", "n1: trace add pod:default.client:dcf4c0dd:memif-eth0 500",
		"n1: trace clear", "n2: trace clear",
	}; !slices.Equal(steps, want) {
		t.Errorf("asked %q", steps)
	}
}

func TestWhatArrivesBeyondWhatIsWantedIsNotShown(t *testing.T) {
	ping := func(number int, source string) Hop {
		transport := fmt.Sprintf("ICMP: echo-request id 13 seq %d", number)
		return Hop{Node: source, headers: headers{protocol: "icmp", transport: transport, network: "IP4"}}
	}
	pings := func(source string, numbers ...int) (all []Hop) {
		for _, number := range numbers {
			all = append(all, ping(number, source))
		}
		return all
	}
	for _, one := range []struct {
		sent, arrived, want []int
	}{
		// The first came before the sender's node was looked at, and the last ones are more than were asked for.
		{[]int{2, 3, 4}, []int{1, 2, 3, 4}, []int{2}},
		// What was cut or joined is nobody's, but came after one that is.
		{[]int{2, 3}, []int{1, 2, 9, 3}, []int{2, 9}},
		// Nothing can be told apart.
		{[]int{2, 3}, []int{7, 8}, []int{7, 8}},
		// Sent twice, and wanted once.
		{[]int{2, 2}, []int{2, 2}, []int{2}},
	} {
		sent := pings("n1", one.sent...)
		got := arrivals(pings("n2", one.arrived...), sent[:1], sent[1:])
		same := func(a, b Hop) bool { return a.headers == b.headers }
		if want := pings("n2", one.want...); !slices.EqualFunc(got, want, same) {
			t.Errorf("%v, %v: %+v", one.sent, one.arrived, got)
		}
	}
}

func TestWhatDidNotArriveIsTold(t *testing.T) {
	n := &nodes{shows: map[string][]string{"n1": {sent}, "n2": {""}}}
	traced, err := ordered(t, Order{Count: 1, Timeout: time.Minute}).run(t.Context(), n.call)
	var out strings.Builder
	if err == nil {
		err = PrintTraced(&out, traced, false)
	}
	if err != nil || !strings.Contains(out.String(), "\n  not seen on n2\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestTracesEndWithoutPackets(t *testing.T) {
	n := &nodes{shows: map[string][]string{"n1": {elsewhere}, "n2": {""}}}
	_, err := ordered(t, Order{Count: 1, Timeout: 20 * time.Millisecond}).run(t.Context(), n.call)
	var nothing *NothingError
	if !errors.As(err, &nothing) || nothing.Others != 1 || nothing.Node != "n1" {
		t.Errorf("%v", err)
	}
	// A node that fails ends it, and is named; traces are forgotten all the same.
	for _, fails := range []string{"n2: trace show", "n2: trace add", "n1: get"} {
		n = &nodes{shows: map[string][]string{"n1": {""}, "n2": {""}}, fails: fails}
		_, err = ordered(t, Order{Count: 1, Timeout: time.Hour}).run(t.Context(), n.call)
		if err == nil || !strings.HasPrefix(err.Error(), "node "+fails[:2]+": ") {
			t.Errorf("%s: %v", fails, err)
		}
		if last := n.calls[len(n.calls)-2:]; !slices.Equal(last, []string{"n1: trace clear", "n2: trace clear"}) {
			t.Errorf("%s: %q", fails, last)
		}
	}
	// Whoever asked went away.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ordered(t, Order{Count: 1, Timeout: time.Hour}).run(ctx, n.call); err == nil {
		t.Error("it is traced for nobody")
	}
}

func TestAnInterruptedTraceShowsWhatThereIs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := &nodes{shows: map[string][]string{"n1": {"", sent}, "n2": {arrived}}, until: sent, cancel: cancel}
	traced, err := ordered(t, Order{Count: 2, Timeout: time.Hour}).run(ctx, n.call)
	if err != nil || !traced.Interrupted || len(traced.Ways) != 1 || len(traced.Ways[0].Hops) != 2 {
		t.Fatalf("%v: %+v", err, traced)
	}
	if last := n.calls[len(n.calls)-2:]; !slices.Equal(last, []string{"n1: trace clear", "n2: trace clear"}) {
		t.Errorf("%q", last)
	}
	// Of no packet it is said, too.
	ctx, cancel = context.WithCancel(t.Context())
	n = &nodes{shows: map[string][]string{"n1": {"", elsewhere}, "n2": {""}}, until: elsewhere, cancel: cancel}
	_, err = ordered(t, Order{Count: 1, Timeout: time.Hour}).run(ctx, n.call)
	if err == nil || err.Error() != "pod client on node n1 sent no such packet until now, and 1 others" {
		t.Errorf("%v", err)
	}
	// Who has enough isn't interrupted.
	n = &nodes{shows: map[string][]string{"n1": {"", sent}, "n2": {arrived}}}
	if traced, err = ordered(t, Order{Count: 1, Timeout: time.Hour}).run(t.Context(), n.call); err != nil || traced.Interrupted {
		t.Errorf("%v: %+v", err, traced)
	}
}

func TestABusyPodIsTracedInLots(t *testing.T) {
	full := strings.Repeat(elsewhere+",", lot-1) + sent
	n := &nodes{shows: map[string][]string{"n1": {full, "", sent}, "n2": {""}}}
	plan := ordered(t, Order{Count: 2, Timeout: time.Minute})
	traced, err := plan.run(t.Context(), n.call)
	if err != nil || len(traced.Ways) != 2 || traced.Nodes[0] != (Seen{"n1", lot + 1, 2}) {
		t.Errorf("%v: %+v", err, traced)
	}
}

func TestFlowsAreToldApart(t *testing.T) {
	text := "IP6: fd00::2 -> fd00::3 HopByHop hop-limit 64 len 50\nIP6 extensions: hop-by-hop then UDP\nUDP: 1234 -> 53 len 10"
	ping := "IP6: fd00::2 -> fd00::3 ICMP6 hop-limit 64 len 104\nICMP6: echo-request id 7 seq 1\n-> ip6-rpf"
	inner := "IP4: 192.168.7.1 -> 192.168.7.2 UDP ttl 64 len 90\nUDP: 5000 -> 4789 len 70"
	for _, one := range []struct {
		flow flow
		text string
		want bool
	}{
		{flow{}, text, true},
		{flow{protocol: "udp", port: 53}, text, true},
		{flow{protocol: "udp", port: 54}, text, false},
		{flow{protocol: "tcp"}, text, false},
		{flow{sources: addresses("fd00::2", "10.0.0.2"), destinations: addresses("fd00::3")}, text, true},
		{flow{destinations: addresses("fd00::4")}, text, false},
		{flow{destinations: []netip.Addr{}}, text, false},
		{flow{protocol: "icmp"}, ping, true},
		{flow{protocol: "sctp"}, "IP4: 10.0.0.1 -> 10.0.0.2 SCTP ttl 64 len 50\npayload: SCTP", true},
		{flow{}, "interface 3 length 60", false},
		{flow{}, "IP4: cut off: header takes 20 bytes, 6 are there", false},
		// What a tunnel carries is shown by a later step.
		{flow{sources: addresses("fd00::2")}, inner, false},
	} {
		if _, is := one.flow.among([]Step{{Text: "84 bytes"}, {Text: one.text}}); is != one.want {
			t.Errorf("%+v, %q: %t", one.flow, one.text, is)
		}
	}
	if found, is := (flow{sources: addresses("fd00::2")}).among([]Step{{Text: inner}, {Text: ping}}); !is || found.mark() != "ICMP6: echo-request id 7 seq 1" {
		t.Errorf("in a tunnel: %+v", found)
	}
}

func TestWhereServicesLead(t *testing.T) {
	on := func(node string) *string { return &node }
	service := &core.Service{
		Spec:   core.ServiceSpec{ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10", "fd00:96::10"}, ExternalIPs: []string{"192.0.2.1"}},
		Status: core.ServiceStatus{LoadBalancer: core.LoadBalancerStatus{Ingress: []core.LoadBalancerIngress{{IP: "192.0.2.2"}, {Hostname: "web"}}}},
	}
	endpoints := []discovery.EndpointSlice{
		{Endpoints: []discovery.Endpoint{{Addresses: []string{"10.244.8.5"}, NodeName: on("n2")}, {Addresses: []string{"10.244.8.6"}, NodeName: on("n2")}}},
		{Endpoints: []discovery.Endpoint{{Addresses: []string{"fd00:8::5"}, NodeName: on("n3")}}},
	}
	behind := addresses("10.244.8.5", "10.244.8.6", "fd00:8::5")
	got := receiverOf(service, endpoints)
	if !slices.Equal(got.asked, addresses("10.96.0.10", "fd00:96::10", "192.0.2.1", "192.0.2.2")) || !slices.Equal(got.answers, behind) ||
		!slices.Equal(got.nodes, []string{"n2", "n3"}) || !got.service {
		t.Errorf("%+v", got)
	}
	service.Spec = core.ServiceSpec{ClusterIP: core.ClusterIPNone, ClusterIPs: []string{core.ClusterIPNone}}
	service.Status = core.ServiceStatus{}
	if got = receiverOf(service, endpoints); !slices.Equal(got.asked, behind) || got.service {
		t.Errorf("headless: %+v", got)
	}
}

func TestNodesWithoutQuiverCannotTrace(t *testing.T) {
	sender := end{addresses: addresses("10.244.7.2"), node: "n1"}
	all := []Node{{Name: "n1", Pod: nil}, quiverOn("n2")}
	if _, err := spots(Order{From: "client"}, sender, receiver{}, all); err == nil || !strings.Contains(err.Error(), "node n1, which has no pod of Quiver") {
		t.Errorf("%v", err)
	}
	// To anybody: wherever Quiver is.
	found, err := spots(Order{From: "client"}, sender, receiver{}, []Node{quiverOn("n1"), {Name: "n3", Pod: nil}, quiverOn("n2")})
	if err != nil || len(found) != 2 || found[0].node != "n1" || found[1].node != "n2" {
		t.Errorf("%v, %v", found, err)
	}
	_, err = attached(func(...string) ([]byte, error) { return []byte(routesOfPod), nil }, "stranger", addresses("10.0.0.9"))
	if err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("%v", err)
	}
}

func TestEveryNodeSaysItsPart(t *testing.T) {
	var out strings.Builder
	all := []Node{quiverOn("n1"), {Name: "n2", Pod: nil}, {Name: "n3", Pod: &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "q"}}}}
	err := each(&out, all, func(node Node) ([]byte, error) {
		if node.Name == "n3" {
			return nil, errors.New("command terminated with exit code 3")
		}
		return []byte("no drops\n"), nil
	})
	if out.String() != "n1:\nno drops\n" || err == nil || err.Error() != "node n3: command terminated with exit code 3" {
		t.Errorf("%v: %q", err, out.String())
	}
	if words := strings.Join(capture([]string{"a", "b"}, []string{"--count", "3"}), " "); words != "pcap start --write - --interface a --interface b --count 3" {
		t.Error(words)
	}
}
