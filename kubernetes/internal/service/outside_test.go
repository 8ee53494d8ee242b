package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Anybody who may write Services can name any address: what a node itself needs isn't led into the cluster on the node.
func TestWhatANodeNeedsStaysWhereItIs(t *testing.T) {
	node := here
	node.Needed = map[netip.Addr]string{netip.MustParseAddr("198.51.100.6"): "an address of the API server", netip.MustParseAddr("192.168.7.9"): "a router of this node"}
	node.Resolvers = map[netip.Addr]bool{netip.MustParseAddr("192.168.7.53"): true}
	const spec = `
spec: {type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80}], externalIPs: [%s]}
status: {loadBalancer: {ingress: [%s]}}
`
	for _, c := range []struct{ external, ingress, led, told string }{
		{"203.0.113.1", "", "203.0.113.1", ""},
		{"198.51.100.6", "", "", "198.51.100.6 is an address of the API server: only pods are answered there"},
		{"", "{ip: 198.51.100.6}", "", "198.51.100.6 is an address of the API server: only pods are answered there"},
		{"192.168.7.9", "", "", "192.168.7.9 is a router of this node: only pods are answered there"},
		{"192.168.7.53", "", "", "192.168.7.53 is a resolver of this node: only pods are answered there"},
		// The cluster's own resolvers, for the nodes as well.
		{"", "{ip: 192.168.7.53}", "192.168.7.53", ""},
	} {
		set := Of(serviceOf(t, fmt.Sprintf(spec, c.external, c.ingress)), slicesOf(t, slice4+one("10.244.1.2", "")), &node)
		if got := fmt.Sprint(set.Addresses); got != strings.TrimSpace("[10.96.0.1 "+c.led)+"]" || strings.Join(set.Problems, "; ") != c.told || len(set.VIPs) != 2 {
			t.Errorf("%s, %s: led %s, told %q, %q", c.external, c.ingress, got, set.Problems, worded(set))
		}
	}
}

func TestAskedFromOutside(t *testing.T) {
	endpoints := slicesOf(t, slice4+one("10.244.1.2", ", nodeName: n1")+one("10.244.2.2", ", nodeName: n2")+
		one("10.244.1.3", ", nodeName: n1, conditions: {ready: false, serving: true, terminating: true}"))
	const (
		all  = " 10.244.1.2:8080 10.244.1.3:8080 draining 10.244.2.2:8080"
		near = " 10.244.1.2:8080 10.244.1.3:8080 draining"
		// With a local policy, pods of the node and the node itself have all nevertheless.
		each = " 10.244.1.2:8080 10.244.1.3:8080 draining 10.244.2.2:8080 inside"
	)
	const spec = `
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  ports: [{port: 80, nodePort: 30080}]
  healthCheckNodePort: 32000
  externalIPs: [203.0.113.1, "2001:db8::1", 192.168.7.2]
%s
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}, {hostname: example.org}, {ip: 203.0.113.10, ipMode: Proxy}, {ip: 203.0.113.1, ipMode: VIP}]}}
`
	for _, c := range []struct{ more, inside, outside string }{
		{"", all, all},
		{"  externalTrafficPolicy: Cluster", all, all},
		{"  externalTrafficPolicy: Local", all, each},
		{"  externalTrafficPolicy: Local\n  internalTrafficPolicy: Local", near, each},
		{"  internalTrafficPolicy: Local", near, all},
	} {
		set := Of(serviceOf(t, fmt.Sprintf(spec, c.more)), endpoints, &here)
		want := []string{
			"10.96.0.1:80 TCP:" + c.inside, "203.0.113.1:80 TCP:" + c.outside, "192.168.7.2:80 TCP:" + c.outside, "203.0.113.9:80 TCP:" + c.outside,
			"10.244.1.254:30080 TCP:" + c.outside, "192.168.7.1:30080 TCP:" + all,
		}
		if got := worded(set); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s", c.more, strings.Join(got, "\n"))
		}
		// Another node answers at its own address itself.
		if got := fmt.Sprint(set.Addresses, set.NodePorts); got != "[10.96.0.1 203.0.113.1 203.0.113.9] [{TCP 30080}]" {
			t.Errorf("the host leads here %s", got)
		}
		var given []string
		for _, vip := range set.VIPs {
			if vip.Assigned {
				given = append(given, vip.Address.String())
			}
			inside := "[]"
			if slices.ContainsFunc(vip.Backends, func(backend Backend) bool { return backend.For != Everybody }) {
				inside = "[10.244.1.0/24 192.168.7.1/32]"
			}
			if got := fmt.Sprint(vip.Inside); got != inside {
				t.Errorf("%s: inside are %s", vip.Place, got)
			}
		}
		if got := strings.Join(given, " "); got != "10.96.0.1 203.0.113.1 203.0.113.9 10.244.1.254 192.168.7.1" {
			t.Errorf("given to it: %s", got)
		}
		if set.HealthPort != 32000 || set.Near != 1 {
			t.Errorf("health checks at port %d tell of %d", set.HealthPort, set.Near)
		}
		want = []string{"2001:db8::1 is of a family of which the Service has no cluster address: nobody is asked there (spec.ipFamilies)"}
		if !slices.Equal(set.Problems, want) {
			t.Errorf("told %q", set.Problems)
		}
	}
	// Nobody near: nobody answers who is outside.
	far := slicesOf(t, slice4+one("10.244.2.2", ", nodeName: n2"))
	if got := worded(Of(serviceOf(t, fmt.Sprintf(spec, "  externalTrafficPolicy: Local")), far, &here)); got[1] != "203.0.113.1:80 TCP: 10.244.2.2:8080 inside" || got[0] != "10.96.0.1:80 TCP: 10.244.2.2:8080" {
		t.Errorf("%q", got)
	}
}

