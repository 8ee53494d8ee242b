package host

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
)

const (
	// overlayTable is the third table of nftables that is ours: "inet quiver-overlay".
	overlayTable  = "quiver-overlay"
	arrivingChain = "arriving"
	leavingChain  = "leaving"
	forgedChain   = "forged"
	spokenChain   = "spoken"
	// Sets, one for each family: ends of tunnels, all addresses of other nodes, ranges of pods behind tunnels.
	peerSet, nodeSet, behindSet = "peers", "nodes", "behind"
	// Where VXLAN's network identifier stands behind UDP's beginning, and its length.
	vniAt, vniLen = 8 + 4, 3
)

// tunnelled has the kernel carry what quiverd's tunnels have packed to other nodes and back. It routes that as anything else, by whatever devices; but
// quiverd has ends of tunnels that no network knows, in whose place the kernel puts the node's own address. In the words of nft, for each family:
//
//	iifname "quiver-vxlan" notrack
//	iifname != "quiver0" ip daddr 192.0.2.1 ip saddr @peers4 udp dport 4789 @th,96,24 4096 notrack ip daddr set 169.254.1.2
//
// for what arrives, before anything else looks at it, and for what leaves:
//
//	ip saddr 169.254.1.2 ip saddr set 192.0.2.1
//
// No connection is remembered. What others send to the same port, or nodes with another network identifier, stays with the kernel and whoever listens there.
//
// What pods send to that port of other nodes would have this node's address on its way, and be taken for a tunnel's there: it isn't let through.
//
//	iifname "quiver0" ip daddr @nodes4 meta l4proto udp th dport 4789 drop
//
// Among these are quiverd's own ends, to which the host has a way: a pod that may send with another node's address would be taken for its tunnel there.
//
// And a process of the host that has chosen the node's address is given the one that the host has in tunnels, so that answers come back through them:
//
//	oifname "quiver0" ip daddr @behind4 ip saddr != 10.244.1.0 snat to 10.244.1.0
type tunnelled struct{ table kept }

// ends are those of a node's tunnels, of both families, as the network sees them.
type ends struct {
	settings overlay.Settings
	// Device of the host towards pods.
	device string
	// At most one per family, and the other nodes'.
	locals, remotes []netip.Addr
	// All addresses of other nodes, and quiverd's own ends.
	nodes []netip.Addr
	// What the host is seen with in tunnels, at most one per family, and pods' ranges that are behind them.
	speaks []netip.Addr
	behind []netip.Prefix
}

func endsOf(settings overlay.Settings, plan *overlay.Plan, device string, self pods.Node, others []pods.Node) *ends {
	remotes, nodes := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, peer := range plan.Peers {
		remotes[peer.Remote], nodes[peer.Remote] = true, true
	}
	for _, node := range others {
		for _, address := range slices.Concat(node.Addresses, node.External) {
			nodes[address] = true
		}
	}
	for _, end := range dataplane.Underlay {
		nodes[end] = true
	}
	e := &ends{settings: settings, device: device, locals: plan.Locals, remotes: ordered(remotes), nodes: ordered(nodes)}
	for _, peer := range plan.Through() {
		e.behind = append(e.behind, peer.Ranges...)
	}
	e.behind = disjoint(e.behind)
	for _, prefix := range self.Ranges {
		e.speaks = append(e.speaks, dataplane.HostAddress(prefix))
	}
	return e
}

func ordered(set map[netip.Addr]bool) []netip.Addr {
	return slices.SortedFunc(maps.Keys(set), netip.Addr.Compare)
}

// bring has the kernel do it, whatever may have happened to the table.
func (t *tunnelled) bring(wanted *ends) error {
	if err := t.table.bring(wanted, true); err != nil {
		return fmt.Errorf("tunnels between nodes, by nftables: %w", err)
	}
	return nil
}

func (e *ends) empty() bool { return len(e.locals) == 0 }

func (e *ends) filled() *filled {
	sets := map[string]int{}
	for _, v4 := range []bool{true, false} {
		for name, elements := range e.sets(v4) {
			sets[familySet(name, v4)] = len(elements)
		}
	}
	return &filled{overlayTable, map[string]int{arrivingChain: 1 + len(e.locals), leavingChain: len(e.locals), forgedChain: 2, spokenChain: len(e.speaks)}, sets}
}

// sets of a family, by what they are called.
func (e *ends) sets(v4 bool) map[string][]nftables.SetElement {
	return map[string][]nftables.SetElement{peerSet: single(e.remotes, v4), nodeSet: single(e.nodes, v4), behindSet: intervals(e.behind, v4)}
}

