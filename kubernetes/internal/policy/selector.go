// Package policy has quiverd let pass what the cluster's NetworkPolicies do.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/dataplane"
)

// Pod is what there is to know of a pod.
type Pod struct {
	// Key is its namespace and name.
	Key types.NamespacedName
	// UID tells it from others that had or will have its name.
	UID string
	// Labels are its own.
	Labels labels.Set
	// Addresses are its own; none of a pod that uses the host's network, has none yet, or has ended.
	Addresses []netip.Addr
	// Ports of its containers that have names.
	Ports []Port
}

// Port is a container's.
type Port struct {
	// Name that policies may call it by.
	Name string
	// Protocol of the port.
	Protocol core.Protocol
	// Number of the port.
	Number int32
}

// PodOf tells a pod.
func PodOf(object *core.Pod) *Pod {
	pod := &Pod{Key: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, UID: string(object.UID), Labels: object.Labels}
	if !object.Spec.HostNetwork && object.Status.Phase != core.PodSucceeded && object.Status.Phase != core.PodFailed {
		for _, ip := range object.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err == nil {
				pod.Addresses = append(pod.Addresses, address.Unmap())
			}
		}
	}
	// Those of containers that run before the others and stay count, too.
	for _, container := range append(append([]core.Container(nil), object.Spec.InitContainers...), object.Spec.Containers...) {
		for _, port := range container.Ports {
			if port.Name != "" {
				pod.Ports = append(pod.Ports, Port{port.Name, orTCP(port.Protocol), port.ContainerPort})
			}
		}
	}
	return pod
}

// equal tells whether nothing about it matters that is different.
func (p *Pod) equal(other *Pod) bool {
	return p.UID == other.UID && maps.Equal(p.Labels, other.Labels) && slices.Equal(p.Addresses, other.Addresses) && slices.Equal(p.Ports, other.Ports)
}

func orTCP(protocol core.Protocol) core.Protocol {
	if protocol == "" {
		return core.ProtocolTCP
	}
	return protocol
}

// selector says which pods are meant.
type selector struct {
	// The namespace they are in; empty: any whose labels fit.
	namespace  string
	namespaces labels.Selector
	pods       labels.Selector
	// Those that have a container port of this name; empty: all.
	port     string
	protocol core.Protocol
}

// selecting reads the selectors of a peer. Without one of namespaces, the policy's own is meant.
func selecting(own string, namespaces, pods *meta.LabelSelector) (*selector, error) {
	s := &selector{namespace: own, pods: labels.Everything()}
	var err error
	if namespaces != nil {
		s.namespace = ""
		if s.namespaces, err = meta.LabelSelectorAsSelector(namespaces); err != nil {
			return nil, fmt.Errorf("namespaceSelector: %w", err)
		}
	}
	if pods != nil {
		if s.pods, err = meta.LabelSelectorAsSelector(pods); err != nil {
			return nil, fmt.Errorf("podSelector: %w", err)
		}
	}
	return s, nil
}

// having is the same, of pods that have such a port.
func (s *selector) having(port string, protocol core.Protocol) *selector {
	with := *s
	with.port, with.protocol = port, protocol
	return &with
}

// key is the same for selectors that mean the same.
func (s *selector) key() string {
	namespaces := ""
	if s.namespace == "" {
		namespaces = s.namespaces.String()
	}
	return fmt.Sprintf("%q %q %q %q %q", s.namespace, namespaces, s.pods.String(), s.port, s.protocol)
}

// String is for people.
func (s *selector) String() string {
	if s.namespace == nodesNamespace {
		return "nodes [" + s.pods.String() + "]"
	}
	text := "namespace " + s.namespace
	if s.namespace == "" {
		text = "namespaces [" + s.namespaces.String() + "]"
	}
	return text + " pods [" + s.pods.String() + "]"
}

// matches tells whether a pod is meant, whose namespace has these labels.
func (s *selector) matches(pod *Pod, namespace labels.Set) bool {
	return s.fits(pod.Key.Namespace, pod.Labels, namespace)
}

// fits is the same of a pod of which only that is known.
func (s *selector) fits(name string, pod, namespace labels.Set) bool {
	if s.namespace != "" {
		return s.namespace == name && s.pods.Matches(pod)
	}
	return name != nodesNamespace && s.namespaces.Matches(namespace) && s.pods.Matches(pod)
}

// Nodes are known as pods are, in a namespace that pods can't have: labels and addresses are all that matters of either.
const nodesNamespace = "/nodes"

// nodeOf tells a node as such a pod.
func nodeOf(object *core.Node) *Pod {
	node := &Pod{Key: types.NamespacedName{Namespace: nodesNamespace, Name: object.Name}, UID: string(object.UID), Labels: object.Labels}
	for _, entry := range object.Status.Addresses {
		// (Some are names.)
		if address, err := netip.ParseAddr(entry.Address); err == nil && !slices.Contains(node.Addresses, address.Unmap()) {
			node.Addresses = append(node.Addresses, address.Unmap())
		}
	}
	for _, text := range object.Spec.PodCIDRs {
		// (What can't be read its own agent complains of.)
		if prefix, err := netip.ParsePrefix(text); err == nil {
			node.Addresses = append(node.Addresses, dataplane.HostAddress(prefix.Masked()))
		}
	}
	return node
}

// name is readable, unique, and the same every time; at most as long as names in the dataplane may be.
func name(kind, readable, unique string) string {
	sum := sha256.Sum256([]byte(unique))
	tail := ":" + hex.EncodeToString(sum[:6])
	return Ours + kind + readable[:min(len(readable), longestName-len(Ours)-len(kind)-len(tail))] + tail
}

// Ours begins the names of all that policies make in the dataplane.
const Ours = "np:"

// What names in the dataplane may be long.
const longestName = 63

// Listed is the policy of which a list in the dataplane is made, as far as the list's name tells it; in which direction it speaks is in front. It is
// cut off where the name is as long as it may be: then ListNames tells which of the policies it is.
func Listed(list string) (policy types.NamespacedName, whole, is bool) {
	for _, of := range []direction{ingress, egress} {
		rest, found := strings.CutPrefix(list, Ours+string(of))
		if !found {
			continue
		}
		readable, _, _ := strings.Cut(rest, ":")
		namespace, name, _ := strings.Cut(readable, ".")
		policy = types.NamespacedName{Namespace: namespace, Name: name}
		return policy, len(list) < longestName || list == listName(policy, of), true
	}
	return types.NamespacedName{}, false, false
}

// ListNames are what lists are called that may be made of a policy.
func ListNames(of types.NamespacedName) []string {
	return []string{listName(of, ingress), listName(of, egress)}
}