// Who answers whom may differ in both directions: pods that end serve the outside where their node has no other, and hints count inside alone.
func TestWhoAnswersThoseOutsideNeedntAnswerThoseInside(t *testing.T) {
	const spec = `
spec: {type: LoadBalancer, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80, nodePort: 30080}], externalTrafficPolicy: Local}
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}]}}
`
	const ends = ", conditions: {ready: false, serving: true, terminating: true}"
	for _, c := range []struct{ slice, want string }{
		{one("10.244.1.3", ", nodeName: n1"+ends) + one("10.244.2.2", ", nodeName: n2"), " 10.244.1.3:8080 outside 10.244.2.2:8080 inside"},
		{one("10.244.1.3", ", nodeName: n1"+ends) + one("10.244.2.2", ", nodeName: n2"+ends), " 10.244.1.3:8080 10.244.2.2:8080 inside"},
		{
			one("10.244.1.3", ", nodeName: n1, hints: {forZones: [{name: z2}]}") + one("10.244.2.2", ", nodeName: n2, hints: {forZones: [{name: z1}]}"),
			" 10.244.1.3:8080 outside 10.244.2.2:8080 inside",
		},
		{one("10.244.1.3", ", nodeName: n1"), " 10.244.1.3:8080"},
	} {
		set := Of(serviceOf(t, spec), slicesOf(t, slice4+c.slice), &here)
		for _, line := range worded(set)[1:3] {
			if _, got, _ := strings.Cut(line, "TCP:"); got != c.want {
				t.Errorf("%s, not%s", line, c.want)
			}
		}
	}
}

