// Package report tells in pods' annotations what interfaces they really have, and keeps that up to date.
package report

import (
	"encoding/json"
	"net/netip"
	"time"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
)

// Annotation of a pod that tells it.
const Annotation = "quiver.io/status"

// Interface of a pod as it is in force.
type Interface struct {
	// Name of it: "eth0", "memif-eth0".
	Name string `json:"name"`
	// Addresses of the pod that it has.
	Addresses []netip.Addr `json:"addresses"`
	// MTU, in bytes.
	MTU uint32 `json:"mtu"`
	// Mode: "ip" or "ethernet", what packets are.
	Mode string `json:"mode"`
	// RxQueues from which the dataplane receives, TxQueues to which it sends; of a memif that is connected those in use.
	RxQueues int `json:"rxQueues"`
	TxQueues int `json:"txQueues"`
	// Memif is what only a memif has.
	*Memif `json:",omitempty"`
}

// Memif is what there is to say of a memif.
type Memif struct {
	// Socket in the pod's network namespace, and the id there.
	Socket string `json:"socket"`
	ID     uint32 `json:"id"`
	// MAC to which the dataplane sends; empty: packets have no Ethernet header.
	MAC string `json:"mac,omitempty"`
	// RingSize, in descriptors: while an application is connected, its choice; else what is offered.
	RingSize uint32 `json:"ringSize"`
	// BufferSize, in bytes; 0: not known before an application is connected.
	BufferSize uint32 `json:"bufferSize,omitempty"`
	// Fallback takes the memif's ports while no application is connected: "eth0", or "drop".
	Fallback string `json:"fallback"`
	// Connected tells whether an application is, and Peer what it calls itself.
	Connected bool   `json:"connected"`
	Peer      string `json:"peer,omitempty"`
	// Since when, as far as the agent knows; not set: it isn't known.
	Since *time.Time `json:"since,omitempty"`
	// Why the last connection ended.
	LastDisconnect string `json:"lastDisconnect,omitempty"`
}

// interfaces are those of an attachment; quiverd's own word counts (nil: it has no such memif, or not yet).
func interfaces(record *attachment.Record, state *quiver.MemifState) []Interface {
	queues := int(max(record.Tun.RxQueues, record.Tun.TxQueues))
	all := []Interface{{
		Name: record.Interface, Addresses: record.Addresses, MTU: record.MTU, Mode: "ip", RxQueues: queues, TxQueues: queues,
	}}
	if record.Memif == nil {
		return all
	}
	spec := record.Memif.Spec
	memif := &Memif{Socket: dataplane.Socket(record.Interface), RingSize: max(spec.RxSize, spec.TxSize), Fallback: record.Interface}
	if record.Memif.Drops {
		memif.Fallback = "drop"
	}
	shape := Interface{
		Name: "memif-" + record.Interface, Addresses: record.Addresses, MTU: record.MTU, Mode: "ip",
		RxQueues: int(spec.RxQueues), TxQueues: int(spec.TxQueues), Memif: memif,
	}
	if !spec.L3 {
		shape.Mode, memif.MAC = "ethernet", dataplane.MemifMAC
	}
	memif.ID, memif.Connected, memif.Peer, memif.LastDisconnect = state.GetId(), state.GetConnected(), state.GetPeerName(), state.GetLastDisconnect()
	if memif.Connected {
		shape.RxQueues, shape.TxQueues, memif.RingSize = 0, 0, 0
		for _, queue := range state.Queues {
			if queue.Rx {
				shape.RxQueues++
			} else {
				shape.TxQueues++
			}
			// (All rings of a link are of one size; who fills a ring knows that of its buffers.)
			memif.RingSize, memif.BufferSize = max(memif.RingSize, queue.RingSize), max(memif.BufferSize, queue.BufferSize)
		}
	}
	return append(all, shape)
}

// text is the annotation's value.
func text(all []Interface) string {
	// (Nothing of it can't be written.)
	written, _ := json.Marshal(map[string][]Interface{"interfaces": all})
	return string(written)
}

// before is what an annotation has told of a memif, by whatever agent.
func before(text, name string) *Memif {
	var told struct{ Interfaces []Interface }
	if json.Unmarshal([]byte(text), &told) != nil {
		return nil
	}
	for _, one := range told.Interfaces {
		if one.Name == name {
			return one.Memif
		}
	}
	return nil
}
