package inspect

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// session is what is asked for, beside its ends.
type session struct {
	// "tcp", "udp", "sctp", "udplite", "dccp", "icmp", ...; empty: that of the only port of a Service.
	protocol string
	// Port of the destination; 0: not said.
	port uint16
	// As it was written.
	text string
}

// Forms that are taken.
const sessionForms = "take tcp/80, udp/53, sctp/7, udplite/7, dccp/7 (a port is a number from 1 to 65535), icmp, icmp/8, icmpv6, esp or ah"

// CheckSession says what is wrong with a session as Explain is given it.
func CheckSession(from, to, protocol string) error {
	for _, text := range []string{from, to} {
		if host, port, is := portBehind(text); is {
			return fmt.Errorf("%s: the port stands behind: say %s %s", text, host, cmp.Or(protocol, "tcp/"+port))
		}
	}
	wanted, err := readSession(protocol, to)
	if err != nil {
		return err
	}
	var ends []netip.Addr
	for _, text := range []string{from, to} {
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if what := nobodys(address.Unmap()); what != "" {
			return fmt.Errorf("%s is %s, which is nobody's in the cluster: give a pod, a node's address, or one that is routed", text, what)
		}
		ends = append(ends, address.Unmap())
	}
	other := func(one netip.Addr) bool {
		_, err := wanted.narrow(end{addresses: []netip.Addr{one}}, one.String())
		return err != nil
	}
	if len(ends) == 2 && other(ends[0]) && other(ends[1]) {
		return fmt.Errorf("%s and %s: %s is of the other family; say %s", from, to, wanted.protocol, otherICMP[wanted.protocol])
	}
	return nil
}

// portBehind splits an address or a pod from a port behind a colon, and tells whether there is one. (Services may have it there.)
func portBehind(text string) (host, port string, is bool) {
	if _, isService := serviceNamed(text); isService {
		return "", "", false
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return "", "", false
	}
	host, port, err := net.SplitHostPort(text)
	return host, port, err == nil && host != "" && port != ""
}

// nobodys says what an address is that no session between nodes or pods can have; empty: it may have this one.
func nobodys(address netip.Addr) string {
	switch {
	case address.IsUnspecified():
		return "no address"
	case address.IsLoopback():
		return "an address of a host's loopback"
	case address.IsMulticast():
		return "a multicast address"
	case address.IsLinkLocalUnicast():
		return "a link-local address"
	case address == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}

// otherICMP is that of the other family.
var otherICMP = map[string]string{"icmp": "icmpv6", "icmpv6": "icmp"}

// narrow is an end with those of its addresses that the protocol can be between: ICMP is another one for each family.
func (s session) narrow(one end, name string) (end, error) {
	if otherICMP[s.protocol] == "" {
		return one, nil
	}
	family := map[bool]string{true: "IPv4", false: "IPv6"}[s.protocol == "icmp"]
	all := one.addresses
	one.addresses = nil
	for _, address := range all {
		if address.Is4() == (s.protocol == "icmp") {
			one.addresses = append(one.addresses, address)
		}
	}
	if one.addresses == nil {
		return one, fmt.Errorf("%s has no %s address, between which %s is (%v); say %s", name, family, s.protocol, all, otherICMP[s.protocol])
	}
	return one, nil
}

// readSession reads "tcp/80"; to is whom it is for.
func readSession(text, to string) (session, error) {
	_, isService := serviceNamed(to)
	if text == "" && isService {
		return session{}, nil
	}
	if text == "" {
		return session{}, fmt.Errorf("%s is asked at which port? Say it behind, as tcp/80 (only a Service by its name, svc/web, may do without)", to)
	}
	word, number, numbered := strings.Cut(text, "/")
	found := session{protocol: strings.ToLower(word), text: text}
	if _, err := strconv.ParseUint(word, 10, 16); err == nil && !numbered {
		return session{}, fmt.Errorf("PROTOCOL/PORT %q has no protocol: say tcp/%[1]s or udp/%[1]s; %s", text, sessionForms)
	}
	var least, most uint64
	switch {
	case slices.Contains([]string{"tcp", "udp", "sctp", "udplite", "dccp"}, found.protocol):
		least, most = 1, 1<<16-1
	case slices.Contains([]string{"icmp", "icmpv6"}, found.protocol):
		least, most = 0, 1<<8-1
	case !slices.Contains([]string{"esp", "ah"}, found.protocol) || numbered:
		return session{}, fmt.Errorf("PROTOCOL/PORT %q: %s", text, sessionForms)
	}
	if !numbered {
		return found, nil
	}
	port, err := strconv.ParseUint(number, 10, 16)
	switch {
	case err != nil && isService && least == 1 && isPortName(number):
		// A Service's ports have names.
		return found, nil
	case err != nil && !isService && least == 1 && isPortName(number):
		return session{}, fmt.Errorf("PROTOCOL/PORT %q: %s is no number, and only ports of a Service have names (svc/web:%[2]s); %s", text, number, sessionForms)
	case err != nil || port < least || port > most:
		return session{}, fmt.Errorf("PROTOCOL/PORT %q: %s is no number from %d to %d; %s", text, number, least, most, sessionForms)
	case least == 1:
		found.port = uint16(port)
	}
	return found, nil
}

// isPortName tells whether a text may be a port's name: it has a letter, as Kubernetes has it.
func isPortName(text string) bool {
	return strings.ContainsFunc(text, func(letter rune) bool { return letter >= 'a' && letter <= 'z' })
}
