package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What `quiver explain --output json` printed of a VIP with two backends, one that nobody serves, one whose backends are elsewhere, one whose
// backend has no route, and an address that is no VIP.
const (
	toBackend = `{"interface":"pod:default.a:0f:eth0","tenant":"pod:everybody","steps":[
		{"node":"ip4-session-input","object":{"kind":"tenant","name":"pod:everybody"},"found":"begins a session, with 0 of 1000000 there"},
		{"node":"balance","object":{"kind":"vip","name":"svc:shop.web.http:1"},"found":"is given the backend 10.0.1.7:8080, by the hash of the client"},
		{"node":"ip4-lookup","object":{"kind":"route","name":"default/0.0.0.0/0"},"found":"VRF default: 0.0.0.0/0, static"}],
		"verdict":"forwarded","out_interface":"pod:host","out_source":"10.0.0.5","out_source_port":1024,"out_destination":"10.0.1.7","out_destination_port":8080}`
	refused = `{"steps":[{"node":"balance","object":{"kind":"vip","name":"svc:shop.web.http:1"},"found":"has no backend that takes sessions"}],
		"verdict":"dropped","node":"balance","reason":"rejected","help":"The same, and the client is told.","out_source":"10.0.0.5","out_destination":"10.96.0.1","out_destination_port":80}`
	unrouted = `{"steps":[{"node":"balance","object":{"kind":"vip","name":"svc:shop.web.http:1"},"found":"is given the backend 10.0.1.7:8080, by the hash of the client"}],
		"verdict":"dropped","node":"ip4-lookup","reason":"no-route","help":"No route leads there.","out_source":"10.0.0.5","out_destination":"10.0.1.7","out_destination_port":8080}`
	noVIP = `{"steps":[{"node":"balance","found":"10.96.0.1:80 is no VIP: it passes as it is"}],
		"verdict":"dropped","node":"ip4-lookup","reason":"unreachable","out_source":"10.0.0.5","out_destination":"10.96.0.1","out_destination_port":80}`
	twoBackends = `{"vips":[{"name":"svc:shop.web.http:1","backends":[{"address":"10.0.1.7","port":8080,"state":"active"},{"address":"10.0.1.8","port":8080,"state":"active"},
		{"address":"10.0.1.9","port":8080,"state":"draining"},{"address":"10.0.1.10","port":8080,"state":"active","leaving":true}]}]}`
)

func web(clusterIPs ...string) behind {
	n2, http, port := "n2", "http", int32(8080)
	service := &core.Service{Spec: core.ServiceSpec{ClusterIP: clusterIPs[0], ClusterIPs: clusterIPs, Ports: []core.ServicePort{
		{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: core.ProtocolUDP}, {Name: "dns-tcp", Port: 53, Protocol: core.ProtocolTCP}}}}
	slice := discovery.EndpointSlice{
		Ports:     []discovery.EndpointPort{{Name: &http, Port: &port}},
		Endpoints: []discovery.Endpoint{{Addresses: []string{"10.0.1.7"}, NodeName: &n2}},
	}
	return behind{named: named{"shop", "web", ""}, service: service, slices: []discovery.EndpointSlice{slice}}
}

// endpoint is one on n2.
func endpoint(address string, conditions discovery.EndpointConditions) discovery.Endpoint {
	return discovery.Endpoint{Addresses: []string{address}, NodeName: new("n2"), Conditions: conditions}
}

func TestServicesAreNamedAsKubectlDoes(t *testing.T) {
	for text, want := range map[string]named{
		"svc/web": {"default", "web", ""}, "service/shop/web": {"shop", "web", ""}, "services/web:http": {"default", "web", "http"}, "svc/shop/web:80": {"shop", "web", "80"},
	} {
		if got, is := serviceNamed(text); !is || got != want {
			t.Errorf("%s: %+v, %t", text, got, is)
		}
	}
	for _, text := range []string{"web", "shop/web", "svc", "svc/", "fd00::5", "pod/web"} {
		if got, is := serviceNamed(text); is {
			t.Errorf("%s is %+v", text, got)
		}
	}
}

