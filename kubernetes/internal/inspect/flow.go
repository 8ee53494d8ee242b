package inspect

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// flow says which packets are meant. What is left out is any.
type flow struct {
	sources, destinations []netip.Addr
	// "tcp", "udp", "sctp", or "icmp" of either family; empty: any.
	protocol string
	// Port of the destination; 0: any.
	port uint16
}

// headers are what a trace says of a packet's.
type headers struct {
	source, destination netip.Addr
	protocol            string
	port                uint16
	// The line of the addresses, and the one of what they carry, as `quiver` has written them.
	network, transport string
}

// means tells whether a packet is one of the flow.
func (f flow) means(packet headers) bool {
	return packet.source.IsValid() &&
		(f.sources == nil || slices.Contains(f.sources, packet.source)) &&
		(f.destinations == nil || slices.Contains(f.destinations, packet.destination)) &&
		(f.protocol == "" || f.protocol == packet.protocol) &&
		(f.port == 0 || f.port == packet.port)
}

// among is the first packet of the flow that the steps of a trace tell of: one that came in a tunnel is the inner one.
func (f flow) among(steps []Step) (headers, bool) {
	for _, step := range steps {
		for _, packet := range readHeaders(step.Text) {
			if f.means(packet) {
				return packet, true
			}
		}
	}
	return headers{}, false
}

// readHeaders reads what a node wrote of packets, a line each header: "IP4: 10.0.0.1 -> 10.0.1.2 UDP ttl 64 len 50 DF", "UDP: 1234 -> 80 len 30".
func readHeaders(text string) (all []headers) {
	for line := range strings.Lines(text) {
		layer, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		words := strings.Fields(rest)
		switch layer {
		case "IP4", "IP6":
			if len(words) < 3 || words[1] != "->" {
				continue
			}
			source, err := netip.ParseAddr(words[0])
			destination, failed := netip.ParseAddr(words[2])
			if err == nil && failed == nil {
				all = append(all, headers{source: source, destination: destination, network: strings.TrimSpace(line)})
			}
		case "TCP", "UDP", "ICMP", "ICMP6", "payload":
			if len(all) == 0 || all[len(all)-1].transport != "" {
				continue
			}
			packet := &all[len(all)-1]
			packet.transport, packet.protocol = strings.TrimSpace(line), strings.ToLower(strings.TrimSuffix(layer, "6"))
			if layer == "payload" {
				packet.protocol = strings.ToLower(rest)
			} else if len(words) > 2 && words[1] == "->" {
				port, _ := strconv.ParseUint(words[2], 10, 16)
				packet.port = uint16(port)
			}
		}
	}
	return all
}

// mark is what a packet has that stays the same on its way through nodes, whatever a Service translates: not addresses, not the destination's port.
func (h headers) mark() string {
	words := strings.Fields(h.transport)
	if h.protocol == "tcp" || h.protocol == "udp" {
		// "TCP: 38876 -> 81 SYN seq 1207852559 ack 0 window 64240 ...": options may be changed, such as the segment size.
		words = slices.Delete(words, min(3, len(words)), min(4, len(words)))
		if end := slices.Index(words, "window"); end >= 0 {
			words = words[:end]
		}
	}
	return strings.Join(words, " ")
}
