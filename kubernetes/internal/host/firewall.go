package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/dataplane"
)

// passing is the first packet of a connection that the host's kernel shall forward.
type passing struct {
	// Devices that it comes and leaves by; empty: any.
	in, out string
	// Its addresses; not valid: any.
	source, destination netip.Addr
	v4                  bool
	protocol            byte
	// What conntrack has said of it.
	state uint32
}

func (p passing) String() string {
	family := "IPv6"
	if p.v4 {
		family = "IPv4"
	}
	text := family
	if p.in != "" {
		text += fmt.Sprintf(" from %q", p.in)
	}
	if p.out != "" {
		text += fmt.Sprintf(" to %q", p.out)
	}
	return text
}

// passings are examples of what the host forwards: what pods of these ranges send out and are asked from outside, and, with tunnels, what these have packed.
func passings(device, uplink string, ranges []netip.Prefix, tunnels bool) (all []passing) {
	for _, prefix := range ranges {
		// Its first address is the network's, its second one the router's.
		pod := prefix.Masked().Addr().Next().Next()
		one := passing{v4: pod.Is4(), protocol: unix.IPPROTO_TCP, state: expr.CtStateBitNEW}
		leaves, comes := one, one
		leaves.in, leaves.out, leaves.source = device, uplink, pod
		comes.in, comes.out, comes.destination = uplink, device, pod
		all = append(all, leaves, comes)
	}
	if tunnels {
		one := passing{v4: true, protocol: unix.IPPROTO_UDP, state: expr.CtStateBitUNTRACKED}
		leaves, comes := one, one
		leaves.in, leaves.out = dataplane.UnderlayDevice, uplink
		comes.in, comes.out = uplink, dataplane.UnderlayDevice
		all = append(all, leaves, comes)
	}
	return all
}

// refusedByFirewall is nil unless chains of nftables, where those of iptables-nft are as well, drop what the kernel shall forward for pods. Whatever they may
// let pass, by something that isn't looked at here, counts as let pass: no warning is wrong, and what firewalls do beyond that they may have been told to.
func refusedByFirewall(all []passing) (failed error) {
	connection, err := nftables.New()
	if err != nil {
		return nil
	}
	chains, err := connection.ListChains()
	if err != nil {
		// A kernel without nftables has none.
		return nil
	}
	for _, chain := range chains {
		if chain.Hooknum == nil || *chain.Hooknum != *nftables.ChainHookForward || strings.HasPrefix(chain.Table.Name, "quiver-") {
			continue
		}
		read := ruleset{connection: connection, rules: map[string][]*nftables.Rule{}, sets: map[string][]nftables.SetElement{}}
		for _, one := range all {
			if !covers(chain.Table.Family, one.v4) {
				continue
			}
			walk := walk{ruleset: read, packet: newPacket(one), chain: chain}
			if walk.refuses() {
				failed = errors.Join(failed, fmt.Errorf("the host's firewall drops %s: chain %s of table %s %s: let it pass there, by `nft insert rule %[3]s %s %s %s accept`, or as the firewall is set up",
					one, chain.Name, familyWord(chain.Table.Family), chain.Table.Name, chain.Name, one.rule()))
			}
		}
	}
	return failed
}

// rule is what one lets pass of that.
func (p passing) rule() string {
	var words []string
	if p.in != "" {
		words = append(words, fmt.Sprintf("iifname %q", p.in))
	}
	if p.out != "" {
		words = append(words, fmt.Sprintf("oifname %q", p.out))
	}
	return strings.Join(words, " ")
}

func covers(family nftables.TableFamily, v4 bool) bool {
	return family == nftables.TableFamilyINet || family == nftables.TableFamilyIPv4 && v4 || family == nftables.TableFamilyIPv6 && !v4
}

func familyWord(family nftables.TableFamily) string {
	switch family {
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	}
	return "inet"
}

// ruleset is what has been read of a table.
type ruleset struct {
	connection *nftables.Conn
	rules      map[string][]*nftables.Rule
	sets       map[string][]nftables.SetElement
}

// fate of a packet, as far as it is known.
type fate int

const (
	// goesOn: nothing decided yet.
	goesOn fate = iota
	// mayPass: something accepts it, or may.
	mayPass
	// isDropped for certain.
	isDropped
)

// Jumps are at most so deep (NFT_JUMP_STACK_SIZE).
const deepest = 16

// walk is the way of a packet through a base chain and those that it jumps to.
type walk struct {
	ruleset
	packet packet
	chain  *nftables.Chain
}

func (w *walk) refuses() bool {
	if chain := w.through(w.chain.Name, 0); chain != goesOn {
		return chain == isDropped
	}
	return w.chain.Policy != nil && *w.chain.Policy == nftables.ChainPolicyDrop
}

// through is what becomes of the packet in a chain.
func (w *walk) through(chain string, depth int) fate {
	rules, read := w.rules[chain]
	if !read {
		var err error
		if rules, err = w.connection.GetRules(w.chain.Table, &nftables.Chain{Name: chain, Table: w.chain.Table}); err != nil {
			return mayPass
		}
		w.rules[chain] = rules
	}
	if depth > deepest {
		return mayPass
	}
	// It may have left the chain: what comes behind counts only if the one it came from says the same.
	left := false
	for _, rule := range rules {
		matches, does := w.meets(rule)
		if matches == no {
			continue
		}
		found := goesOn
		switch does.kind {
		case accepts:
			return mayPass
		case drops:
			found = isDropped
		case jumps, goes:
			found = w.through(does.chain, depth+1)
		}
		switch {
		case found == mayPass:
			return mayPass
		case found == isDropped && matches == yes:
			if left {
				return goesOn
			}
			return isDropped
		case does.kind == returns || does.kind == goes && found == goesOn:
			if matches == yes {
				return goesOn
			}
			left = true
		}
	}
	return goesOn
}

// nameOf is a device's as the kernel compares it.
func nameOf(device string) []byte {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, device)
	return name
}

// indexOf is a device's number; 0: it isn't there.
func indexOf(device string) uint32 {
	found, err := net.InterfaceByName(device)
	if err != nil {
		return 0
	}
	return uint32(found.Index)
}
