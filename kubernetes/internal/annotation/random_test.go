package annotation

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Pieces of which values are made, also of those that other pieces are wrong in.
var pieces = []string{
	"tcp:80", "udp:6081-6090", "TCP:", "icmp", "sctp", ":", "-", ",", " ", "\n", "\r\n", "\t", "65536", "0", "17", "-1", "1e1", "1.5", "{", "}", "[", "]", `"`, `\`, "é", "\u2028", "\xff", "\x00",
	`"eth0"`, `"memif-eth0"`, `"net1"`, `"rx"`, `"RX"`, `"tx"`, `"rxqsz"`, `"isl3"`, `"rxMode"`, `"polling"`, `"10.0.0.1"`, `"fd00::/64"`, `"fe80::1%1"`, `"10.0.0.0/33"`, "null", "true", "false",
	`{"rx": 2}`, `{"eth0": {"rx": 2, "tx": 2}}`, `["10.0.0.1"]`, `"\ud800"`,
}

// made is a value that is right, or has been, in which up to three places have been changed.
func made(by *rand.Rand, right string) string {
	text := right
	for range by.IntN(4) {
		from := by.IntN(len(text) + 1)
		to := min(len(text), from+by.IntN(4))
		text = text[:from] + pieces[by.IntN(len(pieces))] + text[to:]
	}
	return text
}

// Whatever somebody writes has an answer: what it means, or what is wrong with which of the annotations, and where.
func TestNoTextIsTooOddToBeAnswered(t *testing.T) {
	by := rand.New(rand.NewPCG(1, 2))
	right := map[string]string{
		calicoPorts: "tcp:4444-20000,\n  udp:6081", calicoSpec: `{"rx": 2, "tx": 2,\n "rxqsz": 512, "isl3": true, "rxMode": "polling"}`, calicoMap: `{"eth0": {"rx": 2, "tx": 2}}`,
		smallSources: `["172.16.104.7", "fd00::/64"]`, "quiver.io/memifFallback": "drop",
	}
	keys := sorted(right)
	good := 0
	for range 100_000 {
		annotations := map[string]string{}
		for _, key := range keys {
			if by.IntN(3) > 0 {
				annotations[key] = made(by, right[key])
			}
		}
		pod, err := Read(annotations, "eth0", liberal)
		if err == nil {
			good++
			judge(t, annotations, pod)
			continue
		}
		var fault *Error
		if !errors.As(err, &fault) {
			t.Fatalf("%q: %v", annotations, err)
		}
		value, told := annotations[fault.Key]
		if !told || fault.Position < 1 || fault.Position > len(value)+1 || fault.Reason == "" || fault.Remedy == "" {
			t.Fatalf("%q: %+v", annotations, fault)
		}
		if fault.Line > 0 {
			// What the line and the column name is what the position does.
			lines := strings.SplitAfter(value, "\n")
			if at := len(strings.Join(lines[:fault.Line-1], "")) + fault.Column; at != fault.Position {
				t.Fatalf("%q: %+v, which would be position %d", value, fault, at)
			}
		}
	}
	if good < 1000 {
		t.Errorf("only %d of them were right: not much is shown", good)
	}
}

// judge looks whether what was read can be.
func judge(t *testing.T, annotations map[string]string, pod *Pod) {
	t.Helper()
	specs := []InterfaceSpec{pod.Tun}
	if pod.Memif != nil {
		specs = append(specs, pod.Memif.Spec)
		for i, one := range pod.Memif.Ports {
			if one.First > one.Last || slices.ContainsFunc(pod.Memif.Ports[:i], func(other PortRange) bool {
				return other.Protocol == one.Protocol && other.First <= one.Last && one.First <= other.Last
			}) {
				t.Fatalf("%q: ports %v", annotations, pod.Memif.Ports)
			}
		}
	}
	possible := func(size uint32) bool { return size == 0 || isSize(uint64(size)) }
	for _, spec := range specs {
		if !isQueues(uint64(spec.RxQueues)) || !isQueues(uint64(spec.TxQueues)) || !possible(spec.RxSize) || !possible(spec.TxSize) ||
			!slices.Contains([]string{"polling", "interrupt", "adaptive"}, spec.RxMode) {
			t.Fatalf("%q: %+v", annotations, spec)
		}
	}
	for _, source := range pod.Sources {
		if !source.IsValid() || source != source.Masked() {
			t.Fatalf("%q: sources %v", annotations, pod.Sources)
		}
	}
}