// At an address that the node itself has, single ports are led to the Service: the address stays the node's.
func TestAServiceIsAskedAtSinglePortsOfANodesOwnAddress(t *testing.T) {
	node := here
	node.Own = append(slices.Clone(here.Own), netip.MustParseAddr("203.0.113.9"))
	node.Addresses = append(slices.Clone(node.Own), netip.MustParseAddr("198.51.100.1"))
	node.Nodes = map[netip.Addr]bool{netip.MustParseAddr("192.168.7.1"): true, netip.MustParseAddr("198.51.100.1"): true, netip.MustParseAddr("192.168.7.2"): true}
	node.Needed, node.ServerPort = map[netip.Addr]string{netip.MustParseAddr("192.168.7.1"): "an address of the API server"}, 6443
	node.Resolvers = map[netip.Addr]bool{netip.MustParseAddr("fd00:7::1"): true}
	const spec = `
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, "fd00:96::1"]
  ports: [{port: 80}, {name: api, port: 6443}]
  externalTrafficPolicy: Local
  externalIPs: [%s]
  loadBalancerSourceRanges: [198.51.100.0/24, "2001:db8::/32"]
status: {loadBalancer: {ingress: [%s]}}
`
	for _, c := range []struct{ external, ingress, led, told string }{
		{"192.168.7.1", "", "192.168.7.1:80 TCP from []", "192.168.7.1 is an address of the API server: only pods are answered there"},
		{"", "{ip: 203.0.113.9}", "203.0.113.9:80 TCP from [198.51.100.0/24], 203.0.113.9:6443 TCP from [198.51.100.0/24]", ""},
		{"\"fd00:7::1\"", "", "", "fd00:7::1 is a resolver of this node: only pods are answered there"},
		{"", "{ip: \"fd00:7::1\"}", "[fd00:7::1]:80 TCP from [2001:db8::/32], [fd00:7::1]:6443 TCP from [2001:db8::/32]", ""},
		{"198.51.100.1", "", "", "198.51.100.1 is an address of this node by its object, which its kernel hasn't: only pods are answered there"},
		// Another node answers there.
		{"192.168.7.2", "", "", ""},
	} {
		set := Of(serviceOf(t, fmt.Sprintf(spec, c.external, c.ingress)), slicesOf(t, slice4+one("10.244.1.2", ", nodeName: n1")+one("10.244.2.2", ", nodeName: n2")), &node)
		var led []string
		for _, vip := range set.VIPs {
			if vip.External {
				led = append(led, fmt.Sprintf("%s from %v", vip.Place, vip.Sources))
			}
			// Of the port without a name, pods of the node alone answer who asks from outside.
			if vip.External && vip.PortOf == "80" && vip.Address.Is4() && fmt.Sprint(vip.Backends) != fmt.Sprintf("[{10.244.1.2 8080 false %d} {10.244.2.2 8080 false %d}]", Everybody, Inside) {
				t.Errorf("%s is answered by %v", vip.Place, vip.Backends)
			}
		}
		if got := strings.Join(led, ", "); got != c.led || strings.Join(set.Problems, "; ") != c.told {
			t.Errorf("%s, %s: led %s; told %q", c.external, c.ingress, got, set.Problems)
		}
		if got := fmt.Sprint(set.Addresses); got != "[10.96.0.1 fd00:96::1]" {
			t.Errorf("%s, %s: the host has ways to %s", c.external, c.ingress, got)
		}
	}
}

