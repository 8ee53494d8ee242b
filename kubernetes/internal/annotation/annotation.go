// Package annotation reads the pod annotations that say which interfaces a pod has. The keys and values are those of Calico/VPP,
// so that manifests written for it work; each has a twin under Quiver's own prefix.
package annotation

import (
	"fmt"
	"net/netip"
	"sort"
)

// Prefixes of keys.
const (
	calicoPrefix = "cni.projectcalico.org/"
	quiverPrefix = "quiver.io/"
)

// An annotation by its two keys.
type key struct{ calico, quiver string }

// keys of an annotation, in the order they are looked for.
func (k key) all() []string { return []string{k.calico, k.quiver} }

var (
	memifPorts = key{calicoPrefix + "vppExtraMemifPorts", quiverPrefix + "extraMemifPorts"}
	memifSpec  = key{calicoPrefix + "vppExtraMemifSpec", quiverPrefix + "extraMemifSpec"}
	interfaces = key{calicoPrefix + "vppInterfacesSpec", quiverPrefix + "interfacesSpec"}
	vcl        = key{calicoPrefix + "vppVcl", ""}
	// Calico spells it with a small letter, Calico/VPP with a capital one.
	sources = []string{calicoPrefix + "AllowedSourcePrefixes", calicoPrefix + "allowedSourcePrefixes", quiverPrefix + "allowedSourcePrefixes"}
)

// Error is an annotation that can't be had.
type Error struct {
	// Key of the annotation.
	Key string
	// Position of the fault in the value, counted in bytes from 1; 0: the value as a whole.
	Position int
	// Reason says what is wrong.
	Reason string
	// Remedy says what to do about it.
	Remedy string
}

func (e *Error) Error() string {
	if e.Position == 0 {
		return fmt.Sprintf("annotation %s: %s", e.Key, e.Reason)
	}
	return fmt.Sprintf("annotation %s, position %d: %s", e.Key, e.Position, e.Reason)
}

// Pod is what the annotations of a pod ask for.
type Pod struct {
	// Tun is its ordinary interface.
	Tun InterfaceSpec
	// Memif is beside it; nil: none.
	Memif *Memif
	// Sources are prefixes that it may send from besides its own addresses.
	Sources []netip.Prefix
}

// Memif is a memif that was asked for.
type Memif struct {
	// Spec says of what shape.
	Spec InterfaceSpec
	// Ports whose traffic it is meant for.
	Ports []PortRange
}

// Read understands the annotations of a pod for its interface of that name. Its errors are of type *Error.
func Read(annotations map[string]string, name string) (*Pod, error) {
	pod := &Pod{Tun: defaultSpec(true)}
	found, list, err := in(annotations, sources)
	if err != nil {
		return nil, err
	}
	if found != "" {
		if pod.Sources, err = readSources(found, list); err != nil {
			return nil, err
		}
	}
	if found, value, err := in(annotations, vcl.all()); err != nil || found != "" && value != "disable" {
		return nil, &Error{Key: vcl.calico, Reason: "there is no host stack for pods", Remedy: "remove it, or say disable"}
	}

	found, value, err := in(annotations, interfaces.all())
	if err != nil {
		return nil, err
	}
	if found != "" {
		specs, err := readSpecs(found, value)
		if err != nil {
			return nil, err
		}
		if spec, named := specs[name]; named {
			if !spec.L3 {
				return nil, &Error{Key: found, Reason: fmt.Sprintf("%s: isl3 = false: Ethernet on an ordinary interface is not supported yet", name),
					Remedy: "leave isl3 out, or ask for Ethernet on the memif"}
			}
			pod.Tun = spec
		}
	}

	ports, list, err := in(annotations, memifPorts.all())
	if err != nil {
		return nil, err
	}
	shape, value, err := in(annotations, memifSpec.all())
	if err != nil {
		return nil, err
	}
	if ports == "" {
		if shape != "" {
			return nil, &Error{Key: shape, Reason: "describes a memif that no annotation asks for",
				Remedy: fmt.Sprintf("add %s with the ports, such as \"tcp:4444-5555,udp:6081\"", memifPorts.calico)}
		}
		return pod, nil
	}
	pod.Memif = &Memif{Spec: defaultSpec(false)}
	if pod.Memif.Ports, err = readPorts(ports, list); err != nil {
		return nil, err
	}
	if shape != "" {
		if pod.Memif.Spec, err = readSpec(shape, value, false); err != nil {
			return nil, err
		}
	}
	return pod, nil
}

// in finds an annotation under any of its keys.
func in(annotations map[string]string, keys []string) (found, value string, err error) {
	for _, candidate := range keys {
		text, set := annotations[candidate]
		if !set || candidate == "" {
			continue
		}
		if found != "" && value != text {
			return "", "", &Error{Key: candidate, Reason: "says something else than " + found, Remedy: "keep one of the two"}
		}
		found, value = candidate, text
	}
	return found, value, nil
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
