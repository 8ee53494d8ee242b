package annotation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// PortRange is a range of destination ports.
type PortRange struct {
	// Protocol: "tcp", "udp" or "sctp".
	Protocol string `json:"protocol"`
	// First and Last port, both included.
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// String is a range as annotations have it.
func (r PortRange) String() string {
	if r.First == r.Last {
		return fmt.Sprintf("%s:%d", r.Protocol, r.First)
	}
	return fmt.Sprintf("%s:%d-%d", r.Protocol, r.First, r.Last)
}

// portless are protocols that Calico/VPP takes here, too, though they have no ports by which anything could be led.
var portless = []string{"icmp", "icmp6"}

// readPorts understands "tcp:4444-20000,udp:6081", and tells in words what of it has no effect.
func readPorts(key, list string) (ranges []PortRange, without []string, err error) {
	at := 1
	for _, entry := range strings.Split(list, ",") {
		parsed, offset, reason := readPort(entry)
		if reason != "" {
			return nil, nil, &Error{Key: key, Position: at + offset, Reason: reason,
				Remedy: "write PROTOCOL:PORT or PROTOCOL:FIRST-LAST, separated by commas: \"tcp:4444-20000,udp:6081\""}
		}
		for _, other := range ranges {
			if other.Protocol == parsed.Protocol && other.First <= parsed.Last && parsed.First <= other.Last {
				return nil, nil, &Error{Key: key, Position: at + indent(entry), Reason: fmt.Sprintf("%q overlaps %s", strings.TrimSpace(entry), other),
					Remedy: "name each port once"}
			}
		}
		if slices.Contains(portless, parsed.Protocol) {
			without = append(without, fmt.Sprintf("annotation %s, position %d: %q has no effect: %s has no ports", key, at+indent(entry), strings.TrimSpace(entry), parsed.Protocol))
		} else {
			ranges = append(ranges, parsed)
		}
		at += len(entry) + 1
	}
	if ranges == nil {
		return nil, nil, &Error{Key: key, Position: 1, Reason: "names no port of tcp, udp or sctp, so that nothing would be led to the memif", Remedy: "name ports, such as \"tcp:4444-20000,udp:6081\""}
	}
	return ranges, without, nil
}

// indent is how many bytes an entry begins with that don't count: spaces, and ends of lines where there is an entry on each.
func indent(entry string) int { return len(entry) - len(strings.TrimLeftFunc(entry, unicode.IsSpace)) }

// readPort understands one entry; or tells what is wrong, and how many bytes from its beginning.
func readPort(entry string) (_ PortRange, offset int, reason string) {
	start := indent(entry)
	protocol, ports, colon := strings.Cut(strings.TrimSpace(entry), ":")
	if !colon {
		return PortRange{}, start, fmt.Sprintf("%q has no colon", strings.TrimSpace(entry))
	}
	protocol = strings.ToLower(protocol)
	if !slices.Contains([]string{"tcp", "udp", "sctp"}, protocol) && !slices.Contains(portless, protocol) {
		return PortRange{}, start, fmt.Sprintf("%q is neither tcp, udp nor sctp", protocol)
	}
	at := start + len(protocol) + 1
	low, high, ranged := strings.Cut(ports, "-")
	switch {
	case ports == "":
		return PortRange{}, at, fmt.Sprintf("there is no port behind %q", protocol+":")
	case low == "":
		// As a number below zero.
		return PortRange{}, at, fmt.Sprintf("%q is no port (0 to 65535)", ports)
	case ranged && high == "":
		return PortRange{}, at + len(low) + 1, fmt.Sprintf("the range %q has no last port", ports)
	case !ranged:
		high = low
	}
	first, err := strconv.ParseUint(low, 10, 16)
	if err != nil {
		return PortRange{}, at, fmt.Sprintf("%q is no port (0 to 65535)", low)
	}
	last, err := strconv.ParseUint(high, 10, 16)
	if err != nil {
		return PortRange{}, at + len(low) + 1, fmt.Sprintf("%q is no port (0 to 65535)", high)
	}
	if last < first {
		return PortRange{}, at + len(low) + 1, fmt.Sprintf("the range ends at %d, before it begins at %d", last, first)
	}
	return PortRange{protocol, uint16(first), uint16(last)}, 0, ""
}
