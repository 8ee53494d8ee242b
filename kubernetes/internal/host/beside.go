package host

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

const (
	// uplinkTable is the fourth table of nftables that is ours: "inet quiver-uplink".
	uplinkTable = "quiver-uplink"
	// Before packets are put together of their fragments (NF_IP_PRI_CONNTRACK_DEFRAG, -400): that is done where they are taken.
	beforeFragments = -450
	// Ranges of pods that are reached by the port; one for each family.
	carriedSet = "carried"
)

// beside has the kernel stand aside for quiverd's port on the uplink. The port is given a copy of what the device receives, so the kernel drops what the port takes: in
// the words of nft, for each of the node's ranges,
//
//	iifname "eth0" meta nfproto ipv4 ip saddr @carried4 ip daddr & 255.255.255.0 == 10.244.1.0 counter drop
//
// in a chain for what arrives, before anything else looks at it. Without a port that passes packets there is no such rule, and the kernel carries them as before.
//
// What answers pods of other nodes leaves by the port, too, past the kernel. So where they have asked at an address of the node's, and the kernel has translated that to a
// pod's (host ports, node ports), nobody would translate the answer back. Therefore each node gives what its pods send to other nodes themselves its own address,
//
//	meta nfproto ipv4 ip saddr & 255.255.255.0 == 10.244.1.0 ip daddr @nodes4 masquerade fully-random
//
// to which answers go by way of the kernel.
type beside struct {
	// Device of the host by which the port takes packets; empty: there is none that does.
	uplink string
	// Device of the host towards pods.
	device string
	// Ranges of this node's pods.
	ours []netip.Prefix
	// Ranges of pods that are reached by the port; ordered, none within another.
	theirs []netip.Prefix
	// All addresses of other nodes.
	nodes []netip.Addr
}

func (b *beside) empty() bool { return len(b.ours) == 0 }

func (b *beside) filled() *filled {
	sets := map[string]int{}
	for _, v4 := range []bool{true, false} {
		for name, elements := range b.sets(v4) {
			sets[familySet(name, v4)] = len(elements)
		}
	}
	arriving := 0
	if b.uplink != "" {
		arriving = len(b.ours)
	}
	return &filled{uplinkTable, map[string]int{arrivingChain: arriving, leavingChain: len(b.ours)}, sets}
}

// sets of a family, by what they are called.
func (b *beside) sets(v4 bool) map[string][]nftables.SetElement {
	return map[string][]nftables.SetElement{carriedSet: intervals(b.theirs, v4), nodeSet: single(b.nodes, v4)}
}

// WithdrawUplink takes the table away, if there is one.
func WithdrawUplink() error { return withdrawTable(uplinkTable) }

func (b *beside) fill(connection *nftables.Conn, table *nftables.Table) error {
	sets := map[string]*nftables.Set{}
	for _, v4 := range []bool{true, false} {
		for name, elements := range b.sets(v4) {
			set := &nftables.Set{Table: table, Name: familySet(name, v4), KeyType: ofAddresses(v4), Interval: name == carriedSet}
			if err := addSet(connection, set, elements); err != nil {
				return err
			}
			sets[set.Name] = set
		}
	}
	arriving := connection.AddChain(&nftables.Chain{
		Name: arrivingChain, Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRef(beforeFragments),
	})
	leaving := connection.AddChain(&nftables.Chain{
		Name: leavingChain, Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, own := range b.ours {
		v4 := own.Addr().Is4()
		if b.uplink != "" {
			connection.AddRule(&nftables.Rule{Table: table, Chain: arriving, Exprs: slices.Concat(
				by(expr.MetaKeyIIFNAME, expr.CmpOpEq, b.uplink), taken(own, sets[familySet(carriedSet, v4)]),
			)})
		}
		connection.AddRule(&nftables.Rule{Table: table, Chain: leaving, Exprs: masqueraded(own, sets[familySet(nodeSet, v4)], false)})
	}
	return nil
}

// taken is the first rule above, behind where the packet comes from.
func taken(own netip.Prefix, carried *nftables.Set) []expr.Any {
	v4 := own.Addr().Is4()
	return slices.Concat(
		ofFamily(familyOf(own.Addr())),
		[]expr.Any{source(v4), &expr.Lookup{SourceRegister: 1, SetName: carried.Name, SetID: carried.ID}},
		within(destination(v4), own),
		[]expr.Any{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}})
}
