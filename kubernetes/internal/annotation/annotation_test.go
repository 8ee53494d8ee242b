package annotation

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

const (
	calicoPorts = "cni.projectcalico.org/vppExtraMemifPorts"
	calicoSpec  = "cni.projectcalico.org/vppExtraMemifSpec"
	calicoMap   = "cni.projectcalico.org/vppInterfacesSpec"
)

func TestWhatPodsAskFor(t *testing.T) {
	plain := InterfaceSpec{RxQueues: 1, TxQueues: 1, RxSize: 1024, TxSize: 1024, L3: true, RxMode: "adaptive"}
	ethernet := plain
	ethernet.L3 = false
	wide := InterfaceSpec{RxQueues: 3, TxQueues: 4, RxSize: 512, TxSize: 2048, L3: true, RxMode: "polling"}
	two := plain
	two.RxQueues, two.TxQueues = 2, 2
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want        Pod
	}{
		{"nothing", nil, Pod{Tun: plain}},
		{"foreign annotations", map[string]string{"example.com/x": "{"}, Pod{Tun: plain}},
		{"a host stack that isn't wanted", map[string]string{"cni.projectcalico.org/vppVcl": "disable"}, Pod{Tun: plain}},
		{"a memif", map[string]string{calicoPorts: "tcp:4444-20000,udp:6081"},
			Pod{plain, &Memif{ethernet, []PortRange{{"tcp", 4444, 20000}, {"udp", 6081, 6081}}}}},
		{"capitals and spaces", map[string]string{calicoPorts: " TCP:80, Udp:0-65535 "},
			Pod{plain, &Memif{ethernet, []PortRange{{"tcp", 80, 80}, {"udp", 0, 65535}}}}},
		{"a memif of a shape", map[string]string{calicoPorts: "tcp:1",
			calicoSpec: `{"rx":3,"tx":4,"rxqsz":512,"txqsz":2048,"isl3":true,"rxMode":"polling"}`}, Pod{plain, &Memif{wide, []PortRange{{"tcp", 1, 1}}}}},
		{"the same by our own prefix", map[string]string{"quiver.io/extraMemifPorts": "tcp:1",
			"quiver.io/extraMemifSpec": `{"rx":3,"tx":4,"rxqsz":512,"txqsz":2048,"isl3":true,"rxMode":"polling"}`}, Pod{plain, &Memif{wide, []PortRange{{"tcp", 1, 1}}}}},
		{"both prefixes of one mind", map[string]string{calicoPorts: "tcp:1", "quiver.io/extraMemifPorts": "tcp:1"},
			Pod{plain, &Memif{ethernet, []PortRange{{"tcp", 1, 1}}}}},
		{"eth0 of a shape", map[string]string{calicoMap: `{"eth0":{"rx":2,"tx":2},"net1":{"rx":9}}`}, Pod{two, nil}},
		{"another interface of a shape", map[string]string{calicoMap: `{"memif-a":{"isl3":false}}`}, Pod{plain, nil}},
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
		{"sources", map[string]string{"cni.projectcalico.org/allowedSourcePrefixes": "[]"}, "cni.projectcalico.org/allowedSourcePrefixes", 0, "not supported"},
		{"Sources", map[string]string{"cni.projectcalico.org/AllowedSourcePrefixes": "[]"}, "cni.projectcalico.org/AllowedSourcePrefixes", 0, "not supported"},
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
