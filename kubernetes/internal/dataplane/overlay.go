package dataplane

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/overlay"
)

const (
	// The interface by which packets that tunnels have packed go to the host, and the VRF that it is in: nothing else is there.
	underlay = ours + "underlay"
	// Tunnels begin so; nothing of a pod does without another colon.
	toNode = ours + "to-"
	// UnderlayDevice is the host's side of it.
	UnderlayDevice = "quiver-vxlan"
)

// Underlay are quiverd's own ends of tunnels, one of each family. No network has seen them: the host's kernel puts the node's address in their
// place, and takes it away again.
var Underlay = map[bool]netip.Addr{true: netip.MustParseAddr("169.254.1.2"), false: netip.MustParseAddr("fd51:7569:7665:72::2")}

// Overlay is what quiverd needs to know to reach other nodes' pods through tunnels.
type Overlay struct {
	// Settings of all nodes.
	overlay.Settings
	// Plan of this one.
	overlay.Plan
	// MTU of the device by which the host reaches other nodes, in bytes.
	MTU uint32
}

// Paths are how pods reach those of other nodes.
type Paths struct {
	// MTU of pods' interfaces, in bytes.
	MTU uint32
	// Overlay is what tunnels need; nil: there are none.
	Overlay *Overlay
	// Port is the one on the uplink; nil: the host's kernel carries packets to other nodes.
	Port *Port
}

// HostAddress is the address in a range that the host has when it sends through tunnels: the range's very first, which no pod gets.
func HostAddress(prefix netip.Prefix) netip.Addr { return prefix.Addr() }

// Tunnels are the objects of an overlay on a node with these ranges: an interface for what tunnels have packed, apart from all else, and a tunnel to each peer.
func Tunnels(o *Overlay, ranges []Range) *quiver.Config {
	tun := &quiver.Tap{HostName: UnderlayDevice, Mode: quiver.TapMode_TAP_MODE_TUN, HostMtu: o.MTU}
	below := &quiver.Interface{Name: underlay, Vrf: underlay, Mtu: o.MTU, Port: &quiver.Interface_Tap{Tap: tun}}
	config := &quiver.Config{Vrfs: []*quiver.Vrf{{Name: underlay}}, Interfaces: []*quiver.Interface{below}}
	for _, local := range o.Locals {
		end := Underlay[local.Is4()]
		below.Addresses = append(below.Addresses, host(end))
		tun.HostRoutes = append(tun.HostRoutes, &quiver.HostRoute{Prefix: host(end)})
		config.Routes = append(config.Routes, &quiver.Route{Vrf: underlay, Prefix: everything(end), NextHops: []*quiver.NextHop{{Interface: underlay}}})
	}
	for _, r := range ranges {
		config.Routes = append(config.Routes, &quiver.Route{Prefix: host(HostAddress(r.Prefix)), NextHops: []*quiver.NextHop{{Interface: uplink}}})
	}
	for _, peer := range o.Peers {
		addTunnel(config, o, peer)
	}
	return config
}

func addTunnel(config *quiver.Config, o *Overlay, peer overlay.Peer) {
	device := &quiver.Interface{
		Name: tunnelName(peer.Node),
		Mtu:  o.MTU - overlay.Headers(peer.Remote),
		Mac:  stationOf(peer.Local),
		// Only from the peer's own pods and host: not even it speaks for other nodes, or for this one.
		Rpf: quiver.ReversePathFilter_REVERSE_PATH_FILTER_STRICT,
		Port: &quiver.Interface_Vxlan{Vxlan: &quiver.Vxlan{
			Local:       Underlay[peer.Local.Is4()].String(),
			Remote:      peer.Remote.String(),
			Vni:         uint32(o.VNI),
			Port:        uint32(o.Port),
			UnderlayVrf: underlay,
		}},
	}
	config.Interfaces = append(config.Interfaces, device)
	if peer.Direct {
		for _, prefix := range peer.Ranges {
			device.AllowedSources = append(device.AllowedSources, prefix.String())
		}
		return
	}
	for _, prefix := range peer.Ranges {
		// The peer's router, by its own address of the range.
		hop := prefix.Addr().Next().String()
		config.Neighbors = append(config.Neighbors, &quiver.Neighbor{Interface: device.Name, Address: hop, Mac: stationOf(peer.Remote)})
		config.Routes = append(config.Routes, &quiver.Route{Prefix: prefix.String(), NextHops: []*quiver.NextHop{{Interface: device.Name, Address: hop}}})
	}
}

// stationOf is the Ethernet address of the end of tunnels at that address of a node: nobody needs to ask for it.
func stationOf(end netip.Addr) string {
	sum := sha256.Sum256([]byte("quiver overlay " + end.String()))
	address := net.HardwareAddr(sum[:6])
	// Local, of one station.
	address[0] = address[0]&^1 | 2
	return address.String()
}

// tunnelName is what the tunnel to a node is called.
func tunnelName(node string) string {
	name := toNode + strings.ReplaceAll(node, ":", "-")
	if len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(node))
	tail := "-" + hex.EncodeToString(sum[:4])
	return name[:longestName-len(tail)] + tail
}

// IsTunnel tells whether an interface is a tunnel to another node.
func IsTunnel(name string) bool {
	return strings.HasPrefix(name, toNode) && !strings.Contains(name[len(ours):], ":")
}
