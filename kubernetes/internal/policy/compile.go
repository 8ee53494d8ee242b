package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// direction is one that a policy speaks of.
type direction string

const (
	ingress direction = "in:"
	egress  direction = "out:"
)

// mostSets are as many as quiverd takes at one side of a rule.
const mostSets = 1024

// directions are those in which a policy isolates the pods that it selects.
func directions(policy *networking.NetworkPolicy) (all []direction) {
	for _, kind := range policy.Spec.PolicyTypes {
		switch kind {
		case networking.PolicyTypeIngress:
			all = append(all, ingress)
		case networking.PolicyTypeEgress:
			all = append(all, egress)
		}
	}
	if len(policy.Spec.PolicyTypes) == 0 {
		// As the API server fills it in.
		if all = append(all, ingress); len(policy.Spec.Egress) > 0 {
			all = append(all, egress)
		}
	}
	return all
}

// listName is what a policy's list is called in the dataplane.
func listName(key types.NamespacedName, of direction) string {
	return name(string(of), key.Namespace+"."+key.Name, key.String())
}

// compiler makes one list.
type compiler struct {
	groups *groups
	key    types.NamespacedName
	of     direction
	// The pods that the policy selects.
	own      *selector
	list     *quiver.Acl
	used     []*group
	problems []string
}

// compile makes the lists of a policy by direction, and tells the groups that they use. What can't be understood permits nothing, and is told.
func compile(groups *groups, policy *networking.NetworkPolicy) (lists map[direction]*quiver.Acl, used []*group, problems []string) {
	key := types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}
	lists = map[direction]*quiver.Acl{}
	own, err := selecting(policy.Namespace, nil, &policy.Spec.PodSelector)
	for _, of := range directions(policy) {
		if err != nil {
			lists[of] = &quiver.Acl{Name: listName(key, of)}
			problems = []string{err.Error()}
			continue
		}
		c := &compiler{groups: groups, key: key, of: of, own: own, list: &quiver.Acl{Name: listName(key, of)}}
		if of == ingress {
			for i, rule := range policy.Spec.Ingress {
				c.rule(fmt.Sprintf("ingress-%d", i), rule.From, rule.Ports)
			}
		} else {
			for i, rule := range policy.Spec.Egress {
				c.rule(fmt.Sprintf("egress-%d", i), rule.To, rule.Ports)
			}
		}
		lists[of] = c.list
		used = append(used, c.used...)
		problems = append(problems, c.problems...)
	}
	return lists, used, problems
}

// others are some of those at the other end; nothing said: all.
type others struct {
	prefixes, except []netip.Prefix
	remark           string
	// Or pods.
	selectors []*selector
	// All pods and everybody else.
	all bool
}

// ports are some of those that are asked, by number; no protocol: all.
type ports struct {
	protocol core.Protocol
	numbers  []string
	// Or by name.
	name string
}

// rule adds one rule of a policy, which is several of a list.
func (c *compiler) rule(called string, peers []networking.NetworkPolicyPeer, asked []networking.NetworkPolicyPort) {
	n := 0
	for _, ports := range c.ports(called, asked) {
		for _, others := range c.others(called, peers) {
			for _, rule := range c.join(others, ports) {
				rule.Name = called + "." + strconv.Itoa(n)
				rule.Remark = others.remark
				rule.Action = quiver.AclAction_ACL_ACTION_REFLECT
				c.list.Rules = append(c.list.Rules, rule)
				n++
			}
		}
	}
}

// join makes the rules for some peers and some ports.
func (c *compiler) join(others others, ports ports) []*quiver.AclRule {
	protocol := strings.ToLower(string(ports.protocol))
	if ports.name == "" {
		return c.beside(&quiver.AclRule{Protocol: protocol, DestinationPorts: ports.numbers}, others)
	}
	// What a name stands for is the business of who is asked: those that have another number under it are another rule's.
	var rules []*quiver.AclRule
	if c.of == ingress {
		group := c.use(c.own.having(ports.name, ports.protocol))
		for _, number := range group.numbers() {
			rule := &quiver.AclRule{Protocol: protocol, DestinationPorts: []string{strconv.Itoa(int(number))}, DestinationSets: []string{group.set(number)}}
			rules = append(rules, c.beside(rule, others)...)
		}
		return rules
	}
	selectors := others.selectors
	if others.all {
		everybody, _ := selecting("", &meta.LabelSelector{}, nil)
		selectors = []*selector{everybody}
	}
	byNumber := map[int32][]string{}
	for _, selector := range selectors {
		group := c.use(selector.having(ports.name, ports.protocol))
		for _, number := range group.numbers() {
			byNumber[number] = append(byNumber[number], group.set(number))
		}
	}
	numbers := make([]int32, 0, len(byNumber))
	for number := range byNumber {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		for some := range slices.Chunk(unique(byNumber[number]), mostSets) {
			rules = append(rules, &quiver.AclRule{Protocol: protocol, DestinationPorts: []string{strconv.Itoa(int(number))}, DestinationSets: some})
		}
	}
	return rules
}

// beside completes a rule with who is at the other end. That are several rules where they are in more sets than one can have.
func (c *compiler) beside(rule *quiver.AclRule, others others) (rules []*quiver.AclRule) {
	sets := c.sets(others.selectors)
	if len(sets) <= mostSets {
		c.other(rule, others, sets)
		return []*quiver.AclRule{rule}
	}
	for some := range slices.Chunk(sets, mostSets) {
		one := proto.Clone(rule).(*quiver.AclRule)
		c.other(one, others, some)
		rules = append(rules, one)
	}
	return rules
}

