package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// apiOf is a cluster whose API server has these objects, and tells of nothing else.
func apiOf(t *testing.T, services []core.Service, slices []discovery.EndpointSlice, pods []core.Pod) *Cluster {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		path := request.URL.Path
		var answer any
		switch {
		case path == "/api/v1/services" && services != nil:
			answer = core.ServiceList{Items: services}
		case path == "/api/v1/pods":
			answer = core.PodList{Items: pods}
		case strings.HasSuffix(path, "/endpointslices"):
			found := discovery.EndpointSliceList{}
			for _, one := range slices {
				if strings.HasSuffix(request.URL.Query().Get("labelSelector"), "="+one.Labels[discovery.LabelServiceName]) {
					found.Items = append(found.Items, one)
				}
			}
			answer = found
		default:
			for _, one := range services {
				if path == "/api/v1/namespaces/"+one.Namespace+"/services/"+one.Name {
					answer = one
				}
			}
			for _, one := range pods {
				if path == "/api/v1/namespaces/"+one.Namespace+"/pods/"+one.Name {
					answer = one
				}
			}
		}
		if path == "/api/v1/nodes/n1" {
			answer = core.Node{ObjectMeta: meta.ObjectMeta{Name: "n1"}, Status: core.NodeStatus{Addresses: []core.NodeAddress{{Address: "192.168.7.1"}, {Address: "n1"}, {Address: "fd00:7::1"}}}}
		}
		out.Header().Set("Content-Type", "application/json")
		if answer == nil && strings.Count(path, "/") >= 4 && !strings.HasSuffix(path, "/endpointslices") {
			// One object that isn't there.
			out.WriteHeader(http.StatusNotFound)
			answer = meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure, Message: "not found", Reason: meta.StatusReasonNotFound, Code: http.StatusNotFound}
		} else if answer == nil {
			out.WriteHeader(http.StatusForbidden)
			answer = meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure, Message: "may not", Reason: meta.StatusReasonForbidden, Code: http.StatusForbidden}
		}
		_ = json.NewEncoder(out).Encode(answer)
	}))
	t.Cleanup(server.Close)
	cluster, err := Connect(&rest.Config{Host: server.URL, QPS: -1}, "quiver")
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// served is a Service with one TCP port, and its endpoints on n2.
func served(name, clusterIP string, port, nodePort, target int32, endpoints ...string) (core.Service, discovery.EndpointSlice) {
	service := core.Service{
		ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       core.ServiceSpec{ClusterIP: clusterIP, ClusterIPs: []string{clusterIP}, Ports: []core.ServicePort{{Name: "http", Port: port, NodePort: nodePort}}},
	}
	slice := discovery.EndpointSlice{
		ObjectMeta: meta.ObjectMeta{Labels: map[string]string{discovery.LabelServiceName: name}},
		Ports:      []discovery.EndpointPort{{Name: new("http"), Port: new(target)}},
	}
	for _, one := range endpoints {
		slice.Endpoints = append(slice.Endpoints, endpoint(one, discovery.EndpointConditions{}))
	}
	return service, slice
}

// isThere answers that an address is a pod's, if that is asked.
func isThere(words []string) (said []byte, asked bool) {
	if len(words) < 3 || words[0] != "show" || words[1] != "fib" {
		return nil, false
	}
	address := netip.MustParseAddr(words[2])
	return fmt.Appendf(nil, `{"entries":[{"prefix":"%v","source":"static","action":"forward"}]}`, netip.PrefixFrom(address, address.BitLen())), true
}

// asks answers as nodes do, and fails where nothing is known; all addresses are there.
func asks(answers map[string]string) asker {
	return func(node string, words ...string) ([]byte, error) {
		line := node + ": " + strings.Join(words, " ")
		if text, is := answers[line]; is {
			return []byte(text), nil
		}
		if said, asked := isThere(words); asked {
			return said, nil
		}
		return nil, fmt.Errorf("nobody knows what %q says", line)
	}
}

