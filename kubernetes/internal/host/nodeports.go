package host

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/service"
)

const (
	// tableName is the one table of nftables that is ours: "inet quiver-services".
	tableName = "quiver-services"
	setName   = "ports"
	// Elements of one message: it has 64 KiB at most.
	someElements = 1000
	// Where the concatenation of protocol and port begins: registers of four bytes.
	concatenated = unix.NFT_REG32_00
)

var protocolNumbers = map[core.Protocol]byte{core.ProtocolTCP: unix.IPPROTO_TCP, core.ProtocolUDP: unix.IPPROTO_UDP, core.ProtocolSCTP: unix.IPPROTO_SCTP}

// nodePorts has the kernel translate what is sent to ports of the node's own addresses: there it is quiverd's turn, under an address of its
// own. In the words of nft, for each family:
//
//	meta nfproto ipv4 fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport @ports dnat ip to 10.244.1.254
//
// in a chain for what comes in, and in one for what the host sends itself. The table is replaced as a whole; connections that there are go on.
type nodePorts struct {
	// What was brought last.
	ports   []service.NodePort
	sources []netip.Addr
}

func (n *nodePorts) bring(ports []service.NodePort, sources []netip.Addr, all bool) error {
	ports = slices.Clone(ports)
	slices.SortFunc(ports, func(a, b service.NodePort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	same := n.sources != nil && slices.Equal(ports, n.ports) && slices.Equal(sources, n.sources)
	if same && (!all || n.isThere()) {
		return nil
	}
	n.sources = nil
	if len(ports) == 0 || len(sources) == 0 {
		// A kernel without nftables is as good, then.
		if err := withdrawNodePorts(); err != nil {
			return err
		}
	} else if err := replaceTable(ports, sources); err != nil {
		return fmt.Errorf("node ports, by nftables: %w", err)
	}
	n.ports, n.sources = ports, append([]netip.Addr{}, sources...)
	return nil
}

// isThere tells whether somebody has taken the table away, as who flushes all rules does.
func (n *nodePorts) isThere() bool {
	if len(n.ports) == 0 || len(n.sources) == 0 {
		return true
	}
	connection, err := nftables.New()
	if err != nil {
		return false
	}
	table, err := connection.ListTableOfFamily(tableName, nftables.TableFamilyINet)
	if err != nil || table == nil {
		return false
	}
	set, err := connection.GetSetByName(table, setName)
	if err != nil {
		return false
	}
	elements, err := connection.GetSetElements(set)
	return err == nil && len(elements) == len(n.ports)
}

// withdrawNodePorts takes the table away, if there is one.
func withdrawNodePorts() error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	table, err := connection.ListTableOfFamily(tableName, nftables.TableFamilyINet)
	if err != nil || table == nil {
		// No such table, or no nftables at all.
		return nil
	}
	connection.DelTable(table)
	if err := connection.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing table %s of nftables: %w", tableName, err)
	}
	return nil
}

func replaceTable(ports []service.NodePort, sources []netip.Addr) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: tableName, Family: nftables.TableFamilyINet}
	// So that there is one to delete, whether or not there was.
	connection.AddTable(table)
	connection.DelTable(table)
	connection.AddTable(table)
	set := &nftables.Set{
		Table: table, Name: setName, Concatenation: true, KeyType: nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService),
	}
	if err := connection.AddSet(set, nil); err != nil {
		return err
	}
	var elements []nftables.SetElement
	for _, port := range ports {
		// Each part begins at a word.
		key := make([]byte, 8)
		key[0] = protocolNumbers[port.Protocol]
		binary.BigEndian.PutUint16(key[4:], port.Port)
		elements = append(elements, nftables.SetElement{Key: key})
	}
	for some := range slices.Chunk(elements, someElements) {
		if err := connection.SetAddElements(set, some); err != nil {
			return err
		}
	}
	for _, chain := range []*nftables.Chain{
		{Name: "incoming", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest},
		{Name: "own", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest},
	} {
		connection.AddChain(chain)
		for _, source := range sources {
			connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule(set, source)})
		}
	}
	return connection.Flush()
}

// rule is the one above.
func rule(set *nftables.Set, source netip.Addr) []expr.Any {
	family, loopback := byte(unix.NFPROTO_IPV6), []expr.Any(nil)
	if source.Is4() {
		family = unix.NFPROTO_IPV4
		loopback = []expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{255, 0, 0, 0}, Xor: make([]byte, 4)},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{127, 0, 0, 0}},
		}
	} else {
		one := netip.IPv6Loopback().As16()
		loopback = []expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: bytes.Clone(one[:])},
		}
	}
	return slices.Concat(
		[]expr.Any{
			&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}},
			&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)},
		},
		loopback,
		[]expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: concatenated},
			&expr.Payload{DestRegister: concatenated + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Lookup{SourceRegister: concatenated, SetName: set.Name, SetID: set.ID},
			&expr.Immediate{Register: 1, Data: source.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1},
		})
}
