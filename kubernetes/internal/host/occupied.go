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
)

// Occupied is where processes of the host listen, or have sockets for datagrams from anybody. The unspecified address of a family stands for all of
// it; that of IPv6 for those of IPv4 as well, which most sockets there take.
func Occupied() (map[service.Place]bool, error) {
	found := map[service.Place]bool{}
	for _, table := range []struct {
		file, state string
		protocol    core.Protocol
	}{
		{"/proc/thread-self/net/tcp", stateListen, core.ProtocolTCP}, {"/proc/thread-self/net/tcp6", stateListen, core.ProtocolTCP},
		{"/proc/thread-self/net/udp", stateClose, core.ProtocolUDP}, {"/proc/thread-self/net/udp6", stateClose, core.ProtocolUDP},
	} {
		file, err := os.Open(table.file)
		if os.IsNotExist(err) {
			// A kernel without IPv6.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("where this host listens: %w", err)
		}
		err = readSockets(file, table.state, table.protocol, found)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("where this host listens: %s: %w", table.file, err)
		}
	}
	return found, nil
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
		found[service.Place{Address: at.Addr(), Protocol: protocol, Port: at.Port()}] = true
		if at.Addr() == netip.IPv6Unspecified() {
			found[service.Place{Address: netip.IPv4Unspecified(), Protocol: protocol, Port: at.Port()}] = true
		}
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
