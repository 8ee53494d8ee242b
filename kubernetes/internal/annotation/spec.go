package annotation

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// InterfaceSpec is the shape of an interface.
type InterfaceSpec struct {
	// RxQueues from which the dataplane receives, TxQueues to which it sends.
	RxQueues uint32 `json:"rxQueues"`
	TxQueues uint32 `json:"txQueues"`
	// RxSize and TxSize are descriptors per queue; of memif only. 0: not said. (Agents before this one wrote 1024 there, under other names, and had no
	// size in force: pods of theirs keep what they have.)
	RxSize uint32 `json:"rxRing,omitempty"`
	TxSize uint32 `json:"txRing,omitempty"`
	// L3: IP packets; else Ethernet frames.
	L3 bool `json:"l3"`
	// RxMode is how queues are served: "polling", "interrupt", "adaptive".
	RxMode string `json:"rxMode"`
}

const (
	mostQueues    = 16
	smallestQueue = 64
	largestQueue  = 16384
)

// MostRing is how many descriptors a ring of a memif of this shape has at most: what quiverd offers.
func (s InterfaceSpec) MostRing() uint32 {
	if said := max(s.RxSize, s.TxSize); said != 0 {
		return said
	}
	return largestQueue
}

// Queues are those of an interface in words.
func Queues(rx, tx int) string {
	word := "queues"
	if rx == 1 {
		word = "queue"
	}
	return fmt.Sprintf("%d %s to receive from, %d to send to", rx, word, tx)
}

const specRemedy = `write JSON with the fields rx, tx, rxqsz, txqsz, isl3, rxMode, such as {"rx": 2, "tx": 2}`

// Fields of a specification that are numbers.
var numbers = map[string]struct {
	to    func(*InterfaceSpec) *uint32
	right func(uint64) bool
	rule  string
}{
	"rx":    {func(s *InterfaceSpec) *uint32 { return &s.RxQueues }, isQueues, fmt.Sprintf("give a number of queues from 1 to %d", mostQueues)},
	"tx":    {func(s *InterfaceSpec) *uint32 { return &s.TxQueues }, isQueues, fmt.Sprintf("give a number of queues from 1 to %d", mostQueues)},
	"rxqsz": {func(s *InterfaceSpec) *uint32 { return &s.RxSize }, isSize, fmt.Sprintf("give a power of two from %d to %d", smallestQueue, largestQueue)},
	"txqsz": {func(s *InterfaceSpec) *uint32 { return &s.TxSize }, isSize, fmt.Sprintf("give a power of two from %d to %d", smallestQueue, largestQueue)},
}

// All fields. As for encoding/json, which reads them in Calico/VPP, capitals make no difference.
var fieldNames = []string{"rx", "tx", "rxqsz", "txqsz", "isl3", "rxMode"}

func isQueues(n uint64) bool { return 1 <= n && n <= mostQueues }

func isSize(n uint64) bool {
	return smallestQueue <= n && n <= largestQueue && bits.OnesCount64(n) == 1
}

func defaultSpec(l3 bool) InterfaceSpec {
	return InterfaceSpec{RxQueues: 1, TxQueues: 1, L3: l3, RxMode: "adaptive"}
}

// placed is a specification, and where in the annotation what it says stands.
type placed struct {
	InterfaceSpec
	// Name of the interface; and of the fields that are there, the values.
	name   int
	fields map[string]int
}

// readSpec understands one InterfaceSpec.
func readSpec(key, text string, l3 bool) (InterfaceSpec, error) {
	v, err := readJSON(key, text, specRemedy)
	if err != nil {
		return InterfaceSpec{}, err
	}
	spec, err := v.spec("", l3)
	return spec.InterfaceSpec, err
}

// readSpecs understands a map from interface name to InterfaceSpec; every entry must be right.
func readSpecs(key, text string) (map[string]placed, error) {
	v, err := readJSON(key, text, `write JSON: {"eth0": {"rx": 2, "tx": 2}}`)
	if err != nil {
		return nil, err
	}
	specs := map[string]placed{}
	err = v.object("", func(name string, at int) error {
		spec, err := v.spec(name+": ", !strings.HasPrefix(name, "memif"))
		spec.name = at
		specs[name] = spec
		return err
	})
	return specs, err
}

// spec reads one, with defaults for fields that are left out.
func (v *value) spec(where string, l3 bool) (placed, error) {
	spec := placed{defaultSpec(l3), 0, map[string]int{}}
	err := v.object(where, func(name string, at int) error {
		known := slices.IndexFunc(fieldNames, func(field string) bool { return strings.EqualFold(field, name) })
		if known < 0 {
			return &Error{Key: v.key, Position: at, Reason: fmt.Sprintf("%sthere is no field %q", where, name), Remedy: specRemedy}
		}
		named, written := at, name
		name, at = fieldNames[known], v.next()
		token, _ := v.decoder.Token()
		if token == nil {
			// As if it were left out.
			return nil
		}
		if _, before := spec.fields[name]; before {
			return &Error{Key: v.key, Position: named, Reason: fmt.Sprintf("%s%q is there twice, as %s", where, written, name), Remedy: specRemedy}
		}
		spec.fields[name] = at
		return v.field(&spec.InterfaceSpec, where+name, name, token, at)
	})
	return spec, err
}

// field reads one of a specification.
func (v *value) field(spec *InterfaceSpec, full, name string, token json.Token, at int) error {
	wrong := func(remedy, format string, arguments ...any) error {
		return &Error{Key: v.key, Position: at, Reason: full + " " + fmt.Sprintf(format, arguments...), Remedy: remedy}
	}
	switch name {
	case "isl3":
		is, right := token.(bool)
		if !right {
			return wrong("give true for IP packets, false for Ethernet", "is %s", kindOf(token))
		}
		spec.L3 = is
	case "rxMode":
		mode, is := token.(string)
		const rule = "give \"polling\", \"interrupt\", \"adaptive\" or \"default\""
		if !is {
			return wrong(rule, "is %s", kindOf(token))
		}
		if !slices.Contains([]string{"polling", "interrupt", "adaptive", "default", ""}, mode) {
			return wrong(rule, "= %q is not known", mode)
		}
		if mode != "default" && mode != "" {
			spec.RxMode = mode
		}
	default:
		number := numbers[name]
		text, is := token.(json.Number)
		if !is {
			return wrong(number.rule, "is %s", kindOf(token))
		}
		// (What is no whole number, or below zero, is not possible either.)
		n, err := strconv.ParseUint(string(text), 10, 64)
		if err != nil || !number.right(n) {
			return wrong(number.rule, "= %s is not possible", text)
		}
		*number.to(spec) = uint32(n)
	}
	return nil
}
