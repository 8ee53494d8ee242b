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

// liberal lets pods send from wherever they say.
var liberal = Defaults{Sources: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

func TestWhatPodsAskFor(t *testing.T) {
	plain := InterfaceSpec{RxQueues: 1, TxQueues: 1, L3: true, RxMode: "adaptive"}
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
		{"a shape in other words", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"RX":3,"TX":4,"RxQsz":512,"txQsz":2048,"isL3":true,"rxmode":"polling","rx":null}`}, Pod{Tun: plain, Memif: &Memif{Spec: wide, Ports: []PortRange{{"tcp", 1, 1}}}}},
		{"sources by all names", map[string]string{bigSources: `["fd00::7"]`, smallSources: `["fd00::7"]`, "quiver.io/allowedSourcePrefixes": `["fd00::7"]`},
			Pod{Tun: plain, Sources: []netip.Prefix{netip.MustParsePrefix("fd00::7/128")}}},
		{"a host stack that isn't wanted", map[string]string{"cni.projectcalico.org/vppVcl": "disable"}, Pod{Tun: plain}},
		{"a memif", map[string]string{calicoPorts: "tcp:4444-20000,udp:6081"},
			Pod{Tun: plain, Memif: &Memif{Spec: ethernet, Ports: []PortRange{{"tcp", 4444, 20000}, {"udp", 6081, 6081}}}}},
		{"all protocols with ports", map[string]string{calicoPorts: "tcp:80,SCTP:80-90"}, Pod{Tun: plain, Memif: &Memif{Spec: ethernet, Ports: []PortRange{{"tcp", 80, 80}, {"sctp", 80, 90}}}}},
		// (Not all ports.)
		{"port 0", map[string]string{calicoPorts: "tcp:0"}, Pod{Tun: plain, Memif: &Memif{Spec: ethernet, Ports: []PortRange{{"tcp", 0, 0}}}}},
		{"a memif without fallback", map[string]string{calicoPorts: "tcp:1", "quiver.io/memifFallback": "drop"},
			Pod{Tun: plain, Memif: &Memif{Spec: ethernet, Ports: []PortRange{{"tcp", 1, 1}}, Drops: true}}},
		{"capitals and spaces", map[string]string{calicoPorts: " TCP:80, Udp:0-65535 "},
			Pod{Tun: plain, Memif: &Memif{Spec: ethernet, Ports: []PortRange{{"tcp", 80, 80}, {"udp", 0, 65535}}}}},
		{"a memif of a shape", map[string]string{calicoPorts: "tcp:1",
			calicoSpec: `{"rx":3,"tx":4,"rxqsz":512,"txqsz":2048,"isl3":true,"rxMode":"polling"}`}, Pod{Tun: plain, Memif: &Memif{Spec: wide, Ports: []PortRange{{"tcp", 1, 1}}}}},
		{"the same by our own prefix", map[string]string{"quiver.io/extraMemifPorts": "tcp:1",
			"quiver.io/extraMemifSpec": `{"rx":3,"tx":4,"rxqsz":512,"txqsz":2048,"isl3":true,"rxMode":"polling"}`}, Pod{Tun: plain, Memif: &Memif{Spec: wide, Ports: []PortRange{{"tcp", 1, 1}}}}},
		{"both prefixes of one mind", map[string]string{calicoPorts: "tcp:1", "quiver.io/extraMemifPorts": "tcp:1"},
			Pod{Tun: plain, Memif: &Memif{Spec: ethernet, Ports: []PortRange{{"tcp", 1, 1}}}}},
		{"a memif of one size", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxqsz":64,"txqsz":null}`},
			Pod{Tun: plain, Memif: &Memif{Spec: InterfaceSpec{RxQueues: 1, TxQueues: 1, RxSize: 64, RxMode: "adaptive"}, Ports: []PortRange{{"tcp", 1, 1}}}}},
		{"eth0 of a shape", map[string]string{calicoMap: `{"eth0":{"rx":2,"tx":2}}`}, Pod{Tun: two}},
		{"one of several interfaces", map[string]string{calicoMap: `{"eth0":{"rx":2,"tx":2},"net1":{"rx":9}}`, networks: "other"}, Pod{Tun: two}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.annotations, "eth0", liberal)
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
		{"protocol", map[string]string{calicoPorts: "tcp:1,esp:3"}, calicoPorts, 7, `"esp" is neither tcp, udp nor sctp`},
		{"protocol without ports, and no other", map[string]string{calicoPorts: "icmp:8,icmp6:128"}, calicoPorts, 1, "names no port"},
		{"port of a protocol without ports", map[string]string{calicoPorts: "tcp:1,icmp:x"}, calicoPorts, 12, "x"},
		{"overlap of sctp", map[string]string{calicoPorts: "tcp:1-9,sctp:3,sctp:1-5"}, calicoPorts, 16, `"sctp:1-5" overlaps sctp:3`},
		{"no port", map[string]string{calicoPorts: "udp:7,tcp:"}, calicoPorts, 11, `there is no port behind "tcp:"`},
		{"port below zero", map[string]string{calicoPorts: "tcp:-1"}, calicoPorts, 5, `"-1" is no port (0 to 65535)`},
		{"range without an end", map[string]string{calicoPorts: "tcp:5-"}, calicoPorts, 7, `the range "5-" has no last port`},
		{"port", map[string]string{calicoPorts: "tcp:65536"}, calicoPorts, 5, "65536"},
		{"signed port", map[string]string{calicoPorts: "tcp:+5"}, calicoPorts, 5, "+5"},
		{"end of range", map[string]string{calicoPorts: "tcp:1-x"}, calicoPorts, 7, "x"},
		{"range backwards", map[string]string{calicoPorts: "udp:9-3"}, calicoPorts, 7, "before"},
		{"overlap", map[string]string{calicoPorts: "tcp:1-9,  tcp:9"}, calicoPorts, 11, `"tcp:9" overlaps tcp:1-9`},
		{"syntax", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":2,}`}, calicoSpec, 9, "'}'"},
		{"cut short", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":2`}, calicoSpec, 8, "too early"},
		{"something behind", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{} {}`}, calicoSpec, 4, "after top-level value"},
		{"kind of value", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":"2"}`}, calicoSpec, 7, "rx is a string"},
		{"unknown field", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxs":2}`}, calicoSpec, 2, "rxs"},
		{"too many queues", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx": 17}`}, calicoSpec, 8, "rx = 17"},
		{"no queue", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":2, "tx":0}`}, calicoSpec, 15, "tx = 0"},
		{"queues below zero", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"tx":-1}`}, calicoSpec, 7, "tx = -1"},
		{"half a queue", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"tx":1.5}`}, calicoSpec, 7, "tx = 1.5"},
		{"twice", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"tx":1,"tx":2}`}, calicoSpec, 9, "twice"},
		{"twice, in other letters", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rx":3, "RX":4}`}, calicoSpec, 10, `"RX" is there twice, as rx`},
		{"no object", map[string]string{calicoPorts: "tcp:1", calicoSpec: ` 7`}, calicoSpec, 2, "expected an object, not a number (7)"},
		{"layer", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"isl3":1}`}, calicoSpec, 9, "isl3 is a number (1)"},
		{"ring size", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxqsz":1000}`}, calicoSpec, 10, "rxqsz = 1000"},
		{"a mode that is a number", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxMode":7}`}, calicoSpec, 11, "rxMode is a number (7)"},
		{"a mode that is an object", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxMode":{}}`}, calicoSpec, 11, "rxMode is an object"},
		{"a mark of byte order", map[string]string{calicoPorts: "tcp:1", calicoSpec: "\ufeff{\"rx\":2}"}, calicoSpec, 1, "begins with a byte order mark (U+FEFF)"},
		{"sources: a mark of byte order", map[string]string{smallSources: "\ufeff[]"}, smallSources, 1, "byte order mark"},
		{"mode", map[string]string{calicoPorts: "tcp:1", calicoSpec: `{"rxMode":"fast"}`}, calicoSpec, 11, "fast"},
		{"an interface's fault", map[string]string{calicoMap: `{"net1":{"rx":99}}`}, calicoMap, 15, "net1: rx = 99"},
		{"an interface that is no object", map[string]string{calicoMap: `{"eth0":[2]}`}, calicoMap, 9, "eth0: expected an object, not an array"},
		{"an interface that there isn't", map[string]string{calicoMap: `{"eth0":{},"memif-a":{"isl3":false}}`}, calicoMap, 12, "memif-a"},
		{"a memif among several", map[string]string{calicoMap: `{"memif-a":{}}`, networks: "other"}, calicoMap, 2, "memif-a"},
		{"the memif by the name that its status has", map[string]string{calicoPorts: "tcp:1", calicoMap: `{"eth0":{},"memif-eth0":{"rx":2}}`}, calicoMap, 12, `no interface "memif-eth0"`},
		{"an interface in capitals", map[string]string{calicoMap: `{"ETH0":{}}`}, calicoMap, 2, `no interface "ETH0"`},
		{"a mode in capitals", map[string]string{calicoMap: `{"eth0":{"RXMODE":"Polling"}}`}, calicoMap, 19, `rxMode = "Polling" is not known`},
		{"fallback", map[string]string{calicoPorts: "tcp:1", "quiver.io/memifFallback": "tun"}, "quiver.io/memifFallback", 1, "tun"},
		{"fallback of nothing", map[string]string{"quiver.io/memifFallback": "drop"}, "quiver.io/memifFallback", 1, "no annotation asks for"},
		{"Ethernet as eth0", map[string]string{calicoMap: `{"eth0":{"isl3":false}}`}, calicoMap, 17, "isl3"},
		{"a shape of nothing", map[string]string{calicoSpec: `{}`}, calicoSpec, 1, "no annotation asks for"},
		{"a shape of nothing by our own key", map[string]string{"quiver.io/extraMemifSpec": `{}`}, "quiver.io/extraMemifSpec", 1, "no annotation asks for"},
		{"two minds", map[string]string{calicoPorts: "tcp:1", "quiver.io/extraMemifPorts": "tcp:2"}, "quiver.io/extraMemifPorts", 5, calicoPorts},
		{"host stack", map[string]string{"cni.projectcalico.org/vppVcl": "enable"}, "cni.projectcalico.org/vppVcl", 1, "host stack"},
		{"sources: no array", map[string]string{smallSources: `"10.0.0.1"`}, smallSources, 1, "array"},
		{"sources: nothing", map[string]string{smallSources: ""}, smallSources, 1, "too early"},
		{"sources: no address", map[string]string{bigSources: `["10.0.0.1", "10.0.0"]`}, bigSources, 14, "10.0.0"},
		{"sources: length", map[string]string{bigSources: `["fd00::/129"]`}, bigSources, 2, "fd00::/129"},
		{"sources: no string", map[string]string{bigSources: `["10.0.0.1",7]`}, bigSources, 13, "expected a string, not a number"},
		{"sources: too many", map[string]string{bigSources: "[" + strings.Repeat(`"10.0.0.1",`, 64) + `"10.0.0.2"]`}, bigSources, 2 + 64*11, `"10.0.0.2" is one more`},
		{"sources: not ended", map[string]string{bigSources: `["10.0.0.1"`}, bigSources, 12, "too early"},
		{"sources: goes on", map[string]string{bigSources: `[] []`}, bigSources, 4, "after top-level value"},
		{"sources: two minds", map[string]string{bigSources: `["10.0.0.1"]`, smallSources: `[]`}, smallSources, 2, bigSources},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.annotations, "eth0", liberal)
			var fault *Error
			if !errors.As(err, &fault) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if strings.HasPrefix(fault.Key, quiverPrefix) && strings.Contains(fault.Remedy, calicoPrefix) {
				t.Errorf("who writes our own keys is told of Calico's: %s", fault.Remedy)
			}
			if fault.Key != c.key || fault.Position != c.position || !strings.Contains(fault.Reason, c.words) || fault.Remedy == "" {
				t.Fatalf("got %+v; want key %s, position %d, %q", fault, c.key, c.position, c.words)
			}
		})
	}
}