func TestExplainSaysWhoIsBehindAServiceAndWhatPoliciesSayOfThem(t *testing.T) {
	var asked []string
	said := map[string]string{
		"n1: explain 10.0.0.5 10.96.0.1:80 tcp":           toBackend,
		"n1: show vip svc:shop.web.http:1":                twoBackends,
		"n1: show acl --match 10.0.0.5 10.0.1.7 tcp/8080": said["n1"],
		"n2: show acl --match 10.0.0.5 10.0.1.7 tcp/8080": said["n2"],
		"n1: show acl --match 10.0.0.5 10.0.1.8 tcp/8080": said["n1"],
		"n2: show acl --match 10.0.0.5 10.0.1.8 tcp/8080": said["n3"],
	}
	ask := serial(func(node string, words ...string) ([]byte, error) {
		asked = append(asked, node+": "+strings.Join(words, " "))
		return []byte(said[asked[len(asked)-1]]), nil
	})
	from := end{addresses: addresses("10.0.0.5", "fd00::5"), node: "n1"}
	check := func(b behind, want string) {
		t.Helper()
		all, err := b.explain(from, "tcp/80", nil, ask)
		var out strings.Builder
		pass, failed := PrintVerdicts(&out, all, false)
		if err != nil || failed != nil || pass || out.String() != want {
			t.Errorf("%v, %v, passes %v:\n%s\nasked %q", err, failed, pass, out.String(), asked)
		}
	}
	many := web("10.96.0.1")
	unready, gone := discovery.EndpointConditions{Ready: new(false)}, discovery.EndpointConditions{Ready: new(false), Terminating: new(true)}
	many.slices[0].Endpoints = append(many.slices[0].Endpoints, endpoint("10.0.1.9", unready), endpoint("10.0.1.10", gone), endpoint("10.0.1.8", discovery.EndpointConditions{}))
	check(many, `FROM      TO             NODE  VERDICT  BECAUSE
10.0.0.5  10.96.0.1:80   n1    passes   Service shop/web, tcp/80 (http): is given the backend 10.0.1.7:8080, by the hash of the client; sessions from other ports may get another of 2; not given: 10.0.1.9:8080 (it isn't ready), 10.0.1.10:8080 (it is terminating)
10.0.0.5  10.0.1.7:8080  n1    passes   no policy is for it
10.0.0.5  10.0.1.7:8080  n2    denied   ingress: no rule of NetworkPolicy default/web.v1
10.0.0.5  10.0.1.8:8080  n1    passes   no policy is for it
10.0.0.5  10.0.1.8:8080  n2    passes   egress: egress-0.1 of NetworkPolicy red/asks; ingress: the node always reaches its pods
`)
	// Of a headless one, endpoints themselves are asked.
	check(web("None"), `FROM      TO             NODE  VERDICT  BECAUSE
10.0.0.5  10.0.1.7:8080  n1    passes   no policy is for it
10.0.0.5  10.0.1.7:8080  n2    denied   ingress: no rule of NetworkPolicy default/web.v1
`)
	said["n1: explain 10.0.0.5 10.96.0.1:80 tcp"] = refused
	check(web("10.96.0.1"), `FROM      TO            NODE  VERDICT  BECAUSE
10.0.0.5  10.96.0.1:80  n1    denied   Service shop/web, tcp/80 (http): has no backend that takes sessions: no endpoint of it is ready, and the client is refused at once
`)
	said["n1: explain 10.0.0.5 10.96.0.1:80 tcp"] = strings.Replace(refused, "rejected", "no-backend", 1)
	check(web("10.96.0.1"), `FROM      TO            NODE  VERDICT  BECAUSE
10.0.0.5  10.96.0.1:80  n1    denied   Service shop/web, tcp/80 (http): has no backend that takes sessions: its endpoints are on other nodes, which its traffic policy leaves out, and the packet is dropped
`)
	said["n1: explain 10.0.0.5 10.96.0.1:80 tcp"] = noVIP
	check(web("10.96.0.1"), `FROM      TO            NODE  VERDICT  BECAUSE
10.0.0.5  10.96.0.1:80  n1    denied   Service shop/web, tcp/80 (http): quiverd on the node doesn't know it: see the log of its agent, and whether it serves Services
`)
	// What stands in the way behind the VIP is told, too.
	said["n1: explain 10.0.0.5 10.96.0.1:80 tcp"] = unrouted
	said["n1: show vip svc:shop.web.http:1"] = `{}`
	said["n2: show acl --match 10.0.0.5 10.0.1.7 tcp/8080"] = said["n1: show acl --match 10.0.0.5 10.0.1.7 tcp/8080"]
	check(web("10.96.0.1"), `FROM      TO             NODE  VERDICT  BECAUSE
10.0.0.5  10.96.0.1:80   n1    passes   Service shop/web, tcp/80 (http): is given the backend 10.0.1.7:8080, by the hash of the client
10.0.0.5  10.0.1.7:8080  n1    passes   no policy is for it
10.0.0.5  10.0.1.7:8080  n2    passes   no policy is for it
10.0.0.5  10.0.1.7:8080  n1    denied   dropped by ip4-lookup: no-route: No route leads there.
`)
}

