package host

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/escape"
)

// Describe writes what the kernel has in the network namespace we are in: devices with their addresses, routes of all tables and which rule asks which, and
// rulesets of nftables, in which those of iptables-nft stand, too. It is for people; parts that can't be read are told in their place.
func Describe(to io.Writer) error {
	var failed error
	for _, part := range []struct {
		title string
		write func(io.Writer) error
	}{{"devices", describeDevices}, {"rules of routing", describeRules}, {"routes", describeRoutes}, {"nftables", describeTables}} {
		escape.Fprintf(to, "# %s\n", part.title)
		if err := part.write(to); err != nil {
			escape.Fprintf(to, "%v\n", err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", part.title, err))
		}
		escape.Fprintln(to)
	}
	return failed
}

func describeDevices(to io.Writer) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		about := link.Attrs()
		escape.Fprintf(to, "%d: %s: %s mtu %d %s %s\n", about.Index, about.Name, link.Type(), about.MTU, about.OperState, about.Flags)
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, one := range addresses {
			escape.Fprintf(to, "    %s\n", one.IPNet)
		}
	}
	return nil
}

func describeRules(to io.Writer) error {
	rules, err := netlink.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, one := range rules {
		escape.Fprintln(to, one)
	}
	return nil
}

func describeRoutes(to io.Writer) error {
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	names := map[int]string{}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	for _, one := range routes {
		escape.Fprintln(to, routeText(one, names))
	}
	return nil
}

// routeText is a route in the words of ip(8).
func routeText(route netlink.Route, names map[int]string) string {
	to := "default"
	if !isDefault(route.Dst) {
		to = route.Dst.String()
	}
	words := []string{to}
	hop := func(gateway []byte, link int) {
		if via, is := netip.AddrFromSlice(gateway); is {
			words = append(words, "via", via.Unmap().String())
		}
		if link != 0 {
			words = append(words, "dev", names[link])
		}
	}
	if route.Type != unix.RTN_UNICAST {
		words = append(words, fmt.Sprintf("type %d", route.Type))
	}
	hop(route.Gw, route.LinkIndex)
	for _, one := range route.MultiPath {
		words = append(words, "nexthop")
		hop(one.Gw, one.LinkIndex)
	}
	words = append(words, fmt.Sprintf("proto %d table %d", int(route.Protocol), route.Table))
	if route.Src != nil {
		words = append(words, "src", route.Src.String())
	}
	if route.Priority != 0 {
		words = append(words, fmt.Sprintf("metric %d", route.Priority))
	}
	if route.MTU != 0 {
		words = append(words, fmt.Sprintf("mtu %d", route.MTU))
	}
	return strings.Join(words, " ")
}

func describeTables(to io.Writer) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	chains, err := connection.ListChains()
	if err != nil {
		return err
	}
	tables, err := connection.ListTables()
	if err != nil {
		return err
	}
	for _, table := range tables {
		escape.Fprintf(to, "table %s %s\n", familyWord(table.Family), table.Name)
		sets, err := connection.GetSets(table)
		if err != nil {
			return err
		}
		for _, set := range sets {
			elements, err := connection.GetSetElements(set)
			if err != nil {
				return err
			}
			escape.Fprintf(to, "  set %s: %d elements\n", set.Name, len(elements))
			for _, one := range elements[:min(len(elements), someElements)] {
				escape.Fprintf(to, "    %x%s\n", one.Key, map[bool]string{true: " (end)"}[one.IntervalEnd])
			}
		}
		for _, chain := range chains {
			if chain.Table.Name != table.Name || chain.Table.Family != table.Family {
				continue
			}
			escape.Fprintf(to, "  chain %s%s\n", chain.Name, baseText(chain))
			rules, err := connection.GetRules(table, chain)
			if err != nil {
				return err
			}
			for _, rule := range rules {
				escape.Fprintf(to, "    %s\n", ruleText(rule))
			}
		}
	}
	return nil
}

// baseText is where a chain of the kernel's own begins; empty: it is jumped to.
func baseText(chain *nftables.Chain) string {
	if chain.Hooknum == nil || chain.Priority == nil {
		return ""
	}
	policy := "accept"
	if chain.Policy != nil && *chain.Policy == nftables.ChainPolicyDrop {
		policy = "drop"
	}
	return fmt.Sprintf(": type %s hook %d priority %d policy %s", chain.Type, *chain.Hooknum, *chain.Priority, policy)
}

// ruleText is a rule as the kernel runs it, each expression by itself: text in bytes is told as text.
func ruleText(rule *nftables.Rule) string {
	var words []string
	for _, one := range rule.Exprs {
		name := strings.TrimPrefix(fmt.Sprintf("%T", one), "*expr.")
		switch one := one.(type) {
		case *expr.Cmp:
			words = append(words, fmt.Sprintf("%s(op %d, register %d, %s)", name, one.Op, one.Register, bytesText(one.Data)))
		case *expr.Bitwise:
			words = append(words, fmt.Sprintf("%s(register %d, mask %x, xor %x)", name, one.SourceRegister, one.Mask, one.Xor))
		case *expr.Immediate:
			words = append(words, fmt.Sprintf("%s(register %d, %x)", name, one.Register, one.Data))
		case *expr.Match:
			words = append(words, fmt.Sprintf("%s(%s %+v)", name, one.Name, one.Info))
		default:
			words = append(words, fmt.Sprintf("%s%s", name, strings.TrimPrefix(fmt.Sprintf("%+v", one), "&")))
		}
	}
	return strings.Join(words, " ")
}

func bytesText(data []byte) string {
	text := strings.TrimRight(string(data), "\x00")
	if len(text) > 1 && strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%x", data)
}
