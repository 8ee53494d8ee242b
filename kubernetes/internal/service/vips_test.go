package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"
)

// here is node n1 of a cluster with two families.
var here = Here{
	Name: "n1", Zone: "z1",
	Addresses: []netip.Addr{netip.MustParseAddr("192.168.7.1"), netip.MustParseAddr("fd00:7::1")},
	Own:       []netip.Addr{netip.MustParseAddr("192.168.7.1"), netip.MustParseAddr("fd00:7::1")},
	Nodes:     map[netip.Addr]bool{netip.MustParseAddr("192.168.7.1"): true, netip.MustParseAddr("fd00:7::1"): true, netip.MustParseAddr("192.168.7.2"): true},
	Ranges:    []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")},
	Sources:   []netip.Addr{netip.MustParseAddr("10.244.1.254"), netip.MustParseAddr("fd00:1::fe")},
}

// serviceOf reads the spec of a Service as users write it.
func serviceOf(t *testing.T, text string) *core.Service {
	t.Helper()
	service := &core.Service{}
	if err := yaml.UnmarshalStrict([]byte("metadata: {namespace: default, name: web}\n"+text), service); err != nil {
		t.Fatal(err)
	}
	return service
}

// slicesOf reads EndpointSlices.
func slicesOf(t *testing.T, texts ...string) (all []*discovery.EndpointSlice) {
	t.Helper()
	for _, text := range texts {
		slice := &discovery.EndpointSlice{}
		if err := yaml.UnmarshalStrict([]byte(text), slice); err != nil {
			t.Fatal(err)
		}
		all = append(all, slice)
	}
	return all
}

// worded is who answers where: "10.96.0.1:80 TCP: 10.244.1.2:8080 10.244.1.3:8080 draining".
func worded(set Set) (lines []string) {
	for _, vip := range set.VIPs {
		line := vip.Place.String() + ":"
		for _, backend := range vip.Backends {
			line += " " + netip.AddrPortFrom(backend.Address, backend.Port).String()
			if backend.Draining {
				line += " draining"
			}
			line += map[Clients]string{Inside: " inside", Outside: " outside"}[backend.For]
		}
		lines = append(lines, line)
	}
	return lines
}

const (
	clusterIP = "spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80}]%s}\n"
	slice4    = "addressType: IPv4\nports: [{port: 8080}]\nendpoints:\n"
)

// one is an endpoint, with more to be said of it.
func one(address, more string) string { return fmt.Sprintf("- {addresses: [%s]%s}\n", address, more) }

func TestWhoAnswersFollowsFromConditions(t *testing.T) {
	const (
		// As the EndpointSlice controller writes them (Kubernetes, "EndpointSlices": conditions).
		ready       = ", conditions: {ready: true, serving: true, terminating: false}"
		unready     = ", conditions: {ready: false, serving: false, terminating: false}"
		terminating = ", conditions: {ready: false, serving: true, terminating: true}"
		gone        = ", conditions: {ready: false, serving: false, terminating: true}"
	)
	for _, c := range []struct{ name, endpoints, want string }{
		{"nothing said is ready", one("10.244.1.2", ""), " 10.244.1.2:8080"},
		{"ready ones, in order", one("10.244.2.3", ready) + one("10.244.1.2", ready), " 10.244.1.2:8080 10.244.2.3:8080"},
		{"not ready", one("10.244.1.2", ready) + one("10.244.1.3", unready), " 10.244.1.2:8080"},
		{"terminating ones keep their sessions", one("10.244.1.2", ready) + one("10.244.1.3", terminating), " 10.244.1.2:8080 10.244.1.3:8080 draining"},
		{"terminating ones that don't serve", one("10.244.1.2", ready) + one("10.244.1.3", gone), " 10.244.1.2:8080"},
		{"only terminating ones", one("10.244.1.2", terminating) + one("10.244.1.3", gone) + one("10.244.1.4", unready), " 10.244.1.2:8080"},
		{"nobody", one("10.244.1.2", unready), ""},
		{"only the first of fungible addresses", one("10.244.1.2, 10.244.1.3", ready), " 10.244.1.2:8080"},
		{"in two conditions, while it moves between slices", one("10.244.1.2", ready) + one("10.244.1.2", terminating), " 10.244.1.2:8080"},
	} {
		set := Of(serviceOf(t, fmt.Sprintf(clusterIP, "")), slicesOf(t, slice4+c.endpoints), &here)
		if got := worded(set); !slices.Equal(got, []string{"10.96.0.1:80 TCP:" + c.want}) || len(set.Problems) > 0 {
			t.Errorf("%s: %q, %q", c.name, got, set.Problems)
		}
	}
}