// single are the elements of a set of a family's addresses.
func single(addresses []netip.Addr, v4 bool) (elements []nftables.SetElement) {
	for _, address := range addresses {
		if address.Is4() == v4 {
			elements = append(elements, nftables.SetElement{Key: address.AsSlice()})
		}
	}
	return elements
}

// WithdrawOverlay takes the table away, if there is one.
func WithdrawOverlay() error { return withdrawTable(overlayTable) }

func (e *ends) fill(connection *nftables.Conn, table *nftables.Table) error {
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
		return connection.AddChain(&nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: priority})
	}
	add := func(to *nftables.Chain, parts ...[]expr.Any) {
		connection.AddRule(&nftables.Rule{Table: table, Chain: to, Exprs: slices.Concat(parts...)})
	}
	arriving := chain(arrivingChain, nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	leaving := chain(leavingChain, nftables.ChainTypeFilter, nftables.ChainHookPostrouting, nftables.ChainPriorityRaw)
	// Behind all translation of whom it is for.
	forged := chain(forgedChain, nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	spoken := chain(spokenChain, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	sets := map[string]*nftables.Set{}
	for _, v4 := range []bool{true, false} {
		for name, elements := range e.sets(v4) {
			set := &nftables.Set{Table: table, Name: familySet(name, v4), KeyType: ofAddresses(v4), Interval: name == behindSet}
			if err := addSet(connection, set, elements); err != nil {
				return err
			}
			sets[set.Name] = set
		}
		add(forged, by(expr.MetaKeyIIFNAME, expr.CmpOpEq, e.device), e.toPort(sets[familySet(nodeSet, v4)], v4), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})
	}
	add(arriving, by(expr.MetaKeyIIFNAME, expr.CmpOpEq, dataplane.UnderlayDevice), []expr.Any{&expr.Notrack{}})
	for _, local := range e.locals {
		add(arriving, by(expr.MetaKeyIIFNAME, expr.CmpOpNeq, e.device), e.toUnderlay(sets[familySet(peerSet, local.Is4())], local))
		add(leaving, fromUnderlay(local))
	}
	for _, own := range e.speaks {
		add(spoken, by(expr.MetaKeyOIFNAME, expr.CmpOpEq, e.device), spokenAs(own, sets[familySet(behindSet, own.Is4())]))
	}
	return nil
}

// toUnderlay is the second rule above, behind where the packet comes from.
func (e *ends) toUnderlay(peers *nftables.Set, local netip.Addr) []expr.Any {
	return slices.Concat(
		isUDP(local),
		[]expr.Any{
			destination(local.Is4()),
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: local.AsSlice()},
			source(local.Is4()),
			&expr.Lookup{SourceRegister: 1, SetName: peers.Name, SetID: peers.ID},
		},
		e.port(),
		[]expr.Any{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: vniAt, Len: vniLen},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint32(nil, uint32(e.settings.VNI))[4-vniLen:]},
			&expr.Notrack{},
		},
		written(destination(local.Is4()), dataplane.Underlay[local.Is4()]))
}

// fromUnderlay is the third.
func fromUnderlay(local netip.Addr) []expr.Any {
	return slices.Concat(
		isUDP(local),
		[]expr.Any{source(local.Is4()), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: dataplane.Underlay[local.Is4()].AsSlice()}},
		written(source(local.Is4()), local))
}

// toPort is what is for the tunnels' port of a set of addresses, whatever headers are between.
func (e *ends) toPort(of *nftables.Set, v4 bool) []expr.Any {
	family := byte(unix.NFPROTO_IPV6)
	if v4 {
		family = unix.NFPROTO_IPV4
	}
	return slices.Concat(
		ofFamily(family),
		[]expr.Any{
			destination(v4),
			&expr.Lookup{SourceRegister: 1, SetName: of.Name, SetID: of.ID},
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
		},
		e.port())
}

// port of the tunnels, as UDP's destination.
func (e *ends) port() []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, uint16(e.settings.Port))},
	}
}

// spokenAs is the last rule above, behind where the packet goes.
func spokenAs(own netip.Addr, behind *nftables.Set) []expr.Any {
	family := familyOf(own)
	return slices.Concat(
		ofFamily(family),
		[]expr.Any{
			destination(own.Is4()),
			&expr.Lookup{SourceRegister: 1, SetName: behind.Name, SetID: behind.ID},
			source(own.Is4()),
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: own.AsSlice()},
			&expr.Immediate{Register: 1, Data: own.AsSlice()},
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(family), RegAddrMin: 1},
		})
}
