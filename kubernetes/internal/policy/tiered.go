package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// subjectOf reads whom a policy is for.
func subjectOf(policy *clusterwide) (*selector, error) {
	s, err := podsOf(policy.spec.Subject.Namespaces, policy.spec.Subject.Pods)
	if err != nil {
		return nil, fmt.Errorf("subject: %w: it is for nobody", err)
	}
	return s, nil
}

// podsOf reads the two ways to name pods of several namespaces.
func podsOf(namespaces *meta.LabelSelector, pods *v1alpha2.NamespacedPod) (*selector, error) {
	switch {
	case namespaces != nil:
		return selecting("", namespaces, nil)
	case pods != nil:
		return selecting("", &pods.NamespaceSelector, &pods.PodSelector)
	}
	return nil, fmt.Errorf("neither namespaces nor pods")
}

// otherEnd is a peer of either direction.
type otherEnd = v1alpha2.ClusterNetworkPolicyEgressPeer

// tiered is a rule of either direction.
type tiered struct {
	name      string
	action    v1alpha2.ClusterNetworkPolicyRuleAction
	peers     []otherEnd
	protocols []v1alpha2.ClusterNetworkPolicyProtocol
}

// tieredRules are a policy's rules of one direction, in order.
func tieredRules(policy *clusterwide, of direction) (rules []tiered) {
	if of == egress {
		for _, rule := range policy.spec.Egress {
			rules = append(rules, tiered{rule.Name, rule.Action, rule.To, rule.Protocols})
		}
		return rules
	}
	for _, rule := range policy.spec.Ingress {
		made := tiered{name: rule.Name, action: rule.Action, protocols: rule.Protocols}
		for _, peer := range rule.From {
			made.peers = append(made.peers, otherEnd{Namespaces: peer.Namespaces, Pods: peer.Pods})
		}
		rules = append(rules, made)
	}
	return rules
}

// compileTiered makes the rules of a cluster-wide policy by direction, and tells the groups that they use. A rule that can't be understood
// accepts nobody, or, if it doesn't accept, denies all: that is what the API asks for. It is told.
func compileTiered(groups *groups, policy *clusterwide) (rules map[direction][]*quiver.AclRule, used []*group, problems []string) {
	own, err := subjectOf(policy)
	if err != nil {
		return nil, nil, []string{err.Error()}
	}
	rules = map[direction][]*quiver.AclRule{}
	for _, of := range []direction{ingress, egress} {
		for i, rule := range tieredRules(policy, of) {
			called := fmt.Sprintf("%s-%d", said[of], i)
			c := &compiler{groups: groups, key: policy.key(), of: of, own: own, list: &quiver.Acl{}}
			made := c.tiered(called, rule)
			for n, one := range made {
				one.Name = called + "." + strconv.Itoa(n)
				one.Remark = rule.remark(policy, called)
			}
			rules[of] = append(rules[of], made...)
			used = append(used, c.used...)
			problems = append(problems, c.problems...)
		}
	}
	return rules, used, problems
}

// said are the words for directions.
var said = map[direction]string{ingress: "ingress", egress: "egress"}

// remark says whose rule it is: what is asked of a tier is one list, whoever wrote it.
func (r tiered) remark(policy *clusterwide, called string) string {
	text := called + " of " + policy.kind + " " + policy.name
	if r.name != "" {
		text += fmt.Sprintf(" (%s)", r.name)
	}
	return text
}

// tiered makes one rule, which is several of a list.
func (c *compiler) tiered(called string, rule tiered) (rules []*quiver.AclRule) {
	verdict := quiver.AclAction_ACL_ACTION_DENY
	switch rule.action {
	case v1alpha2.ClusterNetworkPolicyRuleActionAccept:
		verdict = quiver.AclAction_ACL_ACTION_REFLECT
	case v1alpha2.ClusterNetworkPolicyRuleActionPass:
		verdict = quiver.AclAction_ACL_ACTION_NEXT
	case v1alpha2.ClusterNetworkPolicyRuleActionDeny:
	default:
		c.problems = append(c.problems, fmt.Sprintf("%s: action %q isn't known", called, rule.action))
	}
	all := c.otherEnds(called, rule)
	ports := c.protocols(called, rule.protocols)
	if len(c.problems) > 0 {
		if verdict == quiver.AclAction_ACL_ACTION_REFLECT {
			c.problems = append(c.problems, called+" accepts nobody")
			return nil
		}
		c.problems = append(c.problems, called+" denies all")
		return []*quiver.AclRule{{Action: quiver.AclAction_ACL_ACTION_DENY}}
	}
	for _, ports := range ports {
		for _, others := range all {
			for _, made := range c.join(others, ports) {
				made.Action = verdict
				rules = append(rules, made)
			}
		}
	}
	return rules
}

