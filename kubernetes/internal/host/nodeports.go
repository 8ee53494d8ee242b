package host

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/service"
)

const (
	// tableName is the table of nftables by which ports of the node lead somewhere: "inet quiver-services".
	tableName = "quiver-services"
	setName   = "ports"
	// Of ports of single addresses, and where each leads; one for each family.
	externalMap = "external"
	// Where the concatenation of protocol and port begins: registers of four bytes.
	concatenated = unix.NFT_REG32_00
)

// chainNames are those of what comes in, and of what the host sends itself.
var chainNames = []string{"incoming", "own"}

var protocolNumbers = map[core.Protocol]byte{core.ProtocolTCP: unix.IPPROTO_TCP, core.ProtocolUDP: unix.IPPROTO_UDP, core.ProtocolSCTP: unix.IPPROTO_SCTP}

// nodePorts has the kernel translate what is sent to ports of the node's own addresses: for Services it is quiverd's turn there, under an address
// of its own, and a host port is a pod's. In the words of nft, for each family:
//
//	meta nfproto ipv4 fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport @ports dnat ip to 10.244.1.254
//
// before that, where it is asked at ports of single addresses,
//
//	meta nfproto ipv4 fib daddr type local dnat ip to 10.244.1.254 : ip daddr . meta l4proto . th dport map @external4
//
// and for each host port, at all addresses or at one:
//
//	meta nfproto ipv4 fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto tcp th dport 8080 dnat ip to 10.244.1.7:80
//	meta nfproto ipv4 fib daddr type local ip daddr 192.168.7.1 meta l4proto tcp th dport 8080 dnat ip to 10.244.1.7:80
//
// in a chain for what comes in, and in one for what the host sends itself. Where the one address isn't the node's, the kernel leaves it to whose it
// is: whoever makes pods may write any there.
type nodePorts struct {
	table kept
	// Ports that were brought last which lead to a place of their own: host ports, and those of single addresses.
	own []service.HostPort
	// Those that have come or gone, and whose senders the kernel may still remember from before.
	remembered map[service.HostPort]bool
}

// ports are all of the node that lead somewhere.
type ports struct {
	services []service.NodePort
	sources  []netip.Addr
	external []service.ExternalPort
	pods     []service.HostPort
}

func portsOf(lead *service.Lead) *ports {
	p := &ports{
		services: slices.Clone(lead.NodePorts), sources: slices.Clone(lead.Sources), external: slices.Clone(lead.ExternalPorts), pods: slices.Clone(lead.HostPorts),
	}
	if len(p.services)+len(p.external) == 0 || len(p.sources) == 0 {
		p.services, p.sources, p.external = nil, nil, nil
	}
	slices.SortFunc(p.services, func(a, b service.NodePort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(p.external, func(a, b service.ExternalPort) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(p.pods, func(a, b service.HostPort) int {
		// One address goes before all.
		return cmp.Or(-a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), a.To.Compare(b.To))
	})
	return p
}

func (p *ports) empty() bool { return len(p.services)+len(p.external)+len(p.pods) == 0 }

func (n *nodePorts) bring(lead *service.Lead, all bool) error {
	wanted := portsOf(lead)
	if err := n.table.bring(wanted, all); err != nil {
		return fmt.Errorf("ports of the node, by nftables: %w", err)
	}
	own := wanted.pods
	for _, port := range wanted.external {
		own = append(slices.Clip(own), service.HostPort(port))
	}
	n.changed(own)
	return n.forget()
}

// changed notes what has to be forgotten as the ports become these.
func (n *nodePorts) changed(after []service.HostPort) {
	stays := map[service.HostPort]int{}
	for _, port := range slices.Concat(n.own, after) {
		stays[port]++
	}
	for port, times := range stays {
		if port.Protocol == core.ProtocolUDP && times == 1 {
			if n.remembered == nil {
				n.remembered = map[service.HostPort]bool{}
			}
			n.remembered[port] = true
		}
	}
	n.own = after
}

// deleteConnections is how the kernel forgets; a variable so that tests can have it fail.
var deleteConnections = netlink.ConntrackDeleteFilters

// forget ends what the kernel knows of datagrams to such ports that have come or gone: else a client that goes on sending would go on reaching
// nobody, or a pod that isn't there any more. What fails is the next time's.
func (n *nodePorts) forget() (failed error) {
	for port := range n.remembered {
		family := netlink.InetFamily(unix.AF_INET6)
		if port.Address.Is4() {
			family = unix.AF_INET
		}
		filter := &netlink.ConntrackFilter{}
		err := errors.Join(filter.AddProtocol(unix.IPPROTO_UDP), filter.AddPort(netlink.ConntrackOrigDstPort, port.Port))
		if err == nil && !port.Address.IsUnspecified() {
			err = filter.AddIP(netlink.ConntrackOrigDstIP, port.Address.AsSlice())
		}
		if err == nil {
			_, err = deleteConnections(netlink.ConntrackTable, family, filter)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("forgetting who sent to port %s of this node: %w", port.Place, err))
			continue
		}
		delete(n.remembered, port)
	}
	return failed
}

func (p *ports) filled() *filled {
	chains := map[string]int{}
	for _, name := range chainNames {
		chains[name] = 2*len(p.sources) + len(p.pods)
	}
	sets := map[string]int{setName: len(p.services)}
	for _, v4 := range []bool{true, false} {
		sets[familySet(externalMap, v4)] = len(p.externalElements(v4))
	}
	return &filled{tableName, chains, sets}
}

// withdrawNodePorts takes the table away, if there is one.
func withdrawNodePorts() error { return withdrawTable(tableName) }

func (p *ports) fill(connection *nftables.Conn, table *nftables.Table) error {
	set := &nftables.Set{
		Table: table, Name: setName, Concatenation: true, KeyType: nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService),
	}
	var elements []nftables.SetElement
	for _, port := range p.services {
		// Each part begins at a word.
		key := make([]byte, 8)
		key[0] = protocolNumbers[port.Protocol]
		binary.BigEndian.PutUint16(key[4:], port.Port)
		elements = append(elements, nftables.SetElement{Key: key})
	}
	if err := addSet(connection, set, elements); err != nil {
		return err
	}
	external := map[bool]*nftables.Set{}
	for _, v4 := range []bool{true, false} {
		external[v4] = &nftables.Set{
			Table: table, Name: familySet(externalMap, v4), IsMap: true, Concatenation: true, DataType: nftables.TypeInetService,
			KeyType: nftables.MustConcatSetType(ofAddresses(v4), nftables.TypeInetProto, nftables.TypeInetService),
		}
		if err := addSet(connection, external[v4], p.externalElements(v4)); err != nil {
			return err
		}
	}
	for _, chain := range []*nftables.Chain{
		{Name: chainNames[0], Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityNATDest},
		{Name: chainNames[1], Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest},
	} {
		connection.AddChain(chain)
		for _, source := range p.sources {
			connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: toExternal(external[source.Is4()], source)})
		}
		for _, source := range p.sources {
			connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: toService(set, source)})
		}
		for _, port := range p.pods {
			connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: toPod(port)})
		}
	}
	return nil
}