func TestANodeIsAskedAtAllOfItsAddresses(t *testing.T) {
	of := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/48")}
	kernel := of("127.0.0.1", "::1", "fe80::1", "192.168.7.1", "172.17.0.1", "10.244.1.1", "fd00:7::1", "fd00:10:244:1::1")
	told := of("192.168.7.1", "203.0.113.7", "fd00:7::1")
	if got := fmt.Sprint(Asked(kernel, told, pods)); got != "[172.17.0.1 192.168.7.1 203.0.113.7 fd00:7::1]" {
		t.Error(got)
	}
	node := here
	node.Addresses = Asked(kernel, told, pods)
	set := Of(serviceOf(t, "spec: {type: NodePort, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ports: [{port: 80, nodePort: 30080}]}"), slicesOf(t, slice4+one("10.244.1.2", "")), &node)
	want := []string{
		"10.96.0.1:80 TCP: 10.244.1.2:8080", "10.244.1.254:30080 TCP: 10.244.1.2:8080", "172.17.0.1:30080 TCP: 10.244.1.2:8080",
		"192.168.7.1:30080 TCP: 10.244.1.2:8080", "203.0.113.7:30080 TCP: 10.244.1.2:8080",
	}
	if got := worded(set); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// More than quiverd tells apart: it would refuse the VIPs.
func TestANodeOfVeryManyAddressesServesWhoAsksFromInsideAsThoseFromOutside(t *testing.T) {
	const spec = `
spec:
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  ports: [{port: 80}]
  externalIPs: [203.0.113.7]
  externalTrafficPolicy: Local
`
	endpoints := slicesOf(t, slice4+one("10.244.1.2", ", nodeName: n1")+one("10.244.2.2", ", nodeName: n2"))
	crowded := here
	crowded.Own = slices.Clone(here.Own)
	for i := range mostSources + 1 {
		crowded.Own = append(crowded.Own, netip.AddrFrom4([4]byte{198, 18, byte(i / 256), byte(i % 256)}))
	}
	for own, want := range map[*Here]string{&here: "203.0.113.7:80 TCP: 10.244.1.2:8080 10.244.2.2:8080 inside", &crowded: "203.0.113.7:80 TCP: 10.244.1.2:8080"} {
		set := Of(serviceOf(t, spec), endpoints, own)
		if got := worded(set); !slices.Contains(got, want) {
			t.Errorf("%q", got)
		}
		if told := strings.Contains(strings.Join(set.Problems, " "), "externalTrafficPolicy"); told != (own == &crowded) {
			t.Errorf("told %q", set.Problems)
		}
	}
}

func TestRangesOfSourcesAreKeptAtTheLoadBalancersAddressesOnly(t *testing.T) {
	const spec = `
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, "fd00:96::1"]
  ports: [{port: 80, nodePort: 30080}]
  externalIPs: [203.0.113.1]
  loadBalancerSourceRanges: %s
status: {loadBalancer: {ingress: [{ip: 203.0.113.9}, {ip: "2001:db8::9"}, {ip: 203.0.113.1}]}}
`
	for _, c := range []struct{ ranges, v4, v6 string }{
		{"[]", "[]", "[]"},
		// Spaces may surround them (API reference), and a host's address may stand for its range.
		{`[" 198.51.100.0/24 ", 10.0.0.0/8, 10.0.0.0/16, 10.1.2.3/8, "2001:db8:1::/48"]`, "[10.0.0.0/16 10.0.0.0/8 198.51.100.0/24]", "[2001:db8:1::/48]"},
		{`[198.51.100.0/24]`, "[198.51.100.0/24]", "nobody"},
		{`["::/0"]`, "nobody", "[::/0]"},
		{`[nonsense]`, "nobody", "nobody"},
	} {
		set := Of(serviceOf(t, fmt.Sprintf(spec, c.ranges)), slicesOf(t, slice4+one("10.244.1.2", "")), &here)
		may := map[string]string{}
		for _, vip := range set.VIPs {
			may[vip.Address.String()] = fmt.Sprint(vip.Sources)
		}
		for address, want := range map[string]string{"203.0.113.9": c.v4, "2001:db8::9": c.v6, "10.96.0.1": "[]", "203.0.113.1": "[]", "10.244.1.254": "[]", "192.168.7.1": "[]"} {
			got, there := may[address]
			if !there {
				got = "nobody"
			}
			if got != want {
				t.Errorf("%s: %s is there for %s", c.ranges, address, got)
			}
			if missing := strings.Contains(strings.Join(set.Problems, " "), address+": nobody"); missing != (want == "nobody") {
				t.Errorf("%s: told %q", c.ranges, set.Problems)
			}
		}
	}
	many := serviceOf(t, fmt.Sprintf(spec, "[]"))
	for i := range mostSources + 1 {
		many.Spec.LoadBalancerSourceRanges = append(many.Spec.LoadBalancerSourceRanges, fmt.Sprintf("10.0.%d.%d/32", i/256, i%256))
	}
	if set := Of(many, nil, &here); !strings.Contains(strings.Join(set.Problems, " "), "4097 ranges") || slices.ContainsFunc(set.VIPs, func(vip VIP) bool { return vip.Address.String() == "203.0.113.9" }) {
		t.Errorf("told %q", set.Problems)
	}
}