// other says who is at the other end.
func (c *compiler) other(rule *quiver.AclRule, others others, sets []string) {
	if c.of == ingress {
		rule.Sources, rule.SourceExcept, rule.SourceSets = texts(others.prefixes), texts(others.except), sets
	} else {
		rule.Destinations, rule.DestinationExcept, rule.DestinationSets = texts(others.prefixes), texts(others.except), sets
	}
}

func (c *compiler) sets(selectors []*selector) (sets []string) {
	for _, selector := range selectors {
		sets = append(sets, c.use(selector).set(0))
	}
	return unique(sets)
}

func (c *compiler) use(selector *selector) *group {
	group := c.groups.use(selector, c.key)
	c.used = append(c.used, group)
	return group
}

// others reads peers: all that are pods are one, and so are blocks of a family but for those with exceptions.
func (c *compiler) others(called string, peers []networking.NetworkPolicyPeer) (all []others) {
	if len(peers) == 0 {
		return []others{{all: true, remark: "all"}}
	}
	var pods, v4, v6 others
	var remarks []string
	for i, peer := range peers {
		at := fmt.Sprintf("%s, peer %d", called, i)
		if peer.IPBlock == nil {
			selector, err := selecting(c.key.Namespace, peer.NamespaceSelector, peer.PodSelector)
			if err != nil {
				c.problems = append(c.problems, at+": "+err.Error())
				continue
			}
			pods.selectors = append(pods.selectors, selector)
			remarks = append(remarks, selector.String())
			continue
		}
		block, except, err := blockOf(peer.IPBlock)
		switch {
		case err != nil:
			c.problems = append(c.problems, at+": "+err.Error())
		case len(except) > 0:
			all = append(all, others{prefixes: []netip.Prefix{block}, except: except, remark: "ipBlock"})
		case block.Addr().Is4():
			v4.prefixes = append(v4.prefixes, block)
		default:
			v6.prefixes = append(v6.prefixes, block)
		}
	}
	if len(pods.selectors) > 0 {
		pods.remark = strings.Join(unique(remarks), "; ")
		all = append(all, pods)
	}
	for _, blocks := range []others{v4, v6} {
		if len(blocks.prefixes) > 0 {
			blocks.remark = "ipBlock"
			all = append(all, blocks)
		}
	}
	return all
}

func blockOf(block *networking.IPBlock) (prefix netip.Prefix, except []netip.Prefix, err error) {
	if prefix, err = netip.ParsePrefix(block.CIDR); err != nil {
		return prefix, nil, fmt.Errorf("ipBlock: %w", err)
	}
	for _, text := range block.Except {
		out, err := netip.ParsePrefix(text)
		if err != nil {
			return prefix, nil, fmt.Errorf("ipBlock: except: %w", err)
		}
		except = append(except, out.Masked())
	}
	return prefix.Masked(), except, nil
}

// texts are prefixes as quiverd gives them back, so that the two can be compared: in order, none twice, single addresses without a length.
func texts(prefixes []netip.Prefix) (all []string) {
	ordered := slices.SortedFunc(slices.Values(prefixes), netip.Prefix.Compare)
	for _, prefix := range slices.Compact(ordered) {
		if prefix.IsSingleIP() {
			all = append(all, prefix.Addr().String())
		} else {
			all = append(all, prefix.String())
		}
	}
	return all
}

// ports reads ports: all numbers of a protocol are one.
func (c *compiler) ports(called string, asked []networking.NetworkPolicyPort) (all []ports) {
	if len(asked) == 0 {
		return []ports{{}}
	}
	spans, named := map[core.Protocol][][2]int32{}, map[core.Protocol][]string{}
	for i, port := range asked {
		protocol := core.ProtocolTCP
		if port.Protocol != nil {
			protocol = orTCP(*port.Protocol)
		}
		switch {
		case port.Port == nil:
			spans[protocol] = append(spans[protocol], [2]int32{0, 65535})
		case port.Port.Type == intstr.Int:
			last := port.Port.IntVal
			if port.EndPort != nil {
				last = *port.EndPort
			}
			if port.Port.IntVal < 1 || last < port.Port.IntVal || last > 65535 {
				c.problems = append(c.problems, fmt.Sprintf("%s, port %d: %d-%d is no range of ports", called, i, port.Port.IntVal, last))
				continue
			}
			spans[protocol] = append(spans[protocol], [2]int32{port.Port.IntVal, last})
		default:
			named[protocol] = append(named[protocol], port.Port.StrVal)
		}
	}
	for _, protocol := range []core.Protocol{core.ProtocolTCP, core.ProtocolUDP, core.ProtocolSCTP} {
		if spans[protocol] != nil {
			all = append(all, ports{protocol: protocol, numbers: together(spans[protocol])})
		}
		for _, name := range unique(named[protocol]) {
			all = append(all, ports{protocol: protocol, name: name})
		}
	}
	return all
}

// together are ranges as quiverd takes them: none overlap. All ports are none said.
func together(spans [][2]int32) (texts []string) {
	slices.SortFunc(spans, func(a, b [2]int32) int { return int(a[0] - b[0]) })
	merged := spans[:1]
	for _, span := range spans[1:] {
		if last := &merged[len(merged)-1]; span[0] <= last[1]+1 {
			last[1] = max(last[1], span[1])
		} else {
			merged = append(merged, span)
		}
	}
	for _, span := range merged {
		switch {
		case span[0] == 0:
			return nil
		case span[0] == span[1]:
			texts = append(texts, strconv.Itoa(int(span[0])))
		default:
			texts = append(texts, fmt.Sprintf("%d-%d", span[0], span[1]))
		}
	}
	return texts
}

func unique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