var (
	addressNodes = []Node{
		{Name: "n1", Pod: pod(core.ConditionTrue), Addresses: addresses("192.168.7.1"), Ranges: ranges("10.0.0.0/24")},
		{Name: "n2", Pod: pod(core.ConditionTrue), Addresses: addresses("192.168.7.2"), Ranges: ranges("10.0.1.0/24")},
	}
	podOnN1 = end{addresses: addresses("10.0.0.5"), node: "n1"}
	podOnN2 = end{addresses: addresses("10.0.1.5"), node: "n2"}
)

// given is toBackend for another VIP.
func given(vip, from, to string) string {
	backend := netip.MustParseAddrPort(to)
	return fmt.Sprintf(`{"steps":[{"node":"balance","object":{"kind":"vip","name":%q},"found":"is given the backend %s, by the hash of the client"}],
		"verdict":"forwarded","out_source":%q,"out_destination":%q,"out_destination_port":%d}`, vip, to, from, backend.Addr().String(), backend.Port())
}

func explained(t *testing.T, cluster *Cluster, sender end, to, protocol string, answers map[string]string) (string, bool, error) {
	t.Helper()
	wanted, err := readSession(protocol, to)
	if err != nil {
		t.Fatal(err)
	}
	all, err := cluster.explainAddress(t.Context(), sender, netip.MustParseAddr(to), wanted, addressNodes, asks(answers))
	if err != nil {
		return "", false, err
	}
	var out strings.Builder
	pass, err := PrintVerdicts(&out, all, false)
	if err != nil {
		t.Fatal(err)
	}
	// (Columns are as wide as they must be; the last one is a sentence.)
	var lines []string
	for line := range strings.Lines(out.String()) {
		if fields := strings.Fields(line); fields[0] != "FROM" {
			lines = append(lines, strings.Join(fields, " "))
		}
	}
	return strings.Join(lines, "\n"), pass, nil
}

