package annotation

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

const (
	calicoPorts = "cni.projectcalico.org/vppExtraMemifPorts"
	calicoSpec  = "cni.projectcalico.org/vppExtraMemifSpec"
	calicoMap   = "cni.projectcalico.org/vppInterfacesSpec"

	bigSources   = "cni.projectcalico.org/AllowedSourcePrefixes"
	smallSources = "cni.projectcalico.org/allowedSourcePrefixes"
)

func TestWhatPodsAskFor(t *testing.T) {
	plain := InterfaceSpec{RxQueues: 1, TxQueues: 1, RxSize: 1024, TxSize: 1024, L3: true, RxMode: "adaptive"}
	ethernet := plain
	ethernet.L3 = false
	wide := InterfaceSpec{RxQueues: 3, TxQueues: 4, RxSize: 512, TxSize: 2048, L3: true, RxMode: "polling"}
	two := plain
	two.RxQueues, two.TxQueues = 2, 2
	sources := []netip.Prefix{netip.MustParsePrefix("172.16.104.7/32"), netip.MustParsePrefix("3.4.5.0/24"), netip.MustParsePrefix("fd00::/64")}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want        Pod
	}{
		{"nothing", nil, Pod{Tun: plain}},
		{"foreign annotations", map[string]string{"example.com/x": "{"}, Pod{Tun: plain}},
		{"further sources", map[string]string{bigSources: `["172.16.104.7", "3.4.5.6/24","fd00::/64"]`}, Pod{Tun: plain, Sources: sources}},
		{"no further sources", map[string]string{smallSources: " [ ] "}, Pod{Tun: plain}},
		{"sources by all names", map[string]string{bigSources: `["fd00::7"]`, smallSources: `["fd00::7"]`, "quiver.io/allowedSourcePrefixes": `["fd00::7"]`},
			Pod{Tun: plain, Sources: []netip.Prefix{netip.MustParsePrefix("fd00::7/128")}}},
		{"a host stack that isn't wanted", map[string]string{"cni.projectcalico.org/vppVcl": "disable"}, Pod{Tun: plain}},
		{"a memif", map[string]string{calicoPorts: "tcp:4444-20000,udp:6081"},
			Pod{Tun: plain, Memif: &Memif{ethernet, []PortRange{{"tcp", 4444, 20000}, {"udp", 6081, 6081}}}}},
		{"capitals and spaces", map[string]string{calicoPorts: " TCP:80, Udp:0-65535 "},
			Pod{Tun: plain, Memif: &Memif{ethernet, []PortRange{{"tcp", 80, 80}, {"udp", 0, 65535}}}}},
		{"a memif of a shape", map[string]string{calicoPorts: "tcp:1",
			calicoSpec: `{"rx":3,"tx":4,"rxqsz":512,"txqsz":2048,"isl3":true,"rxMode":"polling"}`}, Pod{Tun: plain, Memif: &Memif{wide, []PortRange{{"tcp", 1, 1}}}}},
		{"the same by our own prefix", map[string]string{"quiver.io/extraMemifPorts": "tcp:1",
			"quiver.io/extraMemifSpec": `{"rx":3,"tx":4,"rxqsz":512,"txqsz":2048,"isl3":true,"rxMode":"polling"}`}, Pod{Tun: plain, Memif: &Memif{wide, []PortRange{{"tcp", 1, 1}}}}},
		{"both prefixes of one mind", map[string]string{calicoPorts: "tcp:1", "quiver.io/extraMemifPorts": "tcp:1"},
			Pod{Tun: plain, Memif: &Memif{ethernet, []PortRange{{"tcp", 1, 1}}}}},
		{"eth0 of a shape", map[string]string{calicoMap: `{"eth0":{"rx":2,"tx":2},"net1":{"rx":9}}`}, Pod{Tun: two}},
		{"another interface of a shape", map[string]string{calicoMap: `{"memif-a":{"isl3":false}}`}, Pod{Tun: plain}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.annotations, "eth0")
			if err != nil || !reflect.DeepEqual(*got, c.want) {
				t.Fatalf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestFaultsAreNamedWithTheirPosition(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		key         string
		position    int
		words       string
	}{
		{"no colon", map[string]string{calicoPorts: "tcp:1,udp"}, calicoPorts, 7, "colon"},
		{"empty", map[string]string{calicoPorts: ""}, calicoPorts, 1, "colon"},
		{"a comma too many", map[string]string{calicoPorts: "tcp:1,"}, calicoPorts, 7, "colon"},
		{"protocol", map[string]string{calicoPorts: "tcp:1,icmp:3"}, calicoPorts, 7, "icmp"},
		{"port", map[string]string{calicoPorts: "tcp:65536"}, calicoPorts, 5, "65536"},
		{"signed port", map[string]string{calicoPorts: "tcp:+5"}, calicoPorts, 5, "+5"},
		{"end of range", map[string]string{calicoPorts: "tcp:1-x"}, calicoPorts, 7, "x"},
		{"range backwards", map[string]string{calicoPorts: "udp:9-3"}, calicoPorts, 7, "before"},
		{"overlap", map[string]string{calicoPorts: "tcp:1-9,tcp:9"}, calicoPorts, 9, "overlaps"},
		{"syntax", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":2,}`}, calicoSpec, 9, "'}'"},
		{"cut short", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":2`}, calicoSpec, 8, "too early"},
		{"something behind", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{} {}`}, calicoSpec, 3, "follows"},
		{"kind of value", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":"2"}`}, calicoSpec, 9, "rx"},
		{"unknown field", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxs":2}`}, calicoSpec, 0, "rxs"},
		{"too many queues", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":17}`}, calicoSpec, 0, "rx = 17"},
		{"no queue", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"tx":0}`}, calicoSpec, 0, "tx = 0"},
		{"ring size", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxqsz":1000}`}, calicoSpec, 0, "rxqsz = 1000"},
		{"mode", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxMode":"fast"}`}, calicoSpec, 0, "fast"},
		{"an interface's fault", map[string]string{calicoMap: `{"net1":{"rx":99}}`}, calicoMap, 0, "net1: rx = 99"},
		{"Ethernet as eth0", map[string]string{calicoMap: `{"eth0":{"isl3":false}}`}, calicoMap, 0, "isl3"},
		{"a shape of nothing", map[string]string{calicoSpec: `{}`}, calicoSpec, 0, "no annotation asks for"},
		{"two minds", map[string]string{calicoPorts: "tcp:1", "quiver.io/extraMemifPorts": "tcp:2"}, "quiver.io/extraMemifPorts", 0, calicoPorts},
		{"host stack", map[string]string{"cni.projectcalico.org/vppVcl": "enable"}, "cni.projectcalico.org/vppVcl", 0, "host stack"},
		{"sources: no array", map[string]string{smallSources: `"10.0.0.1"`}, smallSources, 1, "array"},
		{"sources: nothing", map[string]string{smallSources: ""}, smallSources, 1, "array"},
		{"sources: no address", map[string]string{bigSources: `["10.0.0.1", "10.0.0"]`}, bigSources, 14, "10.0.0"},
		{"sources: length", map[string]string{bigSources: `["fd00::/129"]`}, bigSources, 2, "fd00::/129"},
		{"sources: no string", map[string]string{bigSources: `["10.0.0.1",7]`}, bigSources, 13, "no string"},
		{"sources: not ended", map[string]string{bigSources: `["10.0.0.1"`}, bigSources, 12, "end"},
		{"sources: goes on", map[string]string{bigSources: `[] []`}, bigSources, 4, "follows"},
		{"sources: two minds", map[string]string{bigSources: `["10.0.0.1"]`, smallSources: `[]`}, smallSources, 0, bigSources},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.annotations, "eth0")
			var fault *Error
			if !errors.As(err, &fault) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if fault.Key != c.key || c.position != 0 && fault.Position != c.position || !strings.Contains(fault.Reason, c.words) || fault.Remedy == "" {
				t.Fatalf("got %+v; want key %s, position %d, %q", fault, c.key, c.position, c.words)
			}
		})
	}
}