func TestAnOverlapIsToldAsAnnotationsAreWritten(t *testing.T) {
	for list, want := range map[string]string{
		"tcp:80,udp:80,tcp:80":    `position 15: "tcp:80" overlaps tcp:80`,
		"tcp:80-90,TCP:85":        `position 11: "TCP:85" overlaps tcp:80-90`,
		"sctp:3, sctp:1-5,sctp:2": `position 9: "sctp:1-5" overlaps sctp:3`,
	} {
		_, err := Read(map[string]string{calicoPorts: list}, "eth0", liberal)
		if err == nil || err.Error() != "annotation "+calicoPorts+", "+want {
			t.Errorf("%s: %v", list, err)
		}
	}
}

func TestWhoShapesTheMemifAmongInterfacesIsToldByWhatItIsShaped(t *testing.T) {
	for key, want := range map[string]string{calicoMap: calicoSpec, "quiver.io/interfacesSpec": "quiver.io/extraMemifSpec"} {
		_, err := Read(map[string]string{calicoPorts: "tcp:1", key: `{"memif-eth0":{"rx":2}}`}, "eth0", liberal)
		var fault *Error
		if !errors.As(err, &fault) || fault.Remedy != "name eth0, or describe the memif by "+want {
			t.Errorf("%s: %+v", key, err)
		}
	}
}