// externalElements are ports of a family's single addresses, and those of the source address that they lead to.
func (p *ports) externalElements(v4 bool) (elements []nftables.SetElement) {
	for _, port := range p.external {
		if port.Address.Is4() != v4 {
			continue
		}
		key := append(port.Address.AsSlice(), protocolNumbers[port.Protocol], 0, 0, 0)
		key = append(binary.BigEndian.AppendUint16(key, port.Port), 0, 0)
		elements = append(elements, nftables.SetElement{Key: key, Val: binary.BigEndian.AppendUint16(nil, port.To.Port())})
	}
	return elements
}

// toExternal is the second rule above.
func toExternal(ports *nftables.Set, source netip.Addr) []expr.Any {
	family, address := familyOf(source), destination(source.Is4())
	address.DestRegister = concatenated
	// Registers of four bytes, behind the address.
	behind := concatenated + address.Len/4
	return slices.Concat(
		ofFamily(family), ownAddress(),
		[]expr.Any{
			address,
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: behind},
			&expr.Payload{DestRegister: behind + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Lookup{SourceRegister: concatenated, SetName: ports.Name, SetID: ports.ID, DestRegister: 2, IsDestRegSet: true},
			&expr.Immediate{Register: 1, Data: source.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1, RegProtoMin: 2, Specified: true},
		})
}

// toService is the first rule above.
func toService(set *nftables.Set, source netip.Addr) []expr.Any {
	family := familyOf(source)
	return slices.Concat(
		ofFamily(family), anyAddress(source.Is4()),
		[]expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: concatenated},
			&expr.Payload{DestRegister: concatenated + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Lookup{SourceRegister: concatenated, SetName: set.Name, SetID: set.ID},
			&expr.Immediate{Register: 1, Data: source.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1},
		})
}

// toPod are the others.
func toPod(port service.HostPort) []expr.Any {
	family := familyOf(port.Address)
	where := anyAddress(port.Address.Is4())
	if !port.Address.IsUnspecified() {
		where = append(ownAddress(), destination(port.Address.Is4()), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: port.Address.AsSlice()})
	}
	return slices.Concat(
		ofFamily(family), where,
		[]expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocolNumbers[port.Protocol]}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port.Port)},
			&expr.Immediate{Register: 1, Data: port.To.Addr().AsSlice()},
			&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, port.To.Port())},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1, RegProtoMin: 2, Specified: true},
		})
}

func familyOf(address netip.Addr) byte {
	if address.Is4() {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

func ofFamily(family byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}}}
}

// destination loads a packet's.
func destination(v4 bool) *expr.Payload {
	if v4 {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}
}

// ownAddress is what is sent to an address that the node has now, loopback ones too.
func ownAddress() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)},
	}
}

// anyAddress is any address of the node's own but loopback ones.
func anyAddress(v4 bool) []expr.Any {
	local := append(ownAddress(), destination(v4))
	if !v4 {
		one := netip.IPv6Loopback().As16()
		return append(local, &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: one[:]})
	}
	return append(local,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: []byte{255, 0, 0, 0}, Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{127, 0, 0, 0}})
}
