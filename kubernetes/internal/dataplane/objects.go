// Package dataplane turns attachments into the desired state of quiverd and hands it over.
package dataplane

import (
	"fmt"
	"net/netip"
	"strings"

	"quiver/kubernetes/internal/annotation"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
)

const (
	// Objects whose interface, and tenants whose name, begins so are the agent's, all others are none of its business.
	ours = "pod:"
	// Names of interfaces have at most 63 characters.
	longestName = 63
	// MemifMAC is the Ethernet address that clients of an Ethernet memif have in Calico/VPP.
	MemifMAC = "02:00:00:00:00:01"
)

// Socket is the abstract socket of a pod's memif beside the interface of that name.
func Socket(interfaceName string) string { return "@vpp/memif-" + interfaceName }

// TunName is what the ordinary interface of an attachment is called in the dataplane.
func TunName(record *attachment.Record) string { return objectName(record, record.Interface) }

// MemifName is what the memif beside an attachment is called in the dataplane.
func MemifName(record *attachment.Record) string {
	return objectName(record, "memif-"+record.Interface)
}

// Objects are those of one attachment: a tun and routes to it, and beside it the memif, to which the routes lead for some ports.
func Objects(record *attachment.Record) *quiver.Config {
	config := &quiver.Config{}
	tap := &quiver.Tap{
		Netns:    record.Netns,
		HostName: record.Interface,
		Mode:     quiver.TapMode_TAP_MODE_TUN,
		Queues:   max(record.Tun.RxQueues, record.Tun.TxQueues),
		HostMtu:  record.MTU,
	}
	for _, address := range record.Addresses {
		tap.HostAddresses = append(tap.HostAddresses, host(address))
		tap.HostRoutes = append(tap.HostRoutes, &quiver.HostRoute{Prefix: everything(address)})
	}
	device := &quiver.Interface{Mtu: record.MTU, RxMode: rxMode(record.Tun), Port: &quiver.Interface_Tap{Tap: tap}}
	addInterface(config, record, record.Interface, device)
	for _, address := range record.Addresses {
		config.Routes = append(config.Routes, &quiver.Route{Prefix: host(address), NextHops: []*quiver.NextHop{{Interface: device.Name}}})
	}
	if record.Memif != nil {
		addMemif(config, record)
	}
	return config
}

func addMemif(config *quiver.Config, record *attachment.Record) {
	spec := record.Memif.Spec
	device := &quiver.Interface{Mtu: record.MTU, RxMode: rxMode(spec)}
	memif := &quiver.Memif{
		Netns:    record.Netns,
		Socket:   Socket(record.Interface),
		Mode:     quiver.MemifMode_MEMIF_MODE_IP,
		RxQueues: spec.RxQueues,
		TxQueues: spec.TxQueues,
		// (0: the annotation doesn't say.)
		RingSize: max(spec.RxSize, spec.TxSize),
	}
	device.Port = &quiver.Interface_Memif{Memif: memif}
	addInterface(config, record, "memif-"+record.Interface, device)
	for i, address := range record.Addresses {
		hop := &quiver.NextHop{Interface: device.Name}
		if !spec.L3 {
			memif.Mode = quiver.MemifMode_MEMIF_MODE_ETHERNET
			// Whomever the client asks for: the way there leads through here.
			device.ProxyArp = append(device.ProxyArp, everything(address))
			// Behind Ethernet a next hop has an address, whose neighbour is known.
			hop.Address = address.String()
			config.Neighbors = append(config.Neighbors, &quiver.Neighbor{Interface: device.Name, Address: hop.Address, Mac: MemifMAC})
		}
		config.Routes[i].PortSplit = &quiver.PortSplit{Ports: ports(record.Memif.Ports), NextHop: hop}
		if record.Memif.Drops {
			config.Routes[i].PortSplit.WithoutPeer = quiver.PortSplitFallback_PORT_SPLIT_FALLBACK_DROP
		}
	}
}

// addInterface completes an interface. Nothing may come from there but what its pod's routes lead back to.
func addInterface(config *quiver.Config, record *attachment.Record, name string, device *quiver.Interface) {
	device.Name = objectName(record, name)
	device.Rpf = quiver.ReversePathFilter_REVERSE_PATH_FILTER_STRICT
	for _, prefix := range record.Sources {
		device.AllowedSources = append(device.AllowedSources, prefix.String())
	}
	config.Interfaces = append(config.Interfaces, device)
}

// ports are ranges as quiverd reads them.
func ports(ranges []annotation.PortRange) (texts []string) {
	for _, one := range ranges {
		texts = append(texts, fmt.Sprintf("%s:%d-%d", one.Protocol, one.First, one.Last))
	}
	return texts
}

// objectName is what an interface of a pod is called in the dataplane: readable, unique, and the same every time.
func objectName(record *attachment.Record, name string) string {
	whose := record.PodNamespace + "." + record.PodName
	if record.PodName == "" {
		whose = record.Container
	}
	tail := ":" + record.Key()[:8] + ":" + name
	return ours + whose[:min(len(whose), longestName-len(ours)-len(tail))] + tail
}

func rxMode(spec annotation.InterfaceSpec) quiver.RxMode {
	return quiver.RxMode(quiver.RxMode_value["RX_MODE_"+strings.ToUpper(spec.RxMode)])
}

// host is the prefix that holds one address.
func host(address netip.Addr) string { return netip.PrefixFrom(address, address.BitLen()).String() }

// everything is the prefix of all addresses of a family.
func everything(example netip.Addr) string {
	if example.Is4() {
		return "0.0.0.0/0"
	}
	return "::/0"
}
