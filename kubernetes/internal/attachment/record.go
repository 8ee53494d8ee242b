// Package attachment keeps on disk which pods have which interfaces and addresses. It is the one source of both: what isn't here
// has no address and shall not be in the dataplane.
package attachment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"quiver/kubernetes/internal/annotation"
)

// ID names one attachment of a container to the network.
type ID struct {
	// Container is the pod's sandbox, as the runtime calls it.
	Container string `json:"container"`
	// Interface in the container: "eth0".
	Interface string `json:"interface"`
}

func (id ID) String() string {
	return fmt.Sprintf("interface %s of container %s", id.Interface, id.Container)
}

// Key is a short name of fixed length, the same for the same attachment.
func (id ID) Key() string {
	sum := sha256.Sum256([]byte(id.Container + "/" + id.Interface))
	return hex.EncodeToString(sum[:8])
}

// Record is all that is known of an attachment.
type Record struct {
	ID
	// Netns is the path of the network namespace.
	Netns string `json:"netns"`
	// Network is the name of the network configuration that asked for it; empty: an agent before this one wrote it.
	Network string `json:"network,omitempty"`
	// PodNamespace, PodName and PodUID say whose it is.
	PodNamespace string `json:"podNamespace,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
	// Since is when it was first written: who has an address that another one has, too, is decided by that.
	Since time.Time `json:"since,omitzero"`
	// MTU of the interfaces, in bytes.
	MTU uint32 `json:"mtu"`
	// Addresses of the pod, at most one per family: of both interfaces.
	Addresses []netip.Addr `json:"addresses"`
	// Tun is the shape of the ordinary interface.
	Tun annotation.InterfaceSpec `json:"tun"`
	// Sources are prefixes that both may send from besides.
	Sources []netip.Prefix `json:"sources,omitempty"`
	// Memif is beside it; nil: none.
	Memif *annotation.Memif `json:"memif,omitempty"`
	// Annotations are those by which the interfaces were made; nil: an agent wrote the record that kept none.
	Annotations map[string]string `json:"annotations,omitzero"`
	// Told are those of them that were changed since, as the pod's owner was told last: values, "" where one is gone; nil: nothing was told, or by an agent
	// that kept none of it.
	Told map[string]string `json:"told,omitzero"`
	// HostPorts are ports of the node that lead to the pod.
	HostPorts []HostPort `json:"hostPorts,omitempty"`
}

// HostPort is a port of the node that leads to a pod.
type HostPort struct {
	// Protocol is "tcp", "udp" or "sctp".
	Protocol string `json:"protocol"`
	// Port of the node, and that of the pod.
	Port    uint16 `json:"port"`
	PodPort uint16 `json:"podPort"`
	// Address of the node. Not valid: all of them; the unspecified one: all of its family.
	Address netip.Addr `json:"address"`
}

// Overlaps tells whether both are about the same port of the same address.
func (h HostPort) Overlaps(other HostPort) bool {
	if h.Protocol != other.Protocol || h.Port != other.Port {
		return false
	}
	if !h.Address.IsValid() || !other.Address.IsValid() {
		return true
	}
	return h.Address == other.Address || h.Address.Is4() == other.Address.Is4() && (h.Address.IsUnspecified() || other.Address.IsUnspecified())
}

func (h HostPort) String() string {
	if !h.Address.IsValid() {
		return fmt.Sprintf("%d/%s", h.Port, h.Protocol)
	}
	return fmt.Sprintf("%s/%s", netip.AddrPortFrom(h.Address, h.Port), h.Protocol)
}

// Pod names the pod for messages.
func (r *Record) Pod() string {
	if r.PodName == "" {
		return "container " + r.Container
	}
	return "pod " + r.PodNamespace + "/" + r.PodName
}