func TestAFaultInSeveralLinesIsNamedByItsLine(t *testing.T) {
	for _, c := range []struct {
		key, text, want string
	}{
		{calicoSpec, "{\n  \"rx\": 2,\n  \"tx\": 99\n}", "line 3, column 9"},
		{calicoSpec, "{\n  \"rx\": 2,\n}", "line 3, column 1"},
		// As a block in YAML has it.
		{calicoSpec, "{\"tx\": 99}\n", "position 8"},
		{calicoPorts, "tcp:1,\n  esp:3,\n  udp:7\n", "line 2, column 3"},
		{calicoPorts, "tcp:1,\n\tudp:7-x\n", "line 2, column 8"},
		{calicoPorts, "tcp:1-9,\r\n  udp:7,\r\n  tcp:9\r\n", "line 3, column 3"},
		{bigSources, "[\n  \"10.0.0.1\",\n  \"10.0.0\"\n]", "line 3, column 3"},
	} {
		annotations := map[string]string{calicoPorts: "tcp:1"}
		annotations[c.key] = c.text
		_, err := Read(annotations, "eth0", liberal)
		if err == nil || !strings.HasPrefix(err.Error(), "annotation "+c.key+", "+c.want+": ") {
			t.Errorf("%q: %v; want %s", c.text, err, c.want)
		}
	}
}