func TestWhatOfAServiceCannotBeAskedIsSaid(t *testing.T) {
	ask := func(string, ...string) ([]byte, error) { return []byte(`{}`), nil }
	pod := end{addresses: addresses("10.0.0.5"), node: "n1"}
	outside := web("10.96.0.1")
	outside.service.Spec.Type, outside.service.Spec.ExternalName = core.ServiceTypeExternalName, "web.example"
	empty := web("None")
	empty.slices = nil
	at := web("10.96.0.1")
	at.port = "dns"
	for _, one := range []struct {
		of       behind
		from     end
		protocol string
		says     string
	}{
		{web("10.96.0.1"), end{addresses: addresses("192.0.2.1")}, "tcp/80", "192.0.2.1 is outside of the cluster, and Service shop/web, tcp/80 (http) can't be asked from there"},
		{external(), end{addresses: addresses("2001:db8::1")}, "tcp/80", "can't be asked from outside by the family of 2001:db8::1"},
		{web("10.96.0.1"), pod, "", "tcp/80 (http), udp/53 (dns), tcp/53 (dns-tcp)"},
		{web("10.96.0.1"), pod, "tcp/81", "no such port; it has: tcp/80 (http), "},
		{web("10.96.0.1"), pod, "sctp/53", "no such port"},
		{at, pod, "tcp/53", "dns or 53"},
		{web("fd00:96::1"), pod, "tcp/80", "no address of the sender's families"},
		{outside, pod, "tcp/80", "web.example"},
		{empty, pod, "tcp/80", "no endpoint of it is ready"},
	} {
		if _, err := one.of.explain(one.from, one.protocol, []Node{quiverOn("n1")}, ask); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v", one.says, err)
		}
	}
	if port, err := at.choose("udp"); err != nil || port.Name != "dns" {
		t.Errorf("%v, %v", port, err)
	}
}

// external is a Service that can be asked from outside, at an address and at ports of nodes.
func external() behind {
	b := web("10.96.0.1")
	b.service.Spec.ExternalIPs, b.service.Spec.LoadBalancerSourceRanges = []string{"203.0.113.7"}, []string{"192.0.2.0/24"}
	b.service.Spec.Ports[0].NodePort = 30080
	name := "elsewhere"
	b.service.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{Hostname: name}, {IP: "203.0.113.8", IPMode: new(core.LoadBalancerIPModeProxy)}}
	return b
}

