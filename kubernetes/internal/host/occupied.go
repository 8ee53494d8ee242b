package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/service"
)

// What a socket's state is called in /proc/net/tcp that listens, and in /proc/net/udp that isn't connected (include/net/tcp_states.h).
const (
	stateListen = "0A"
	stateClose  = "07"
	// The same in /proc/net/sctp/eps, by decimal numbers.
	stateListening = "10"
)

// Occupied is where processes of the host listen, or have sockets for datagrams from anybody. The unspecified address of a family stands for all of
// it; that of IPv6 for those of IPv4 as well, which most sockets there take. False is what may be a client's for the moment: a socket for
// datagrams, at a port of those that the kernel gives to whoever takes any.
func Occupied() (map[service.Place]bool, error) {
	first, last, err := ephemeral()
	if err != nil {
		return nil, fmt.Errorf("where this host listens: %w", err)
	}
	found := map[service.Place]bool{}
	for _, table := range []struct {
		file, state string
		protocol    core.Protocol
	}{
		{"/proc/thread-self/net/tcp", stateListen, core.ProtocolTCP}, {"/proc/thread-self/net/tcp6", stateListen, core.ProtocolTCP},
		{"/proc/thread-self/net/udp", stateClose, core.ProtocolUDP}, {"/proc/thread-self/net/udp6", stateClose, core.ProtocolUDP},
		{"/proc/thread-self/net/sctp/eps", stateListening, core.ProtocolSCTP},
	} {
		file, err := os.Open(table.file)
		if os.IsNotExist(err) {
			// A kernel without IPv6, or without SCTP.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("where this host listens: %w", err)
		}
		if table.protocol == core.ProtocolSCTP {
			err = readEndpoints(file, table.state, found)
		} else {
			err = readSockets(file, table.state, table.protocol, found)
		}
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("where this host listens: %s: %w", table.file, err)
		}
	}
	for place := range found {
		found[place] = place.Protocol != core.ProtocolUDP || place.Port < first || place.Port > last
	}
	return found, nil
}

// ephemeral are the first and last port that the kernel gives to whoever takes any.
func ephemeral() (first, last uint16, err error) {
	const file = "/proc/sys/net/ipv4/ip_local_port_range"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0, 0, fmt.Errorf("%s: %q is no range of ports: %w", file, text, err)
	}
	return first, last, nil
}

// add notes a place.
func add(at netip.AddrPort, protocol core.Protocol, found map[service.Place]bool) {
	found[service.Place{Address: at.Addr(), Protocol: protocol, Port: at.Port()}] = true
	if at.Addr() == netip.IPv6Unspecified() {
		found[service.Place{Address: netip.IPv4Unspecified(), Protocol: protocol, Port: at.Port()}] = true
	}
}

// readEndpoints adds those of SCTP in that state, each with all its addresses.
func readEndpoints(table io.Reader, state string, found map[service.Place]bool) error {
	lines := bufio.NewScanner(table)
	// " ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS"
	lines.Scan()
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 8 {
			return fmt.Errorf("%q is no line of endpoints", lines.Text())
		}
		port, err := strconv.ParseUint(columns[5], 10, 16)
		if err != nil {
			return fmt.Errorf("%q is no port of an endpoint: %w", columns[5], err)
		}
		if columns[3] != state {
			continue
		}
		for _, text := range columns[8:] {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return err
			}
			add(netip.AddrPortFrom(address.Unmap(), uint16(port)), core.ProtocolSCTP, found)
		}
	}
	return lines.Err()
}

// readSockets adds those of a table in that state.
func readSockets(table io.Reader, state string, protocol core.Protocol, found map[service.Place]bool) error {
	lines := bufio.NewScanner(table)
	// The first line says what is in which column.
	lines.Scan()
	for lines.Scan() {
		columns := strings.Fields(lines.Text())
		if len(columns) < 4 {
			return fmt.Errorf("%q is no line of sockets", lines.Text())
		}
		if columns[3] != state {
			if protocol == core.ProtocolTCP {
				// Those that listen come first; of others there may be very many.
				return nil
			}
			continue
		}
		at, err := readSocket(columns[1])
		if err != nil {
			return err
		}
		add(at, protocol, found)
	}
	return lines.Err()
}

// readSocket reads "0107A8C0:0016": the address by words of four bytes as the machine has them, and the port.
func readSocket(text string) (at netip.AddrPort, err error) {
	address, number, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(address)
	if err != nil || len(bytes) != 4 && len(bytes) != 16 {
		return at, fmt.Errorf("%q is no address of a socket", text)
	}
	for i := 0; i < len(bytes); i += 4 {
		binary.NativeEndian.PutUint32(bytes[i:], binary.BigEndian.Uint32(bytes[i:]))
	}
	port, err := strconv.ParseUint(number, 16, 16)
	if err != nil {
		return at, fmt.Errorf("%q is no address of a socket: %w", text, err)
	}
	found, _ := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(found.Unmap(), uint16(port)), nil
}