func TestPortsAreFoundByNameAndProtocolInEachFamily(t *testing.T) {
	service := serviceOf(t, `
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, "fd00:96::1"]
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: domain}
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: domain}
  - {name: diameter, port: 3868, protocol: SCTP}
`)
	set := Of(service, slicesOf(t, `
addressType: IPv4
ports: [{name: dns, port: 1053, protocol: UDP}, {name: dns-tcp, port: 2053, protocol: TCP}]
endpoints: [{addresses: [10.244.1.2]}]
`, `
addressType: IPv4
ports: [{name: dns, port: 1054, protocol: UDP}, {name: diameter, port: 3868, protocol: SCTP}, {name: diameter, port: 1, protocol: TCP}, {name: dns-tcp}]
endpoints: [{addresses: [10.244.1.3]}]
`, `
addressType: IPv6
ports: [{name: dns, port: 1053, protocol: UDP}]
endpoints: [{addresses: ["fd00:1::2"]}]
`, `
addressType: FQDN
ports: [{name: dns, port: 53, protocol: UDP}]
endpoints: [{addresses: [example.org]}]
`), &here)
	want := []string{
		"10.96.0.1:53 UDP: 10.244.1.2:1053 10.244.1.3:1054", "[fd00:96::1]:53 UDP: [fd00:1::2]:1053",
		"10.96.0.1:53 TCP: 10.244.1.2:2053", "[fd00:96::1]:53 TCP:",
		"10.96.0.1:3868 SCTP: 10.244.1.3:3868", "[fd00:96::1]:3868 SCTP:",
	}
	if got := worded(set); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := fmt.Sprint(set.Addresses); got != "[10.96.0.1 fd00:96::1]" || set.NodePorts != nil {
		t.Errorf("the host leads here %s, %v", got, set.NodePorts)
	}
}

func TestWhatIsPodsStaysPodsAndWhoMayNotAskIsntAnswered(t *testing.T) {
	node := here
	node.Pods = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	endpoints := slicesOf(t, slice4+one("10.244.1.2", ", nodeName: n1"))
	set := Of(serviceOf(t, `
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  ports: [{port: 80}]
  externalIPs: [10.244.2.9, 203.0.113.1]
  loadBalancerSourceRanges: ["2001:db8::/32"]
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
`), endpoints, &node)
	if got := fmt.Sprint(set.Addresses); got != "[10.96.0.1 203.0.113.1]" {
		t.Errorf("the host leads here %s", got)
	}
	want := []string{
		"spec.loadBalancerSourceRanges has none of the family of 203.0.113.9: nobody is answered there", "10.244.2.9 is an address of pods: nobody is asked there for a Service",
	}
	if !slices.Equal(set.Problems, want) {
		t.Errorf("%q", set.Problems)
	}
}

// As kube-proxy does (KEP-1669, and its own tests): who has no endpoint at all refuses, who has none here only is silent.
func TestClientsAreRefusedWhereNobodyInTheClusterServesIt(t *testing.T) {
	const spec = `
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  ports: [{port: 80, nodePort: 30080}]
  externalIPs: [203.0.113.1]
  %s
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
`
	const (
		unready     = ", conditions: {ready: false, serving: false, terminating: false}"
		terminating = ", conditions: {ready: false, serving: true, terminating: true}"
	)
	for _, policy := range []string{"", "externalTrafficPolicy: Local", "internalTrafficPolicy: Local"} {
		for _, c := range []struct {
			endpoints string
			reject    bool
		}{
			{"", true},
			{one("10.244.2.2", ", nodeName: n2"+unready), true},
			{one("10.244.2.2", ", nodeName: n2"), false},
			{one("10.244.2.2", ", nodeName: n2"+terminating), false},
		} {
			var all []string
			if c.endpoints != "" {
				all = append(all, slice4+c.endpoints)
			}
			set := Of(serviceOf(t, fmt.Sprintf(spec, policy)), slicesOf(t, all...), &here)
			if len(set.VIPs) != 5 {
				t.Fatalf("%q", worded(set))
			}
			for _, vip := range set.VIPs {
				if vip.Reject != c.reject {
					t.Errorf("%s, %s: %s refuses: %t", policy, c.endpoints, vip.Place, vip.Reject)
				}
			}
		}
	}
}

func TestHintsMeanSomethingIfAllHaveThemAndOneIsForUs(t *testing.T) {
	zone := func(name string) string { return fmt.Sprintf(", hints: {forZones: [{name: %s}]}", name) }
	both := func(zone, node string) string {
		return fmt.Sprintf(", hints: {forZones: [{name: %s}], forNodes: [{name: %s}]}", zone, node)
	}
	zoneless := here
	zoneless.Zone = ""
	for i, c := range []struct {
		here      *Here
		endpoints string
		want      string
	}{
		{&here, one("10.244.1.2", zone("z1")) + one("10.244.2.2", zone("z2")), " 10.244.1.2:8080"},
		{&here, one("10.244.1.2", zone("z1")) + one("10.244.2.2", ""), " 10.244.1.2:8080 10.244.2.2:8080"},
		{&here, one("10.244.1.2", zone("z3")) + one("10.244.2.2", zone("z2")), " 10.244.1.2:8080 10.244.2.2:8080"},
		{&zoneless, one("10.244.1.2", zone("z1")) + one("10.244.2.2", zone("z2")), " 10.244.1.2:8080 10.244.2.2:8080"},
		{&here, one("10.244.1.2", both("z1", "n3")) + one("10.244.2.2", both("z2", "n1")), " 10.244.2.2:8080"},
		{&here, one("10.244.1.2", both("z1", "n3")) + one("10.244.2.2", both("z2", "n2")), " 10.244.1.2:8080"},
		// One that goes needs no hint, and sessions with those of other zones that go stay.
		{
			&here, one("10.244.1.2", zone("z1")) + one("10.244.2.2", ", conditions: {ready: false, serving: true, terminating: true}") + one("10.244.2.3", zone("z2")),
			" 10.244.1.2:8080 10.244.2.2:8080 draining",
		},
	} {
		set := Of(serviceOf(t, fmt.Sprintf(clusterIP, "")), slicesOf(t, slice4+c.endpoints), c.here)
		if got := worded(set); !slices.Equal(got, []string{"10.96.0.1:80 TCP:" + c.want}) {
			t.Errorf("%d: %q", i, got)
		}
	}
}