func TestExplainAsksEveryNodeForThoseOutsideAndItsOwnForAHost(t *testing.T) {
	n1 := Node{Name: "n1", Pod: pod(core.ConditionTrue), Addresses: addresses("192.168.7.1", "fd00:7::1"), Ranges: ranges("10.0.0.0/24", "fd00::/64")}
	n2 := Node{Name: "n2", Pod: pod(core.ConditionTrue), Addresses: addresses("fd00:7::2", "192.168.7.2"), Ranges: ranges("10.0.1.0/24")}
	nodes := []Node{n1, n2, {Name: "n3", Addresses: addresses("192.168.7.3")}}
	vips := `{"vips":[{"address":"192.168.7.1","protocol":"tcp","port":30080},{"address":"10.0.0.254","protocol":"udp","port":30080},
		{"address":"fd00::fe","protocol":"tcp","port":30080},{"address":"10.0.0.254","protocol":"tcp","port":30080}]}`
	passes := said["n1"]
	answers := map[string]string{
		"n1: explain 198.51.100.9 203.0.113.7:80 tcp": toBackend,
		"n2: explain 198.51.100.9 203.0.113.7:80 tcp": strings.Replace(refused, "rejected", "source-denied", 1),
		"n1: show vip": vips,
		"n2: show vip": `{}`,
		"n1: explain 198.51.100.9 10.0.0.254:30080 tcp":       toBackend,
		"n1: explain 192.168.7.1 10.96.0.1:80 tcp":            toBackend,
		"n1: explain 10.0.0.5 10.96.0.1:80 tcp":               toBackend,
		"n1: show vip svc:shop.web.http:1":                    `{}`,
		"n1: show acl --match 198.51.100.9 10.0.1.7 tcp/8080": passes,
		"n1: show acl --match 192.168.7.1 10.0.1.7 tcp/8080":  passes,
		"n1: show acl --match 10.0.0.5 10.0.1.7 tcp/8080":     passes,
		"n2: show acl --match 10.0.0.5 10.0.1.7 tcp/8080":     passes,
	}
	var asked []string
	ask := serial(func(node string, words ...string) ([]byte, error) {
		words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "--output" || word == "json" })
		asked = append(asked, node+": "+strings.Join(words, " "))
		if said, asked := isThere(words); asked {
			return said, nil
		}
		return []byte(answers[asked[len(asked)-1]]), nil
	})
	check := func(from end, b behind, want string) {
		t.Helper()
		asked = nil
		all, err := b.explain(from, "tcp/80", nodes, ask)
		var out strings.Builder
		_, failed := PrintVerdicts(&out, all, false)
		if err != nil || failed != nil || out.String() != want {
			t.Errorf("%v, %v:\n%s\nasked %q", err, failed, out.String(), asked)
		}
	}
	check(end{addresses: addresses("198.51.100.9")}, external(), `FROM          TO                 NODE  VERDICT  BECAUSE
198.51.100.9  203.0.113.7:80     n1    passes   Service shop/web, tcp/80 (http): is given the backend 10.0.1.7:8080, by the hash of the client
198.51.100.9  10.0.1.7:8080      n1    passes   no policy is for it
10.0.0.5      10.0.1.7:8080      n2    passes   no policy is for it
198.51.100.9  192.168.7.1:30080  n1    passes   Service shop/web, tcp/80 (http): is given the backend 10.0.1.7:8080, by the hash of the client
198.51.100.9  10.0.1.7:8080      n1    passes   no policy is for it
10.0.0.5      10.0.1.7:8080      n2    passes   no policy is for it
198.51.100.9  203.0.113.7:80     n2    denied   Service shop/web, tcp/80 (http): has no backend that takes sessions: spec.loadBalancerSourceRanges (192.0.2.0/24) don't have 198.51.100.9, and the packet is dropped
198.51.100.9  192.168.7.2:30080  n2    denied   Service shop/web, tcp/80 (http): quiverd on the node doesn't know its node port: see the log of its agent, and whether it serves Services
`)
	own := `FROM         TO             NODE  VERDICT  BECAUSE
192.168.7.1  10.96.0.1:80   n1    passes   Service shop/web, tcp/80 (http): is given the backend 10.0.1.7:8080, by the hash of the client
192.168.7.1  10.0.1.7:8080  n1    passes   no policy is for it
10.0.0.5     10.0.1.7:8080  n2    passes   no policy is for it
`
	check(end{addresses: addresses("192.168.7.1")}, external(), own)
	// An address of a pod is as good as its name.
	check(end{addresses: addresses("10.0.0.5")}.found(nodes), web("10.96.0.1"), `FROM      TO             NODE  VERDICT  BECAUSE
10.0.0.5  10.96.0.1:80   n1    passes   Service shop/web, tcp/80 (http): is given the backend 10.0.1.7:8080, by the hash of the client
10.0.0.5  10.0.1.7:8080  n1    passes   no policy is for it
10.0.0.5  10.0.1.7:8080  n2    passes   no policy is for it
`)
	if got := (end{addresses: addresses("10.0.9.1")}).found(nodes); got.node != "" {
		t.Errorf("%+v", got)
	}
}

