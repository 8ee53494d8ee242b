package inspect

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSessionsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]session{
		"tcp/80": {"tcp", 80, "tcp/80"}, "UDP/53": {"udp", 53, "UDP/53"}, "sctp/65535": {"sctp", 65535, "sctp/65535"}, "tcp": {"tcp", 0, "tcp"},
		"udplite/7": {"udplite", 7, "udplite/7"}, "DCCP/5001": {"dccp", 5001, "DCCP/5001"},
		"icmp": {"icmp", 0, "icmp"}, "icmp/8": {"icmp", 0, "icmp/8"}, "icmpv6/0": {"icmpv6", 0, "icmpv6/0"}, "esp": {"esp", 0, "esp"},
	} {
		if got, err := readSession(text, "10.96.0.1"); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	// A Service by its name may do without, and its ports have names.
	for _, text := range []string{"", "tcp/http", "tcp/80"} {
		if _, err := readSession(text, "svc/web"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, names := range map[string]string{
		"": "10.96.0.1 is asked at which port", "tcp/70000": `"tcp/70000": 70000 is no number from 1 to 65535`, "tcp/0": `"tcp/0"`, "tcp/": `"tcp/"`, "tcp/-1": `"tcp/-1"`,
		"tcp/http": `"tcp/http": http is no number, and only ports of a Service have names (svc/web:http)`, "80": `"80" has no protocol: say tcp/80 or udp/80`,
		"http": `"http"`, "icmp/256": `"icmp/256": 256 is no number from 0 to 255`, "esp/7": `"esp/7"`, "/80": `"/80"`,
	} {
		_, err := readSession(text, "10.96.0.1")
		if err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), "tcp/80") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readSession("tcp/70000", "svc/web"); err == nil {
		t.Error("a Service is asked at port 70000")
	}
}

// podAt is one of namespace shop.
func podAt(name, node string, addresses ...string) core.Pod {
	pod := core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "shop", Name: name}, Spec: core.PodSpec{NodeName: node}}
	for _, one := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, core.PodIP{IP: one})
	}
	return pod
}

// Of pods with both families, the one is asked about that has this ICMP: quiverd refuses the other one.
func TestICMPIsAskedAboutInItsFamilyAlone(t *testing.T) {
	cluster := apiOf(t, nil, nil, []core.Pod{podAt("a", "n1", "10.0.0.5", "fd00::5"), podAt("b", "n2", "10.0.1.7", "fd00:1::7"), podAt("c", "n2", "10.0.1.8")})
	dual := slices.Clone(addressNodes)
	dual[1].Ranges = ranges("10.0.1.0/24", "fd00:1::/64")
	answers := map[string]string{}
	for _, node := range []string{"n1", "n2"} {
		for _, question := range []string{"10.0.0.5 10.0.1.7 icmp", "10.0.0.5 10.0.1.7 ICMP/8", "fd00::5 fd00:1::7 icmpv6", "fd00::5 fd00:1::7 icmpv6/128"} {
			answers[node+": show acl --match "+question] = said["n1"]
		}
	}
	for _, one := range []struct{ to, protocol, from string }{
		{"shop/b", "icmp", "10.0.0.5"}, {"shop/b", "ICMP/8", "10.0.0.5"}, {"shop/b", "icmpv6", "fd00::5"}, {"shop/b", "icmpv6/128", "fd00::5"},
		{"10.0.1.7", "icmp", "10.0.0.5"}, {"fd00:1::7", "icmpv6", "fd00::5"}, {"::ffff:10.0.1.7", "icmp", "10.0.0.5"},
	} {
		all, err := cluster.explainOn(t.Context(), "shop/a", one.to, one.protocol, dual, asks(answers))
		if err != nil || len(all) != 2 || !all[0].Passes || !all[1].Passes || all[0].From.String() != one.from {
			t.Errorf("%+v: %v, %+v", one, err, all)
		}
	}
	for _, one := range []struct{ to, protocol, says string }{
		{"shop/c", "icmpv6", "shop/c has no IPv6 address, between which icmpv6 is ([10.0.1.8]); say icmp"},
		{"fd00:1::7", "icmp/8", "fd00:1::7 has no IPv4 address, between which icmp is ([fd00:1::7]); say icmpv6"},
	} {
		if all, err := cluster.explainOn(t.Context(), "shop/a", one.to, one.protocol, dual, asks(answers)); err == nil || err.Error() != one.says {
			t.Errorf("%v, %+v", err, all)
		}
	}
	// Between addresses it is seen before anybody is asked.
	if err := CheckSession("10.0.0.5", "10.0.1.7", "icmpv6"); err == nil || err.Error() != "10.0.0.5 and 10.0.1.7: icmpv6 is of the other family; say icmp" {
		t.Error(err)
	}
	for _, from := range []string{"shop/a", "fd00::5"} {
		if err := CheckSession(from, "fd00:1::7", "icmpv6"); err != nil {
			t.Error(err)
		}
	}
}

func TestAddressesThatCannotBeMeantAreRefused(t *testing.T) {
	for address, what := range map[string]string{
		"127.0.0.1": "an address of a host's loopback", "::1": "an address of a host's loopback", "224.0.0.1": "a multicast address", "ff02::1": "a multicast address", "0.0.0.0": "no address", "::": "no address",
		"169.254.1.1": "a link-local address", "fe80::1": "a link-local address", "::ffff:127.0.0.1": "an address of a host's loopback", "255.255.255.255": "the broadcast address",
	} {
		for _, ends := range [][]string{{address, "shop/web-0"}, {"shop/client", address}} {
			if err := CheckSession(ends[0], ends[1], "tcp/80"); err == nil || !strings.HasPrefix(err.Error(), address+" is "+what+", which is nobody's in the cluster") {
				t.Errorf("%v: %v", ends, err)
			}
		}
	}
	if err := CheckSession("198.51.100.9", "fd00::7", "tcp/80"); err != nil {
		t.Error(err)
	}
}
