package host

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/pods"
)

const (
	// outgoingTable is the other table of nftables that is ours: "inet quiver-outgoing".
	outgoingTable = "quiver-outgoing"
	outgoingChain = "leaving"
	// Of addresses of the cluster; one for each family.
	clusterSet = "cluster"
)

// Outgoing has the kernel give what pods of the node send out of the cluster the node's own address, by which answers find back: the world outside
// has no way to addresses of pods. In the words of nft, for each of the node's ranges:
//
//	meta nfproto ipv4 ip saddr & 255.255.255.0 == 10.244.1.0 ip daddr != @cluster4 masquerade fully-random
//
// in a chain for what leaves; of both families, or of one. The sets hold all pods' ranges and all nodes' addresses. What is asked of a Service has got its backend's address
// before it comes here; answers go back as their connections came.
type Outgoing struct {
	// Families for which it is done, to begin with: see Translate.
	Families Families
	mutex    sync.Mutex
	table    kept
	// There has been something to translate.
	begun bool
}

// leaving says whose packets are translated, and for whom they aren't.
type leaving struct {
	sources []netip.Prefix
	// Ordered; none within another.
	cluster []netip.Prefix
	// Nothing is translated any more that begins. With the last rule that translates, the kernel would cease to do so for connections that there are, and
	// with that to know them: one stays that nothing comes to.
	stays bool
}

// leavingOf is what there is for a node beside others.
func leavingOf(self pods.Node, others []pods.Node, of Families) *leaving {
	sources := slices.DeleteFunc(slices.Clone(self.Ranges), func(prefix netip.Prefix) bool { return !of.Has(prefix.Addr()) })
	var all []netip.Prefix
	for _, node := range append(slices.Clone(others), self) {
		all = append(all, node.Ranges...)
		for _, address := range slices.Concat(node.Addresses, node.External) {
			all = append(all, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	return &leaving{sources: sources, cluster: disjoint(all)}
}

// Translate has it done for these families from now on: the next Bring does so. Connections that there are stay as they are.
func (o *Outgoing) Translate(families Families) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.Families = families
}

// Resume goes on from the table that an agent before has left. Where nothing is translated now, nothing is from here on that begins, and connections that
// there are stay as they are: the table goes only with WithdrawOutgoing.
func (o *Outgoing) Resume() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	there, err := tableIsThere(outgoingTable)
	if err != nil || !there {
		return err
	}
	o.begun = true
	if o.Families.Any() {
		return nil
	}
	return o.table.bring(&leaving{stays: true}, true)
}

// Bring has the kernel do it for this node beside others, whatever may have happened to the table.
func (o *Outgoing) Bring(self pods.Node, others []pods.Node) error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	wanted := leavingOf(self, others, o.Families)
	o.begun = o.begun || !wanted.empty()
	wanted.stays = o.begun && !o.Families.Any()
	if err := o.table.bring(wanted, true); err != nil {
		return fmt.Errorf("addresses of pods on their way out of the cluster, by nftables: %w (without it: --nat-outgoing=false)", err)
	}
	return nil
}

func (l *leaving) empty() bool { return len(l.sources) == 0 && !l.stays }

func (l *leaving) filled() *filled {
	sets := map[string]int{}
	for _, v4 := range []bool{true, false} {
		sets[familySet(clusterSet, v4)] = len(intervals(l.cluster, v4))
	}
	rules := len(l.sources)
	if l.stays {
		rules++
	}
	return &filled{outgoingTable, map[string]int{outgoingChain: rules}, sets}
}

// WithdrawOutgoing takes the table away, if there is one.
func WithdrawOutgoing() error { return withdrawTable(outgoingTable) }

func (l *leaving) fill(connection *nftables.Conn, table *nftables.Table) error {
	sets := map[bool]*nftables.Set{}
	for _, v4 := range []bool{true, false} {
		sets[v4] = &nftables.Set{Table: table, Name: familySet(clusterSet, v4), KeyType: ofAddresses(v4), Interval: true}
		if err := addSet(connection, sets[v4], intervals(l.cluster, v4)); err != nil {
			return err
		}
	}
	chain := connection.AddChain(&nftables.Chain{
		Name: outgoingChain, Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	if l.stays {
		connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(ofFamily(unix.NFPROTO_UNSPEC), &expr.Masq{FullyRandom: true})})
	}
	for _, source := range l.sources {
		connection.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: masqueraded(source, sets[source.Addr().Is4()], true)})
	}
	return nil
}

// masqueraded is the rule above, for what isn't for a set of addresses, or for what is.
func masqueraded(pods netip.Prefix, to *nftables.Set, isnt bool) []expr.Any {
	v4 := pods.Addr().Is4()
	return slices.Concat(
		ofFamily(familyOf(pods.Addr())),
		within(source(v4), pods),
		[]expr.Any{
			destination(v4),
			&expr.Lookup{SourceRegister: 1, SetName: to.Name, SetID: to.ID, Invert: isnt},
			// Ports by chance: else two who ask at the same moment could be given the same one, and one of them would lose its packet.
			&expr.Masq{FullyRandom: true},
		})
}

// within is what has a prefix where an address is loaded from.
func within(place *expr.Payload, prefix netip.Prefix) []expr.Any {
	return []expr.Any{
		place,
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: place.Len, Mask: mask(prefix), Xor: make([]byte, place.Len)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: prefix.Masked().Addr().AsSlice()},
	}
}

// mask has a one where a prefix has something to say.
func mask(prefix netip.Prefix) []byte {
	ones := make([]byte, prefix.Addr().BitLen()/8)
	for bit := range prefix.Bits() {
		ones[bit/8] |= 0x80 >> (bit % 8)
	}
	return ones
}