func TestASessionToAnAddressIsExplainedAsTheServiceHasItThatAnswersThere(t *testing.T) {
	web, its := served("web", "10.96.0.1", 80, 30080, 8080, "10.0.1.7", "10.0.1.8")
	web.Spec.ExternalIPs = []string{"203.0.113.7"}
	web.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{IP: "203.0.113.8"}}
	later, none := served("later", "10.96.0.2", 80, 0, 8080)
	later.CreationTimestamp, later.Spec.ExternalIPs = meta.Unix(1, 0), []string{"203.0.113.7"}
	server, host := served("kubernetes", "10.96.0.3", 443, 0, 6443, "192.168.7.2")
	headless, more := served("headless", core.ClusterIPNone, 80, 0, 8080, "10.0.1.7")
	cluster := apiOf(t, []core.Service{headless, later, web, server}, []discovery.EndpointSlice{more, none, its, host}, nil)
	const vip = "svc:shop.web.http:1"
	vips := `{"vips":[{"name":"svc:shop.web.http:1","backends":[{"address":"10.0.1.7","port":8080,"state":"active"},{"address":"10.0.1.8","port":8080,"state":"active"}]}]}`
	nodePort := `{"vips":[{"address":"10.0.1.254","protocol":"tcp","port":30080}]}`
	allowed := said["n1"]
	answers := map[string]string{
		"n1: show vip " + vip: vips, "n2: show vip " + vip: vips, "n2: show vip": nodePort,
		"n1: show acl --match 10.0.0.5 10.0.1.7 tcp/8080":     allowed,
		"n2: show acl --match 10.0.0.5 10.0.1.7 tcp/8080":     allowed,
		"n1: show acl --match 10.0.0.5 10.0.1.8 tcp/8080":     allowed,
		"n2: show acl --match 10.0.0.5 10.0.1.8 tcp/8080":     said["n2"],
		"n2: show acl --match 192.168.7.1 10.0.1.7 tcp/8080":  allowed,
		"n2: show acl --match 192.168.7.1 10.0.1.8 tcp/8080":  said["n2"],
		"n1: show acl --match 10.0.0.5 192.168.7.2 tcp/30080": allowed,
		"n1: show acl --match 10.0.0.5 192.168.7.2 tcp/6443":  allowed,
		"n1: get interface":                        `{"objects":[{"object":{"interface":{"name":"pod:uplink"}}}]}`,
		"n1: show vip svc:shop.kubernetes.https:1": `{}`,
		"n1: explain 10.0.0.5 10.96.0.3:443 tcp":   given("svc:shop.kubernetes.https:1", "10.0.0.5", "192.168.7.2:6443"),
	}
	for _, at := range []string{"10.96.0.1", "203.0.113.7", "203.0.113.8"} {
		answers["n1: explain 10.0.0.5 "+at+":80 tcp"] = given(vip, "10.0.0.5", "10.0.1.7:8080")
	}
	answers["n2: explain 192.168.7.1 10.0.1.254:30080 tcp"] = given(vip, "192.168.7.1", "10.0.1.7:8080")
	answers["n2: explain 192.168.7.1 192.168.7.2:30080 tcp"] = `{}`
	behind := `10.0.0.5 10.0.1.7:8080 n1 passes no policy is for it
10.0.0.5 10.0.1.7:8080 n2 passes no policy is for it
10.0.0.5 10.0.1.8:8080 n1 passes no policy is for it
10.0.0.5 10.0.1.8:8080 n2 denied ingress: no rule of NetworkPolicy default/web.v1`
	gets := "is given the backend 10.0.1.7:8080, by the hash of the client; sessions from other ports may get another of 2\n"
	for to, first := range map[string]string{
		"10.96.0.1":   "10.0.0.5 10.96.0.1:80 n1 passes Service shop/web, tcp/80 (http) at its cluster address: ",
		"203.0.113.7": "10.0.0.5 203.0.113.7:80 n1 passes Service shop/web, tcp/80 (http) at its external address (so is shop/later, which comes later): ",
		"203.0.113.8": "10.0.0.5 203.0.113.8:80 n1 passes Service shop/web, tcp/80 (http) at its load balancer's address: ",
	} {
		if got, pass, err := explained(t, cluster, podOnN1, to, "tcp/80", answers); err != nil || pass || got != first+gets+behind {
			t.Errorf("%s: %v, passes %t:\n%s", to, err, pass, got)
		}
	}
	// Another node's port: its own policies at the sender, then as that node has it, which sees the sender's node beside a port of Quiver's.
	got, pass, err := explained(t, cluster, podOnN1, "192.168.7.2", "tcp/30080", answers)
	want := `10.0.0.5 192.168.7.2:30080 n1 passes no policy is for it
192.168.7.1 192.168.7.2:30080 n2 passes Service shop/web, tcp/80 (http) at its node port: ` + gets + `192.168.7.1 10.0.1.7:8080 n2 passes no policy is for it
192.168.7.1 10.0.1.8:8080 n2 denied ingress: no rule of NetworkPolicy default/web.v1`
	if err != nil || pass || got != want {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	// So is another node's host, of which no policy says anything before.
	if got, pass, err = explained(t, cluster, end{addresses: addresses("192.168.7.1")}, "192.168.7.2", "tcp/30080", answers); err != nil || pass || got != strings.SplitN(want, "\n", 2)[1] {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	// An endpoint may be a node itself.
	got, pass, err = explained(t, cluster, podOnN1, "10.96.0.3", "tcp/443", answers)
	want = `10.0.0.5 10.96.0.3:443 n1 passes Service shop/kubernetes, tcp/443 (http) at its cluster address: is given the backend 192.168.7.2:6443, by the hash of the client
10.0.0.5 192.168.7.2:6443 n1 passes no policy is for it
10.0.0.5 192.168.7.2:6443 n2 unknown is node n2 itself: ` + notLooked
	if err != nil || pass || got != want {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	// From outside every node is asked.
	for _, node := range []string{"n1", "n2"} {
		answers[node+": explain 198.51.100.9 203.0.113.8:80 tcp"] = strings.Replace(refused, "rejected", "no-backend", 1)
	}
	got, pass, err = explained(t, cluster, end{addresses: addresses("198.51.100.9")}, "203.0.113.8", "tcp/80", answers)
	if err != nil || pass || strings.Count(got, "denied Service shop/web, tcp/80 (http) at its load balancer's address: ") != 2 {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	for _, one := range []struct {
		from     end
		to, asks string
		says     string
	}{
		{podOnN1, "10.96.0.1", "tcp/81", "10.96.0.1 is an address of Service shop/web, which has tcp/80 (http); nobody answers there at tcp/81"},
		{podOnN1, "10.96.0.1", "icmp", "nobody answers there at icmp"},
		{end{addresses: addresses("198.51.100.9")}, "10.96.0.1", "tcp/80", "198.51.100.9 is outside of the cluster, and nodes lead nobody from there to Service shop/web, tcp/80 (http) at its cluster address"},
		{end{addresses: addresses("fd00::5"), node: "n1"}, "10.96.0.1", "tcp/80", "the sender has no address of that family"},
		{end{addresses: addresses("198.51.100.9")}, "192.0.2.1", "tcp/80", "neither end is a pod, and none of 4 Services answers at 192.0.2.1"},
	} {
		if got, _, err := explained(t, cluster, one.from, one.to, one.asks, answers); err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%s: %v\n%s", one.says, err, got)
		}
	}
	// What isn't of the cluster is told to be so.
	answers["n1: show acl --match 10.0.0.5 192.0.2.1 tcp/80"] = allowed
	got, pass, err = explained(t, cluster, podOnN1, "192.0.2.1", "tcp/80", answers)
	if want = "10.0.0.5 192.0.2.1 n1 passes no policy is for it; 192.0.2.1 is in no node's range of pods, no node's own and no Service's: what is beyond node n1 isn't looked at"; err != nil || !pass || got != want {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	// Who may not list Services is told nothing that might be wrong.
	if got, _, err := explained(t, apiOf(t, nil, nil, nil), podOnN1, "10.96.0.1", "tcp/80", answers); err == nil || !strings.Contains(err.Error(), "can't be listed: may not") {
		t.Errorf("%v\n%s", err, got)
	}
	// A label leaves a Service to somebody else.
	web.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "mesh"}
	answers["n1: explain 10.0.0.5 10.96.0.1:80 tcp"] = noVIP
	got, pass, err = explained(t, apiOf(t, []core.Service{web}, nil, nil), podOnN1, "10.96.0.1", "tcp/80", answers)
	if want = "10.0.0.5 10.96.0.1:80 n1 unknown Service shop/web, tcp/80 (http) at its cluster address: a label of it says that another one serves it, of whom Quiver knows nothing"; err != nil || pass || got != want {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	// So it is at its node port.
	answers["n2: show vip"] = `{}`
	got, pass, err = explained(t, apiOf(t, []core.Service{web}, nil, nil), end{addresses: addresses("198.51.100.9")}, "192.168.7.2", "tcp/30080", answers)
	if want = "198.51.100.9 192.168.7.2:30080 n2 unknown Service shop/web, tcp/80 (http) at its node port: a label of it says that another one serves it, of whom Quiver knows nothing"; err != nil || pass || got != want {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
}

func TestASessionToANodeIsExplainedAsItsPortsHaveIt(t *testing.T) {
	on := func(name string, hostNetwork bool, port core.ContainerPort, address string) core.Pod {
		return core.Pod{
			ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: name},
			Spec:       core.PodSpec{NodeName: "n2", HostNetwork: hostNetwork, Containers: []core.Container{{Ports: []core.ContainerPort{port}}}},
			Status:     core.PodStatus{PodIPs: []core.PodIP{{IP: address}}},
		}
	}
	done := on("done", false, core.ContainerPort{HostPort: 8443, ContainerPort: 80}, "10.0.1.8")
	done.Status.Phase = core.PodSucceeded
	web, its := served("web", "10.96.0.1", 80, 30080, 8080, "10.0.1.7")
	cluster := apiOf(t, []core.Service{web}, []discovery.EndpointSlice{its}, []core.Pod{
		done,
		on("plain", false, core.ContainerPort{ContainerPort: 8443}, "10.0.1.9"),
		on("elsewhere", false, core.ContainerPort{HostPort: 8443, ContainerPort: 81, HostIP: "192.168.7.9"}, "10.0.1.6"),
		on("dns", false, core.ContainerPort{HostPort: 8443, ContainerPort: 53, Protocol: core.ProtocolUDP}, "10.0.1.6"),
		on("edge", false, core.ContainerPort{HostPort: 8443, ContainerPort: 443, HostIP: "0.0.0.0"}, "10.0.1.7"),
		on("agent", true, core.ContainerPort{HostPort: 9100, ContainerPort: 9100}, "192.168.7.2"),
	})
	knows := `{"vips":[{"address":"192.168.7.2","port":8443,"protocol":"udp","backends":[]},{"address":"192.168.7.2","port":8443,"protocol":"tcp","backends":[{"address":"10.0.1.7","port":443,"state":"active"}]}]}`
	allowed, denied := said["n1"], said["n2"]
	answers := map[string]string{
		"n2: show vip":      knows,
		"n1: get interface": `{"objects":[{"object":{"interface":{"name":"pod:host"}}}]}`,
		"n1: show acl --match 10.0.0.5 192.168.7.2 tcp/8443":   allowed,
		"n1: show acl --match 10.0.0.5 192.168.7.2 tcp/9100":   allowed,
		"n1: show acl --match 10.0.0.5 192.168.7.2 tcp/10250":  denied,
		"n1: show acl --match 10.0.0.5 192.168.7.2 icmp":       allowed,
		"n2: show acl --match 10.0.1.5 192.168.7.2 tcp/10250":  allowed,
		"n2: show acl --match 10.0.0.5 10.0.1.7 tcp/443":       denied,
		"n2: show acl --match 10.0.1.5 10.0.1.7 tcp/443":       allowed,
		"n2: show acl --match 198.51.100.9 10.0.1.7 tcp/443":   denied,
		"n2: explain 10.0.1.5 192.168.7.2:30080 tcp":           given("svc:shop.web.http:1", "10.0.1.5", "10.0.1.7:8080"),
		"n2: show vip svc:shop.web.http:1":                     `{}`,
		"n2: show acl --match 10.0.1.5 10.0.1.7 tcp/8080":      allowed,
		"n2: explain 192.168.7.2 10.0.1.254:30080 tcp":         `{}`,
		"n2: show acl --match 10.0.1.5 192.168.7.2 tcp/8443":   allowed,
		"n1: show acl --match 10.0.0.5 192.168.7.2 tcp/30080":  allowed,
		"n2: show acl --match 198.51.100.9 10.0.1.7 tcp/30080": allowed,
	}
	own := "is node n2 itself: " + notLooked + "; nobody of these answers at %s: addresses and node ports of 1 Services, host ports of 4 pods"
	leads, rule := "host port of pod shop/edge: leads to 10.0.1.7:443", "ingress: no rule of NetworkPolicy default/web.v1"
	outside := end{addresses: addresses("198.51.100.9")}
	for _, one := range []struct {
		from end
		asks string
		pass bool
		want []string
	}{
		{podOnN1, "tcp/8443", false, []string{
			"10.0.0.5 192.168.7.2:8443 n1 passes no policy is for it", "10.0.0.5 192.168.7.2:8443 n2 passes " + leads, "10.0.0.5 10.0.1.7:443 n2 denied " + rule}},
		{podOnN2, "tcp/8443", true, []string{"10.0.1.5 192.168.7.2:8443 n2 passes " + leads, "10.0.1.5 10.0.1.7:443 n2 passes no policy is for it"}},
		{outside, "tcp/8443", false, []string{"198.51.100.9 192.168.7.2:8443 n2 passes " + leads, "198.51.100.9 10.0.1.7:443 n2 denied " + rule}},
		{podOnN1, "tcp/10250", false, []string{"10.0.0.5 192.168.7.2:10250 n1 denied " + rule, "10.0.0.5 192.168.7.2:10250 n2 unknown " + fmt.Sprintf(own, "tcp/10250")}},
		{podOnN2, "tcp/10250", false, []string{"10.0.1.5 192.168.7.2:10250 n2 passes no policy is for it", "10.0.1.5 192.168.7.2:10250 n2 unknown " + fmt.Sprintf(own, "tcp/10250")}},
		{podOnN1, "icmp", false, []string{"10.0.0.5 192.168.7.2 n1 passes no policy is for it", "10.0.0.5 192.168.7.2 n2 unknown is node n2 itself: " + notAnswered}},
		{podOnN1, "tcp/9100", false, []string{"10.0.0.5 192.168.7.2:9100 n1 passes no policy is for it",
			"10.0.0.5 192.168.7.2:9100 n2 unknown is node n2 itself, where pod shop/agent says that it listens, with the node's own network: " + notLooked}},
		{outside, "tcp/10250", false, []string{"198.51.100.9 192.168.7.2:10250 n2 unknown " + fmt.Sprintf(own, "tcp/10250")}},
		{podOnN2, "tcp/30080", true, []string{"10.0.1.5 192.168.7.2:30080 n2 passes Service shop/web, tcp/80 (http) at its node port: is given the backend 10.0.1.7:8080, by the hash of the client",
			"10.0.1.5 10.0.1.7:8080 n2 passes no policy is for it"}},
	} {
		if got, pass, err := explained(t, cluster, one.from, "192.168.7.2", one.asks, answers); err != nil || pass != one.pass || got != strings.Join(one.want, "\n") {
			t.Errorf("%v, %s: %v, passes %t:\n%s\nwant:\n%s", one.from.addresses, one.asks, err, pass, got, strings.Join(one.want, "\n"))
		}
	}
	// What the node doesn't know of yet doesn't pass.
	answers["n2: show vip"] = `{}`
	got, pass, err := explained(t, cluster, outside, "192.168.7.2", "tcp/8443", answers)
	if err != nil || pass || !strings.Contains(got, "n2 denied host port of pod shop/edge: quiverd on the node doesn't know it") {
		t.Errorf("%v, passes %t:\n%s", err, pass, got)
	}
	// A node without Quiver can't be asked.
	bare := slices.Clone(addressNodes)
	bare[1].Pod = nil
	all, err := cluster.explainAddress(t.Context(), podOnN1, netip.MustParseAddr("192.168.7.2"), session{"tcp", 30080, "tcp/30080"}, bare, asks(answers))
	if err != nil || len(all) != 1 || all[0].word() != "unknown" || !strings.Contains(all[0].Because, "node n2 has no pod of Quiver") {
		t.Errorf("%v, %+v", err, all)
	}
}

func TestVerdictsInJSONHaveAllOfIt(t *testing.T) {
	all := []Verdict{
		{From: netip.MustParseAddr("10.0.0.5"), To: netip.MustParseAddr("10.96.0.1"), Port: 80, Node: "n1", Passes: true, Because: "Service", Service: "shop/web",
			Endpoints: []Endpoint{{netip.MustParseAddrPort("10.0.1.7:8080"), "n2", true, ""}, {netip.MustParseAddrPort("10.0.1.9:8080"), "n2", false, "it isn't ready"}}},
		{From: netip.MustParseAddr("10.0.0.5"), To: netip.MustParseAddr("192.168.7.2"), Node: "n2", Unknown: true, Because: "is a node"},
	}
	var out strings.Builder
	pass, err := PrintVerdicts(&out, all, true)
	want := `{"passes":false,"verdicts":[
		{"from":"10.0.0.5","to":"10.96.0.1","port":80,"node":"n1","verdict":"passes","because":"Service","service":"shop/web","endpoints":[
			{"address":"10.0.1.7:8080","node":"n2","chosen":true},{"address":"10.0.1.9:8080","node":"n2","chosen":false,"left_out":"it isn't ready"}]},
		{"from":"10.0.0.5","to":"192.168.7.2","node":"n2","verdict":"unknown","because":"is a node"}]}`
	squeezed := func(text string) string {
		return strings.NewReplacer("\n", "", "\t", "", "  ", "", `": `, `":`).Replace(text)
	}
	if err != nil || pass || squeezed(out.String()) != squeezed(want) {
		t.Errorf("%v, passes %t:\n%s", err, pass, out.String())
	}
}