// otherEnds reads peers: all that have names in the cluster are one, and so are networks of a family.
func (c *compiler) otherEnds(called string, rule tiered) (all []others) {
	var named, v4, v6 others
	for i, peer := range rule.peers {
		problem := func(err error) { c.problems = append(c.problems, fmt.Sprintf("%s, peer %d: %v", called, i, err)) }
		switch {
		case peer.Nodes != nil:
			// (The API server refuses names of ports there.)
			selector, err := selecting(nodesNamespace, nil, peer.Nodes)
			if err != nil {
				problem(err)
				continue
			}
			named.selectors = append(named.selectors, selector)
		case len(peer.Networks) > 0:
			for _, text := range peer.Networks {
				prefix, err := netip.ParsePrefix(string(text))
				switch {
				case err != nil:
					problem(fmt.Errorf("networks: %w", err))
				case prefix.Addr().Is4():
					v4.prefixes = append(v4.prefixes, prefix.Masked())
				default:
					v6.prefixes = append(v6.prefixes, prefix.Masked())
				}
			}
		case len(peer.DomainNames) > 0:
			problem(fmt.Errorf("domainNames aren't supported: say networks"))
		default:
			selector, err := podsOf(peer.Namespaces, peer.Pods)
			if err != nil {
				problem(err)
				continue
			}
			named.selectors = append(named.selectors, selector)
		}
	}
	if len(rule.peers) == 0 {
		c.problems = append(c.problems, called+": no peers")
	}
	if len(named.selectors) > 0 {
		all = append(all, named)
	}
	for _, networks := range []others{v4, v6} {
		if len(networks.prefixes) > 0 {
			all = append(all, networks)
		}
	}
	return all
}

// protocols reads what is asked for: none said is everything.
func (c *compiler) protocols(called string, asked []v1alpha2.ClusterNetworkPolicyProtocol) (all []ports) {
	if len(asked) == 0 {
		return []ports{{}}
	}
	spans := map[core.Protocol][][2]int32{}
	var names []string
	for i, one := range asked {
		span := func(protocol core.Protocol, port *v1alpha2.Port) {
			first, last := int32(0), int32(65535)
			switch {
			case port == nil:
			case port.Range != nil:
				first, last = port.Range.Start, port.Range.End
			default:
				first, last = port.Number, port.Number
			}
			if port != nil && (first < 1 || last < first || last > 65535) {
				c.problems = append(c.problems, fmt.Sprintf("%s, protocol %d: %d-%d is no range of ports", called, i, first, last))
				return
			}
			spans[protocol] = append(spans[protocol], [2]int32{first, last})
		}
		switch {
		case one.TCP != nil:
			span(core.ProtocolTCP, one.TCP.DestinationPort)
		case one.UDP != nil:
			span(core.ProtocolUDP, one.UDP.DestinationPort)
		case one.SCTP != nil:
			span(core.ProtocolSCTP, one.SCTP.DestinationPort)
		case one.DestinationNamedPort != "":
			names = append(names, one.DestinationNamedPort)
		default:
			c.problems = append(c.problems, fmt.Sprintf("%s, protocol %d: none of tcp, udp, sctp and destinationNamedPort", called, i))
		}
	}
	names = unique(names)
	for _, protocol := range []core.Protocol{core.ProtocolTCP, core.ProtocolUDP, core.ProtocolSCTP} {
		if spans[protocol] != nil {
			all = append(all, ports{protocol: protocol, numbers: together(spans[protocol])})
		}
		// A name is one of a port of whatever protocol.
		for _, name := range names {
			all = append(all, ports{protocol: protocol, name: name})
		}
	}
	return all
}

// checked tells what of a policy can't be as it says, whatever there is in the cluster.
func checked(policy *clusterwide) string {
	_, _, problems := compileTiered(newGroups(), policy)
	return strings.Join(problems, "; ")
}
