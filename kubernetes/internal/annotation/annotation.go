// Package annotation reads the pod annotations that say which interfaces a pod has. The keys and values are those of Calico/VPP,
// so that manifests written for it work; each has a twin under Quiver's own prefix.
package annotation

import (
	"errors"
	"fmt"
	"net/netip"
	"sort"
	"strings"
)

// Prefixes of keys.
const (
	calicoPrefix = "cni.projectcalico.org/"
	quiverPrefix = "quiver.io/"
)

// networks says that a pod has further interfaces than one, whose names aren't known here.
const networks = "k8s.v1.cni.cncf.io/networks"

// An annotation by its two keys.
type key struct{ calico, quiver string }

// keys of an annotation, in the order they are looked for.
func (k key) all() []string { return []string{k.calico, k.quiver} }

// like is the one of its keys with the prefix of another annotation's: whoever writes our own is told of our own.
func (k key) like(other string) string {
	if strings.HasPrefix(other, quiverPrefix) {
		return k.quiver
	}
	return k.calico
}

var (
	memifPorts = key{calicoPrefix + "vppExtraMemifPorts", quiverPrefix + "extraMemifPorts"}
	memifSpec  = key{calicoPrefix + "vppExtraMemifSpec", quiverPrefix + "extraMemifSpec"}
	interfaces = key{calicoPrefix + "vppInterfacesSpec", quiverPrefix + "interfacesSpec"}
	fallback   = key{"", quiverPrefix + "memifFallback"}
	vcl        = key{calicoPrefix + "vppVcl", ""}
	// Calico spells it with a small letter, Calico/VPP with a capital one.
	sources = []string{calicoPrefix + "AllowedSourcePrefixes", calicoPrefix + "allowedSourcePrefixes", quiverPrefix + "allowedSourcePrefixes"}
)

// Error is an annotation that can't be had.
type Error struct {
	// Key of the annotation.
	Key string
	// Position of the fault in the value, counted in bytes from 1; where the value as a whole is at fault, its beginning.
	Position int
	// Line and Column are the same in a value of several lines; 0: it has one.
	Line, Column int
	// Reason says what is wrong.
	Reason string
	// Remedy says what to do about it.
	Remedy string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("annotation %s, line %d, column %d: %s", e.Key, e.Line, e.Column, e.Reason)
	}
	return fmt.Sprintf("annotation %s, position %d: %s", e.Key, e.Position, e.Reason)
}

// locate fills in the line, for a value of several.
func (e *Error) locate(value string) {
	e.Position = max(1, e.Position)
	before := value[:min(e.Position-1, len(value))]
	if strings.Contains(strings.TrimSpace(value), "\n") {
		e.Line, e.Column = strings.Count(before, "\n")+1, len(before)-strings.LastIndexByte(before, '\n')
	}
}

// Defaults are what pods have whose annotations don't say otherwise, and how far these may go.
type Defaults struct {
	// MemifDrops: see Memif.Drops.
	MemifDrops bool
	// Sources are the prefixes from which annotations may have pods send. None of them: whoever makes pods isn't who runs the cluster, and who sends with
	// another's address is taken for that by policies.
	Sources []netip.Prefix
}

// Pod is what the annotations of a pod ask for.
type Pod struct {
	// Tun is its ordinary interface.
	Tun InterfaceSpec
	// Memif is beside it; nil: none.
	Memif *Memif
	// Sources are prefixes that it may send from besides its own addresses.
	Sources []netip.Prefix
	// Ignored are annotations, or parts of them, that have no effect here: in words.
	Ignored []string
}

// Memif is a memif that was asked for.
type Memif struct {
	// Spec says of what shape.
	Spec InterfaceSpec
	// Ports whose traffic it is meant for.
	Ports []PortRange
	// Drops what is for these ports while no application is connected; else the ordinary interface takes it.
	Drops bool `json:",omitempty"`
}

// Read understands the annotations of a pod for its interface of that name. Its errors are of type *Error.
func Read(annotations map[string]string, name string, defaults Defaults) (*Pod, error) {
	pod, err := read(annotations, name, defaults)
	var fault *Error
	if errors.As(err, &fault) {
		fault.locate(annotations[fault.Key])
		return nil, fault
	}
	pod.Ignored = append(ignored(annotations), pod.Ignored...)
	return pod, nil
}

