package host

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// match is whether a packet is one of those that a rule is for.
type match int

const (
	no match = iota
	maybe
	yes
)

// What a rule does with packets.
type action int

const (
	nothing action = iota
	accepts
	drops
	jumps
	goes
	returns
)

// deed is that, and for jumps whereto.
type deed struct {
	kind  action
	chain string
}

// Flag of xt_conntrack: states are looked at.
const matchesState = 1

// Targets of iptables after which the next rule is asked.
var passedOn = []string{"LOG", "NFLOG", "MARK", "CONNMARK", "TCPMSS", "CT", "DSCP", "CLASSIFY", "TRACE", "SET"}

// packet is what expressions can load of one. What isn't there isn't known.
type packet struct {
	meta    map[expr.MetaKey][]byte
	ct      map[expr.CtKey][]byte
	network map[place][]byte
	state   uint32
}

// place is one in the header of IP.
type place struct{ offset, length uint32 }

func newPacket(of passing) packet {
	family, ether := byte(unix.NFPROTO_IPV6), uint16(unix.ETH_P_IPV6)
	if of.v4 {
		family, ether = unix.NFPROTO_IPV4, unix.ETH_P_IP
	}
	p := packet{
		meta: map[expr.MetaKey][]byte{
			expr.MetaKeyNFPROTO: {family}, expr.MetaKeyL4PROTO: {of.protocol}, expr.MetaKeyPROTOCOL: binary.BigEndian.AppendUint16(nil, ether),
		},
		// (It hasn't been translated: that comes behind, or was never asked for.)
		ct:      map[expr.CtKey][]byte{expr.CtKeySTATE: binary.NativeEndian.AppendUint32(nil, of.state), expr.CtKeySTATUS: make([]byte, 4)},
		network: map[place][]byte{{6, 1}: {of.protocol}},
		state:   of.state,
	}
	if of.v4 {
		p.network = map[place][]byte{{9, 1}: {of.protocol}}
	}
	for device, keys := range map[string][2]expr.MetaKey{of.in: {expr.MetaKeyIIFNAME, expr.MetaKeyIIF}, of.out: {expr.MetaKeyOIFNAME, expr.MetaKeyOIF}} {
		if device == "" {
			continue
		}
		p.meta[keys[0]] = nameOf(device)
		if index := indexOf(device); index != 0 {
			p.meta[keys[1]] = binary.NativeEndian.AppendUint32(nil, index)
		}
	}
	if of.source.IsValid() {
		p.at(source(of.v4), of.source.AsSlice())
	}
	if of.destination.IsValid() {
		p.at(destination(of.v4), of.destination.AsSlice())
	}
	return p
}

// at has it carry an address, of which iptables loads no more bytes than its prefixes have.
func (p packet) at(where *expr.Payload, address []byte) {
	for length := range where.Len {
		p.network[place{where.Offset, length + 1}] = address[:length+1]
	}
}

// meets tells whether the packet is one that a rule is for, and what that does with it. Expressions that the library doesn't know are missing: what was loaded
// is gone once it has been looked at, so that what another has loaded in its place isn't known.
func (w *walk) meets(rule *nftables.Rule) (matches match, does deed) {
	matches = yes
	registers := map[uint32][]byte{}
	for _, one := range rule.Exprs {
		is := yes
		switch one := one.(type) {
		case *expr.Meta:
			if !one.SourceRegister {
				registers[one.Register] = w.packet.meta[one.Key]
			}
		case *expr.Ct:
			if !one.SourceRegister {
				registers[one.Register] = w.packet.ct[one.Key]
			}
		case *expr.Payload:
			if one.OperationType == expr.PayloadLoad {
				registers[one.DestRegister] = nil
				if one.Base == expr.PayloadBaseNetworkHeader {
					registers[one.DestRegister] = w.packet.network[place{one.Offset, one.Len}]
				}
			}
		case *expr.Bitwise:
			registers[one.DestRegister] = masked(registers[one.SourceRegister], one)
		case *expr.Cmp:
			is = compared(registers[one.Register], one)
			delete(registers, one.Register)
		case *expr.Lookup:
			var found *nftables.SetElement
			is, found = w.among(registers[one.SourceRegister], one)
			delete(registers, one.SourceRegister)
			switch {
			case !one.IsDestRegSet:
			case one.DestRegister != unix.NFT_REG_VERDICT:
				registers[one.DestRegister] = nil
			case found != nil && len(found.Val) >= chainAt:
				does = verdict(mapped(found.Val))
			default:
				does = deed{kind: accepts}
			}
		case *expr.Match:
			is = w.packet.extended(one)
		case *expr.Target:
			switch {
			case one.Name == "REJECT":
				does = deed{kind: drops}
			case !slices.Contains(passedOn, one.Name):
				does = deed{kind: accepts}
			}
		case *expr.Reject:
			does = deed{kind: drops}
		case *expr.Queue:
			does = deed{kind: accepts}
		case *expr.Verdict:
			does = verdict(one)
		case *expr.Immediate:
			delete(registers, one.Register)
		case *expr.Counter, *expr.Log, *expr.FlowOffload:
		default:
			is = maybe
		}
		if matches = min(matches, is); matches == no {
			return no, deed{}
		}
	}
	return matches, does
}