func TestAffinityAndAlgorithm(t *testing.T) {
	for _, c := range []struct {
		annotations, spec string
		affinity          uint32
		leastFlows        bool
		problem           string
	}{
		{"", "", 0, false, ""},
		{"", ", sessionAffinity: None", 0, false, ""},
		// "default value is 10800 (for 3 hours)" (API reference, ClientIPConfig).
		{"", ", sessionAffinity: ClientIP", 10800, false, ""},
		{"", ", sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}", 60, false, ""},
		{"quiver.io/loadBalancing: least_flows", "", 0, true, ""},
		{"quiver.io/loadBalancing: maglev", "", 0, false, ""},
		{"quiver.io/loadBalancing: random", "", 0, false, `"random" is neither`},
		{"cni.projectcalico.org/vppLBType: maglev", "", 0, false, ""},
		{"cni.projectcalico.org/vppLBType: ecmp", "", 0, false, ""},
		{"cni.projectcalico.org/vppLBType: maglevdsr", "", 0, false, `"maglevdsr" can't be`},
		{"cni.projectcalico.org/vppHashConfig: srcport, srcaddr", "", 0, false, "vppHashConfig has no effect: sessions are told apart"},
		{"cni.projectcalico.org/vppHashConfig: srcport, source", "", 0, false, `vppHashConfig, position 10: "source" is none of srcport`},
		{"cni.projectcalico.org/vppKeepOriginalPacket: true", "", 0, false, "vppKeepOriginalPacket has no effect"},
		{"cni.projectcalico.org/vppKeepOriginalPacket: false", "", 0, false, ""},
		{"cni.projectcalico.org/vppKeepOriginalPacket: perhaps", "", 0, false, `vppKeepOriginalPacket, position 1: "perhaps"`},
		{"cni.projectcalico.org/vppLbType: maglev", "", 0, false, "vppLbType has no effect: it isn't one of Services"},
	} {
		service := serviceOf(t, fmt.Sprintf(clusterIP, c.spec))
		service.Annotations = map[string]string{}
		if key, value, said := strings.Cut(c.annotations, ": "); said {
			service.Annotations[key] = value
		}
		set := Of(service, nil, &here)
		if vip := set.VIPs[0]; vip.Affinity != c.affinity || vip.LeastFlows != c.leastFlows || !strings.Contains(strings.Join(set.Problems, " "), c.problem) || (c.problem == "") != (len(set.Problems) == 0) {
			t.Errorf("%s%s: %+v, %q", c.annotations, c.spec, vip, set.Problems)
		}
	}
}

func TestWhatIsNobodysBusinessHere(t *testing.T) {
	endpoints := slicesOf(t, slice4+one("10.244.1.2", ""))
	for _, text := range []string{
		"spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}",
		"spec: {type: ExternalName, externalName: example.org}",
		"spec: {ports: [{port: 80}]}",
	} {
		if set := Of(serviceOf(t, text), endpoints, &here); len(set.VIPs) > 0 || len(set.Addresses) > 0 || len(set.Problems) > 0 {
			t.Errorf("%s: %+v", text, set)
		}
	}
	for _, label := range []string{"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"} {
		other := serviceOf(t, fmt.Sprintf(clusterIP, ""))
		other.Labels = map[string]string{label: ""}
		if set := Of(other, endpoints, &here); len(set.VIPs) > 0 {
			t.Errorf("%s: %+v", label, set)
		}
	}
}

func TestAnEndpointAtTheServicesOwnPlaceGetsNothing(t *testing.T) {
	// Of a pod with the node's network, that listens where the node port is.
	service := serviceOf(t, "spec: {type: NodePort, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80, nodePort: 30080}]}")
	set := Of(service, slicesOf(t, "addressType: IPv4\nports: [{port: 30080}]\nendpoints: [{addresses: [192.168.7.1]}, {addresses: [192.168.7.2]}]"), &here)
	if got := worded(set); got[2] != "192.168.7.1:30080 TCP: 192.168.7.2:30080" || got[0] != "10.96.0.1:80 TCP: 192.168.7.1:30080 192.168.7.2:30080" {
		t.Errorf("%q", got)
	}
	if len(set.Problems) != 1 || !strings.Contains(set.Problems[0], "192.168.7.1:30080") {
		t.Errorf("told %q", set.Problems)
	}
}
