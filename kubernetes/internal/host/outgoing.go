package host

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"quiver/kubernetes/internal/pods"
)

const (
	// outgoingTable is the other table of nftables that is ours: "inet quiver-outgoing".
	outgoingTable = "quiver-outgoing"
	outgoingChain = "leaving"
)

// Outgoing has the kernel give what pods of the node send out of the cluster the node's own address, by which answers find back: the world outside
// has no way to addresses of pods. In the words of nft, for each of the node's ranges:
//
//	meta nfproto ipv4 ip saddr & 255.255.255.0 == 10.244.1.0 ip daddr != @cluster4 masquerade fully-random
//
// in a chain for what leaves; of both families, or of one. The sets hold all pods' ranges and all nodes' addresses. What is asked of a Service has got its backend's address
// before it comes here; answers go back as their connections came. The table is replaced as a whole; connections that there are go on.
type Outgoing struct {
	// Families for which it is done.
	Families Families
	// What was brought last; of no use before known.
	table leaving
	known bool
}

// leaving says whose packets are translated, and for whom they aren't.
type leaving struct {
	sources []netip.Prefix
	// Ordered; none within another.
	cluster []netip.Prefix
}

// leavingOf is what there is for a node beside others.
func leavingOf(self pods.Node, others []pods.Node, of Families) (l leaving) {
	l.sources = slices.DeleteFunc(slices.Clone(self.Ranges), func(prefix netip.Prefix) bool { return !of.Has(prefix.Addr()) })
	var all []netip.Prefix
	for _, node := range append(slices.Clone(others), self) {
		all = append(all, node.Ranges...)
		for _, address := range slices.Concat(node.Addresses, node.External) {
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	slices.SortFunc(all, comparePrefixes)
	for _, prefix := range all {
		// Who contains others stands right before them.
		if last := len(l.cluster) - 1; last < 0 || !l.cluster[last].Overlaps(prefix) {
			l.cluster = append(l.cluster, prefix)
		}
	}
	return l
}

// comparePrefixes puts a prefix before those that it contains.
func comparePrefixes(a, b netip.Prefix) int {
	if by := a.Masked().Addr().Compare(b.Masked().Addr()); by != 0 {
		return by
	}
	return a.Bits() - b.Bits()
}

func (l *leaving) equal(other *leaving) bool {
	return slices.Equal(l.sources, other.sources) && slices.Equal(l.cluster, other.cluster)
}

// elements are those of the set of a family: where an interval begins, and where it has ended. One that begins right there has no end in between.
func (l *leaving) elements(v4 bool) (elements []nftables.SetElement) {
	for _, prefix := range l.cluster {
		if prefix.Addr().Is4() != v4 {
			continue
		}
		begins := prefix.Masked().Addr()
		if last := len(elements) - 1; last >= 0 && slices.Equal(elements[last].Key, begins.AsSlice()) {
			elements = elements[:last]
		} else {
			elements = append(elements, nftables.SetElement{Key: begins.AsSlice()})
		}
		if ends := behindPrefix(prefix); ends.IsValid() {
			elements = append(elements, nftables.SetElement{Key: ends.AsSlice(), IntervalEnd: true})
		}
	}
	return elements
}

// behindPrefix is the first address that is greater than all of a prefix; not valid: there is none.
func behindPrefix(prefix netip.Prefix) netip.Addr {
	last := prefix.Masked().Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	address, _ := netip.AddrFromSlice(last)
	return address.Next()
}

// Bring has the kernel do it for this node beside others, whatever may have happened to the table.
func (o *Outgoing) Bring(self pods.Node, others []pods.Node) error {
	wanted := leavingOf(self, others, o.Families)
	if o.known && wanted.equal(&o.table) && (len(wanted.sources) == 0 || wanted.filled().isThere()) {
		return nil
	}
	o.known = false
	if len(wanted.sources) == 0 {
		if err := WithdrawOutgoing(); err != nil {
			return err
		}
	} else if err := replaceOutgoing(&wanted); err != nil {
		return fmt.Errorf("addresses of pods on their way out of the cluster, by nftables: %w (without it: --nat-outgoing=false)", err)
	}
	o.table, o.known = wanted, true
	return nil
}

// filled is how much of it the kernel has.
func (l *leaving) filled() *filled {
	sets := map[string]int{}
	for _, v4 := range []bool{true, false} {
		sets[clusterSet(v4)] = len(l.elements(v4))
	}
	return &filled{outgoingTable, map[string]int{outgoingChain: len(l.sources)}, sets}
}

// WithdrawOutgoing takes the table away, if there is one.
func WithdrawOutgoing() error { return withdrawTable(outgoingTable) }

func clusterSet(v4 bool) string {
	if v4 {
		return "cluster4"
	}
	return "cluster6"
}

func replaceOutgoing(wanted *leaving) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	table := freshTable(connection, outgoingTable)
	sets := map[bool]*nftables.Set{}
	for v4, kind := range map[bool]nftables.SetDatatype{true: nftables.TypeIPAddr, false: nftables.TypeIP6Addr} {
		set := &nftables.Set{Table: table, Name: clusterSet(v4), KeyType: kind, Interval: true}
		if err := connection.AddSet(set, nil); err != nil {
			return err
		}
		for some := range slices.Chunk(wanted.elements(v4), someElements) {
			if err := connection.SetAddElements(set, some); err != nil {
				return err
			}
		}
		sets[v4] = set
	}
	chain := connection.AddChain(&nftables.Chain{
		Name: outgoingChain, Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, source := range wanted.sources {
		connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: masqueraded(source, sets[source.Addr().Is4()])})
	}
	return connection.Flush()
}

// masqueraded is the rule above.
func masqueraded(source netip.Prefix, cluster *nftables.Set) []expr.Any {
	v4 := source.Addr().Is4()
	from := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4}
	if !v4 {
		from.Offset, from.Len = 8, 16
	}
	return slices.Concat(
		ofFamily(familyOf(source.Addr())),
		[]expr.Any{
			from,
			&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: from.Len, Mask: mask(source), Xor: make([]byte, from.Len)},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: source.Masked().Addr().AsSlice()},
			destination(v4),
			&expr.Lookup{SourceRegister: 1, SetName: cluster.Name, SetID: cluster.ID, Invert: true},
			// Ports by chance: else two who ask at the same moment could be given the same one, and one of them would lose its packet.
			&expr.Masq{FullyRandom: true},
		})
}

// mask has a one where a prefix has something to say.
func mask(prefix netip.Prefix) []byte {
	ones := make([]byte, prefix.Addr().BitLen()/8)
	for bit := range prefix.Bits() {
		ones[bit/8] |= 0x80 >> (bit % 8)
	}
	return ones
}