func read(annotations map[string]string, name string, defaults Defaults) (*Pod, error) {
	pod := &Pod{Tun: defaultSpec(true)}
	found, list, err := in(annotations, sources)
	if err != nil {
		return nil, err
	}
	if found != "" {
		if pod.Sources, err = readSources(found, list, defaults.Sources); err != nil {
			return nil, err
		}
	}
	if found, value, err := in(annotations, vcl.all()); err != nil || found != "" && value != "disable" {
		return nil, &Error{Key: vcl.calico, Reason: "there is no host stack for pods", Remedy: "remove it, or say disable"}
	}
	if err := pod.shape(annotations, name); err != nil {
		return nil, err
	}
	var without []string
	pod.Memif, without, err = readMemif(annotations, defaults)
	pod.Ignored = append(pod.Ignored, without...)
	return pod, err
}

// shape reads that of the ordinary interface.
func (p *Pod) shape(annotations map[string]string, name string) error {
	found, text, err := in(annotations, interfaces.all())
	if err != nil || found == "" {
		return err
	}
	specs, err := readSpecs(found, text)
	if err != nil {
		return err
	}
	for _, other := range sorted(specs) {
		_, several := annotations[networks]
		if other != name && (!several || strings.HasPrefix(other, "memif")) {
			return &Error{Key: found, Position: specs[other].name, Reason: fmt.Sprintf("the pod has no interface %q here", other),
				Remedy: fmt.Sprintf("name %s, or describe the memif by %s", name, memifSpec.like(found))}
		}
	}
	spec, named := specs[name]
	if !named {
		return nil
	}
	if !spec.L3 {
		return &Error{Key: found, Position: spec.fields["isl3"], Reason: fmt.Sprintf("%s: isl3 = false: Ethernet on an ordinary interface is not supported yet", name),
			Remedy: "leave isl3 out, or ask for Ethernet on the memif"}
	}
	p.Tun = spec.InterfaceSpec
	for _, field := range []string{"rxqsz", "txqsz"} {
		if at, said := spec.fields[field]; said {
			p.Ignored = append(p.Ignored, fmt.Sprintf("annotation %s, position %d: %s: %s is for memifs: the kernel decides about queues of an ordinary interface", found, at, name, field))
		}
	}
	return nil
}

// readMemif reads what memif is asked for; nil: none. What of that has no effect is told in words.
func readMemif(annotations map[string]string, defaults Defaults) (_ *Memif, without []string, _ error) {
	ports, list, err := in(annotations, memifPorts.all())
	if err != nil {
		return nil, nil, err
	}
	shape, text, err := in(annotations, memifSpec.all())
	if err != nil {
		return nil, nil, err
	}
	if ports == "" {
		if shape != "" {
			return nil, nil, &Error{Key: shape, Reason: "describes a memif that no annotation asks for",
				Remedy: fmt.Sprintf("add %s with the ports, such as \"tcp:4444-5555,udp:6081\"", memifPorts.like(shape))}
		}
		if found, _, _ := in(annotations, fallback.all()); found != "" {
			return nil, nil, &Error{Key: found, Reason: "is about a memif that no annotation asks for", Remedy: fmt.Sprintf("add %s with the ports", memifPorts.like(found))}
		}
		return nil, nil, nil
	}
	memif := &Memif{Spec: defaultSpec(false), Drops: defaults.MemifDrops}
	if memif.Ports, without, err = readPorts(ports, list); err != nil {
		return nil, nil, err
	}
	if shape != "" {
		if memif.Spec, err = readSpec(shape, text, false); err != nil {
			return nil, nil, err
		}
	}
	found, word, err := in(annotations, fallback.all())
	if err != nil || found == "" {
		return memif, without, err
	}
	if memif.Drops, err = ParseFallback(word); err != nil {
		return nil, nil, &Error{Key: found, Reason: err.Error(), Remedy: "give eth0 (which takes the memif's ports while no application is connected), or drop"}
	}
	return memif, without, nil
}

// ParseFallback understands who takes the ports of a memif to which nobody is connected.
func ParseFallback(word string) (drops bool, err error) {
	if word != "eth0" && word != "drop" {
		return false, fmt.Errorf("%q is not known", word)
	}
	return word == "drop", nil
}

// in finds an annotation under any of its keys.
func in(annotations map[string]string, keys []string) (found, value string, err error) {
	for _, candidate := range keys {
		text, set := annotations[candidate]
		if !set || candidate == "" {
			continue
		}
		if found != "" && value != text {
			return "", "", &Error{Key: candidate, Position: differ(value, text), Reason: "says something else than " + found, Remedy: "keep one of the two"}
		}
		found, value = candidate, text
	}
	return found, value, nil
}

// differ is where a text begins to be another one than before.
func differ(before, text string) int {
	at := 0
	for at < min(len(before), len(text)) && before[at] == text[at] {
		at++
	}
	return at + 1
}

// sorted returns the names of a map in a fixed order, so that of several faults always the same is told.
func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