func TestOfVeryManyEndpointsItIsSaidThatNotAllAreAskedAbout(t *testing.T) {
	var backends []string
	for i := range mostAsked + 3 {
		backends = append(backends, fmt.Sprintf(`{"address":"10.0.1.%d","port":8080,"state":"active"}`, 7+i))
	}
	b := web("10.96.0.1")
	all, err := b.explain(end{addresses: addresses("10.0.0.5"), node: "n1"}, "tcp/80", nil, func(_ string, words ...string) ([]byte, error) {
		switch strings.Join(words[:2], " ") {
		case "show vip":
			return fmt.Appendf(nil, `{"vips":[{"backends":[%s]}]}`, strings.Join(backends, ",")), nil
		case "show acl":
			return []byte(said["n1"]), nil
		}
		return []byte(toBackend), nil
	})
	last := Verdict{}
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	if err != nil || last.word() != "unknown" || !strings.Contains(last.Because, "3 more of its endpoints may be given") || len(all[0].Endpoints) != mostAsked+3 {
		t.Errorf("%v, %+v", err, last)
	}
}

// Backends of one VIP may be for those inside alone, or for those outside.
func TestOnlyBackendsThatAClientMayGetAreCounted(t *testing.T) {
	vips := func(clients ...string) func(...string) ([]byte, error) {
		var all []string
		for i, word := range clients {
			all = append(all, fmt.Sprintf(`{"address":"10.0.1.%d","port":80,"state":"active","clients":%q}`, i, word))
		}
		return func(...string) ([]byte, error) {
			return fmt.Appendf(nil, `{"vips":[{"backends":[%s]}]}`, strings.Join(all, ",")), nil
		}
	}
	for _, c := range []struct {
		clients         []string
		inside, outside string
	}{
		{[]string{"all", "inside", "inside"}, "; sessions from other ports may get another of 3", ""},
		{[]string{"all", "all", "inside", "outside"}, "; sessions from other ports may get another of 3", "; sessions from other ports may get another of 3"},
		{[]string{"all", "inside", "outside", "outside"}, "; sessions from other ports may get another of 2", "; sessions from other ports may get another of 3"},
	} {
		b, chosen := web("10.96.0.1"), netip.MustParseAddrPort("10.0.1.0:80")
		takers := func() string {
			all, _ := b.takers("web", chosen, vips(c.clients...))
			return others(all)
		}
		inside := takers()
		b.outside = true
		if outside := takers(); inside != c.inside || outside != c.outside {
			t.Errorf("%q: inside %q, outside %q", c.clients, inside, outside)
		}
	}
}

func TestNodesSayWhatTheyAreAndWhatTheirPodsHave(t *testing.T) {
	got := nodeOf(&core.Node{
		ObjectMeta: meta.ObjectMeta{Name: "n1", Labels: map[string]string{core.LabelTopologyZone: "z1"}}, Spec: core.NodeSpec{PodCIDRs: []string{"10.0.0.0/24", "fd00::/64"}, Unschedulable: true},
		Status: core.NodeStatus{Addresses: []core.NodeAddress{{Type: core.NodeHostName, Address: "n1"}, {Type: core.NodeInternalIP, Address: "192.168.7.1"}, {Type: core.NodeExternalIP, Address: "fd00:7::1"}}},
	}, nil)
	if got.Name != "n1" || got.Zone != "z1" || !got.Closed || !slices.Equal(got.Addresses, addresses("192.168.7.1", "fd00:7::1")) || !slices.Equal(got.Ranges, ranges("10.0.0.0/24", "fd00::/64")) {
		t.Errorf("%+v", got)
	}
}

func ranges(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