func verdict(of *expr.Verdict) deed {
	switch of.Kind {
	case expr.VerdictDrop:
		return deed{kind: drops}
	case expr.VerdictJump:
		return deed{jumps, of.Chain}
	case expr.VerdictGoto:
		return deed{goes, of.Chain}
	case expr.VerdictReturn:
		return deed{kind: returns}
	case expr.VerdictContinue, expr.VerdictBreak:
		return deed{}
	}
	return deed{kind: accepts}
}

// Where, in what a map has for a value, attributes of netlink have the verdict's code and the chain to which it leads.
const codeAt, chainAt = 4, 8

// mapped is the verdict that a map has for a value.
func mapped(value []byte) *expr.Verdict {
	found := &expr.Verdict{Kind: expr.VerdictKind(int32(binary.BigEndian.Uint32(value[codeAt:])))}
	if name := value[chainAt:]; len(name) > 4 {
		found.Chain = string(bytes.Trim(name[4:], "\x00"))
	}
	return found
}

// masked is what is left of a value; nil: it isn't known.
func masked(value []byte, by *expr.Bitwise) []byte {
	if value == nil || len(by.Mask) != len(value) || len(by.Xor) != len(value) {
		return nil
	}
	result := make([]byte, len(value))
	for i := range value {
		result[i] = value[i]&by.Mask[i] ^ by.Xor[i]
	}
	return result
}

func compared(value []byte, with *expr.Cmp) match {
	// (Of names that may go on, the rule has the beginning.)
	if value == nil || len(with.Data) > len(value) || with.Op != expr.CmpOpEq && with.Op != expr.CmpOpNeq {
		return maybe
	}
	return matched(bytes.HasPrefix(value, with.Data) == (with.Op == expr.CmpOpEq))
}

func matched(is bool) match {
	if is {
		return yes
	}
	return no
}

// among tells whether a set has a value, or a map something for it, and which element that is.
func (w *walk) among(value []byte, in *expr.Lookup) (match, *nftables.SetElement) {
	elements, read := w.sets[in.SetName]
	if !read {
		set, err := w.connection.GetSetByName(w.chain.Table, in.SetName)
		if err == nil && !set.Interval && !set.Concatenation {
			if elements, err = w.connection.GetSetElements(set); err == nil && elements == nil {
				elements = []nftables.SetElement{}
			}
		}
		if err != nil {
			elements = nil
		}
		// (Nil: it can't be told what is in it.)
		w.sets[in.SetName] = elements
	}
	if value == nil || elements == nil || slices.ContainsFunc(elements, func(one nftables.SetElement) bool { return len(one.Key) != len(value) }) {
		return maybe, nil
	}
	at := slices.IndexFunc(elements, func(one nftables.SetElement) bool { return bytes.Equal(one.Key, value) })
	if at < 0 {
		return matched(in.Invert), nil
	}
	return matched(!in.Invert), &elements[at]
}

// extended is the answer of a match of iptables.
func (p packet) extended(by *expr.Match) match {
	switch info := by.Info.(type) {
	case *xt.Comment:
		return yes
	case *xt.ConntrackMtinfo3:
		if info.MatchFlags&matchesState == 0 {
			return maybe
		}
		if has := uint32(info.StateMask)&p.state != 0; has != (info.InvertFlags&matchesState == 0) {
			return no
		}
		if info.MatchFlags != matchesState {
			return maybe
		}
		return yes
	}
	return maybe
}
