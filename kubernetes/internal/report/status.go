// Package report tells in pods' annotations what interfaces they really have, and keeps that up to date.
package report

import (
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/escape"
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
	// RxMode is how queues are served: "polling", "interrupt", "adaptive".
	RxMode string `json:"rxMode"`
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
	// RingSize, in descriptors: while an application is connected, its choice; else the most that is offered.
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

// running is what quiverd has, as it runs, by name of the interface.
type running struct {
	interfaces map[string]*quiver.InterfaceState
	memifs     map[string]*quiver.MemifState
}

// of are the interfaces of an attachment: what quiverd says counts. nil: it hasn't all of them, or not yet.
func (r running) of(record *attachment.Record) []Interface {
	tun := r.interfaces[dataplane.TunName(record)]
	if tun == nil {
		return nil
	}
	// Each queue of a tun is for both directions.
	queues := len(tun.Placement)
	all := []Interface{{
		Name: record.Interface, Addresses: record.Addresses, MTU: record.MTU, Mode: "ip", RxQueues: queues, TxQueues: queues, RxMode: word(tun.RxMode),
	}}
	if record.Memif == nil {
		return all
	}
	device, state := r.interfaces[dataplane.MemifName(record)], r.memifs[dataplane.MemifName(record)]
	if device == nil || state == nil {
		return nil
	}
	spec := record.Memif.Spec
	memif := &Memif{Socket: dataplane.Socket(record.Interface), RingSize: state.MaxRingSize, Fallback: record.Interface}
	if record.Memif.Drops {
		memif.Fallback = "drop"
	}
	shape := Interface{
		Name: "memif-" + record.Interface, Addresses: record.Addresses, MTU: record.MTU, Mode: "ip",
		RxQueues: int(spec.RxQueues), TxQueues: int(spec.TxQueues), RxMode: word(device.RxMode), Memif: memif,
	}
	if !spec.L3 {
		shape.Mode, memif.MAC = "ethernet", dataplane.MemifMAC
	}
	memif.ID, memif.Connected, memif.Peer, memif.LastDisconnect = state.Id, state.Connected, escape.Text(state.PeerName), escape.Text(state.LastDisconnect)
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

// word is a mode as annotations have it.
func word(mode quiver.RxMode) string {
	return strings.ToLower(strings.TrimPrefix(mode.String(), "RX_MODE_"))
}

// status is what the annotation says.
type status struct {
	Interfaces []Interface `json:"interfaces"`
	// Changed are annotations that say something else than when the pod's network was made, which has no effect.
	Changed []string `json:"changed,omitempty"`
}

// text is the annotation's value.
func (s status) text() string {
	// (Nothing of it can't be written.)
	written, _ := json.Marshal(s)
	return string(written)
}

// read understands what an annotation has told, by whatever agent; nothing, if it can't be understood.
func read(text string) (told status) {
	if json.Unmarshal([]byte(text), &told) != nil {
		return status{}
	}
	return told
}

// memif is what was told of it.
func (s status) memif(name string) *Memif {
	for _, one := range s.Interfaces {
		if one.Name == name {
			return one.Memif
		}
	}
	return nil
}
