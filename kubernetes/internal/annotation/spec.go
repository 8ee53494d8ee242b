package annotation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strings"
)

// InterfaceSpec is the shape of an interface.
type InterfaceSpec struct {
	// RxQueues from which the dataplane receives, TxQueues to which it sends.
	RxQueues uint32 `json:"rxQueues"`
	TxQueues uint32 `json:"txQueues"`
	// RxSize and TxSize are descriptors per queue; of memif only.
	RxSize uint32 `json:"rxSize"`
	TxSize uint32 `json:"txSize"`
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

// The value in an annotation. Pointers tell what was left out.
type specText struct {
	Rx     *int64  `json:"rx"`
	Tx     *int64  `json:"tx"`
	RxSize *int64  `json:"rxqsz"`
	TxSize *int64  `json:"txqsz"`
	L3     *bool   `json:"isl3"`
	RxMode *string `json:"rxMode"`
}

func defaultSpec(l3 bool) InterfaceSpec {
	return InterfaceSpec{RxQueues: 1, TxQueues: 1, RxSize: 1024, TxSize: 1024, L3: l3, RxMode: "adaptive"}
}

// readSpec understands one InterfaceSpec.
func readSpec(key, text string, l3 bool) (InterfaceSpec, error) {
	var value specText
	if err := decode(key, text, &value); err != nil {
		return InterfaceSpec{}, err
	}
	return value.spec(key, "", l3)
}

// readSpecs understands a map from interface name to InterfaceSpec; every entry must be right.
func readSpecs(key, text string) (map[string]InterfaceSpec, error) {
	var values map[string]specText
	if err := decode(key, text, &values); err != nil {
		return nil, err
	}
	specs := map[string]InterfaceSpec{}
	for _, name := range sorted(values) {
		spec, err := values[name].spec(key, name+": ", !strings.HasPrefix(name, "memif"))
		if err != nil {
			return nil, err
		}
		specs[name] = spec
	}
	return specs, nil
}

// spec checks the fields and puts defaults for those that are left out.
func (t specText) spec(key, where string, l3 bool) (InterfaceSpec, error) {
	spec := defaultSpec(l3)
	for _, field := range []struct {
		name  string
		value *int64
		to    *uint32
		right func(int64) bool
		rule  string
	}{
		{"rx", t.Rx, &spec.RxQueues, isQueues, fmt.Sprintf("a number of queues from 1 to %d", mostQueues)},
		{"tx", t.Tx, &spec.TxQueues, isQueues, fmt.Sprintf("a number of queues from 1 to %d", mostQueues)},
		{"rxqsz", t.RxSize, &spec.RxSize, isSize, fmt.Sprintf("a power of two from %d to %d", smallestQueue, largestQueue)},
		{"txqsz", t.TxSize, &spec.TxSize, isSize, fmt.Sprintf("a power of two from %d to %d", smallestQueue, largestQueue)},
	} {
		if field.value == nil {
			continue
		}
		if !field.right(*field.value) {
			return spec, &Error{Key: key, Reason: fmt.Sprintf("%s%s = %d is not possible", where, field.name, *field.value), Remedy: "give " + field.rule}
		}
		*field.to = uint32(*field.value)
	}
	if t.L3 != nil {
		spec.L3 = *t.L3
	}
	if t.RxMode != nil {
		switch *t.RxMode {
		case "polling", "interrupt", "adaptive":
			spec.RxMode = *t.RxMode
		case "default", "":
		default:
			return spec, &Error{Key: key, Reason: fmt.Sprintf("%srxMode = %q is not known", where, *t.RxMode),
				Remedy: "give polling, interrupt, adaptive or default"}
		}
	}
	return spec, nil
}

func isQueues(n int64) bool { return 1 <= n && n <= mostQueues }

func isSize(n int64) bool {
	return smallestQueue <= n && n <= largestQueue && bits.OnesCount64(uint64(n)) == 1
}

// decode reads JSON strictly and tells where it is wrong.
func decode(key, text string, to any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(to)
	position := int(decoder.InputOffset()) + 1
	if err == nil {
		if _, more := decoder.Token(); more == io.EOF {
			return nil
		}
		err = errors.New("something follows the value")
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		position = int(syntax.Offset)
	case errors.As(err, &kind):
		position = int(kind.Offset)
		err = fmt.Errorf("%s: expected %s, not a JSON %s", kind.Field, kind.Type, kind.Value)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		position, err = len(text)+1, errors.New("the JSON ends too early")
	}
	return &Error{Key: key, Position: position, Reason: strings.TrimPrefix(err.Error(), "json: "),
		Remedy: `write JSON with the fields rx, tx, rxqsz, txqsz, isl3, rxMode, such as {"rx": 2, "tx": 2}`}
}