// Whoever may make pods may write any annotation: what it is worth is for who runs the cluster to say.
func TestPodsSendFromWhatTheAgentAllowsAlone(t *testing.T) {
	const some = "10.99.0.0/16, fd99::/64,172.16.104.7"
	for _, c := range []struct{ allowed, asked, words string }{
		{"", `[]`, ""},
		{"", `["10.99.0.1"]`, `position 2: "10.99.0.1" isn't among what pods may send from besides: nothing is allowed`},
		{some, `["10.99.0.1", "10.99.1.0/24", "fd99::5", "172.16.104.7"]`, ""},
		{some, `["10.99.0.1", "192.168.7.1"]`, `position 15: "192.168.7.1" isn't among what pods may send from besides: 10.99.0.0/16, fd99::/64, 172.16.104.7/32`},
		{some, `["10.0.0.0/8"]`, `position 2: "10.0.0.0/8"`},
		{some, `["172.16.104.6/31"]`, `position 2: "172.16.104.6/31"`},
		{some, `["0.0.0.0/0"]`, `position 2`},
		{some, `["::ffff:192.168.7.1"]`, `position 2`},
		{"0.0.0.0/0", `["10.99.0.1", "fd99::5"]`, `position 15`},
	} {
		allowed, err := ParseSources(c.allowed)
		if err != nil {
			t.Fatal(err)
		}
		pod, err := Read(map[string]string{smallSources: c.asked}, "eth0", Defaults{Sources: allowed})
		if c.words == "" {
			if err != nil || len(pod.Sources) != strings.Count(c.asked, `"`)/2 {
				t.Errorf("%q, %s: %+v, %v", c.allowed, c.asked, pod, err)
			}
			continue
		}
		var fault *Error
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.words) || !strings.Contains(fault.Remedy, "--allowed-source-prefixes") {
			t.Errorf("%q, %s: %v", c.allowed, c.asked, err)
		}
	}
	if _, err := ParseSources("10.99.0.0/16,10.99"); err == nil {
		t.Error("10.99 was understood")
	}
}

func TestWhoTakesAMemifsPortsIsTheAgentsToSayWherePodsDont(t *testing.T) {
	for word, want := range map[string]bool{"": true, "drop": true, "eth0": false} {
		annotations := map[string]string{calicoPorts: "tcp:1"}
		if word != "" {
			annotations["quiver.io/memifFallback"] = word
		}
		pod, err := Read(annotations, "eth0", Defaults{MemifDrops: true})
		if err != nil || pod.Memif.Drops != want {
			t.Errorf("%q: %+v, %v", word, pod, err)
		}
	}
	if pod, err := Read(nil, "eth0", Defaults{MemifDrops: true}); err != nil || pod.Memif != nil {
		t.Errorf("%+v, %v", pod, err)
	}
}

func TestWhatHasNoEffectIsTold(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		want        []string
	}{
		{map[string]string{"cni.projectcalico.org/podIP": "10.0.0.1", "example.com/vppX": "1", "quiver.io/status": "{}", calicoPorts: "tcp:1"}, nil},
		{map[string]string{"cni.projectcalico.org/vppExtraMemifPort": "tcp:1"}, []string{"vppExtraMemifPort is not known"}},
		{map[string]string{"quiver.io/memifPorts": "tcp:1", "quiver.io/loadBalancing": "maglev"}, []string{"quiver.io/loadBalancing is for Services", "quiver.io/memifPorts is not known"}},
		{map[string]string{"cni.projectcalico.org/vppHashConfig": "srcaddr", "extensions.projectcalico.org/network": "blue"}, []string{"vppHashConfig is for Services", "one network of pods"}},
		{map[string]string{calicoMap: `{"eth0":{"rx":2,"rxqsz":256}}`}, []string{"position 25: eth0: rxqsz"}},
		{map[string]string{calicoPorts: "tcp:1, ICMP:8,icmp:0-8,icmp6:128"}, []string{`position 8: "ICMP:8" has no effect: icmp has no ports`, `position 15: "icmp:0-8"`, `position 24: "icmp6:128"`}},
	} {
		pod, err := Read(c.annotations, "eth0", Defaults{})
		if err != nil || len(pod.Ignored) != len(c.want) {
			t.Errorf("%v: %+v, %v; want %q", c.annotations, pod, err, c.want)
			continue
		}
		for i, words := range c.want {
			if !strings.Contains(pod.Ignored[i], words) {
				t.Errorf("%v: %q; want %q", c.annotations, pod.Ignored[i], words)
			}
		}
	}
}
