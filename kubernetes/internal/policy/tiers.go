package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// Rest is the list of sessions about which no policy has said anything: all may be.
const Rest = Ours + "rest"

// tiers are the policies of administrators, before NetworkPolicies and behind them. All that are for a pod are one list for each tier and
// direction, since a rule may take a session past all further rules of its tier; pods for which the same ones are have the same list.
type tiers struct {
	policies map[types.NamespacedName]*tieredRulesHere
	// By the names of their lists.
	chains map[string]*chain
	// Pods whose last list is that of the rest.
	rest map[*local]bool
}

// tieredRulesHere is a policy, and what becomes of it here.
type tieredRulesHere struct {
	object  *clusterwide
	subject *selector
	// Pods of this node that it is for.
	selects map[*local]bool
	rules   map[direction][]*quiver.AclRule
	used    []*group
}

// chain is some policies' rules of one tier, one policy after the other.
type chain struct {
	list     string
	of       direction
	policies []types.NamespacedName
	users    map[*local]bool
	// A policy has other rules than before.
	dirty bool
}

func newTiers() *tiers {
	return &tiers{map[types.NamespacedName]*tieredRulesHere{}, map[string]*chain{}, map[*local]bool{}}
}

// setClusterwide tells of a policy of an administrator; nil: it is gone.
func (w *wanted) setClusterwide(key types.NamespacedName, policy *clusterwide) {
	known := w.tiers.policies[key]
	if known == nil {
		if policy == nil {
			return
		}
		known = &tieredRulesHere{selects: map[*local]bool{}}
		w.tiers.policies[key] = known
	}
	known.object = policy
	w.dirtyPolicies[key] = true
}

// subjects finds the pods of this node that a policy is for, when the policy has changed.
func (w *wanted) subjects(key types.NamespacedName) {
	policy := w.tiers.policies[key]
	before := policy.selects
	policy.selects, policy.subject = map[*local]bool{}, nil
	if policy.object != nil {
		// (What is wrong with it is told when it is compiled.)
		policy.subject, _ = subjectOf(policy.object)
	}
	for _, pods := range w.here {
		for pod := range pods {
			if policy.subject != nil && policy.subject.fits(pod.key.Namespace, pod.labels, pod.namespace) {
				policy.selects[pod] = true
			}
		}
	}
	maps.Copy(w.dirtyPods, before)
	maps.Copy(w.dirtyPods, policy.selects)
}

// isSubject finds the policies that are for a pod of this node, when the pod has changed.
func (w *wanted) isSubject(pod *local) {
	here := w.here[pod.key.Namespace][pod]
	for key, policy := range w.tiers.policies {
		now := here && policy.subject != nil && policy.subject.fits(pod.key.Namespace, pod.labels, pod.namespace)
		if turns(policy.selects, pod, now) {
			w.dirtyPolicies[key] = true
		}
	}
}

// compileTiered makes a policy's rules anew, where it is for any pod of this node.
func (w *wanted) compileTiered(key types.NamespacedName) {
	policy := w.tiers.policies[key]
	if policy == nil {
		return
	}
	rules, used, problems := map[direction][]*quiver.AclRule(nil), []*group(nil), []string(nil)
	if policy.object != nil && len(policy.selects) > 0 {
		rules, used, problems = compileTiered(w.groups, policy.object)
	} else if policy.object != nil && policy.subject == nil {
		problems = []string{checked(policy.object)}
	}
	for _, group := range policy.used {
		if !slices.Contains(used, group) {
			w.groups.leave(group, key)
		}
	}
	for _, of := range []direction{ingress, egress} {
		// A policy without rules of a direction is no part of a list, so pods may have another one now.
		if (len(policy.rules[of]) == 0) != (len(rules[of]) == 0) {
			maps.Copy(w.dirtyPods, policy.selects)
		}
	}
	policy.rules, policy.used = rules, used
	for _, chain := range w.tiers.chains {
		chain.dirty = chain.dirty || slices.Contains(chain.policies, key)
	}
	if len(problems) > 0 {
		w.problems[key] = problems
	} else {
		delete(w.problems, key)
	}
	if policy.object == nil {
		delete(w.tiers.policies, key)
	}
}

// around puts lists of tiers around those of NetworkPolicies, in the order in which they are asked. A NetworkPolicy decides about all that
// the tier before it lets through to it; without one the tier behind it does.
func (w *wanted) around(pod *local, of direction, lists *[]string) {
	admin := w.chained(pod, of, v1alpha2.AdminTier)
	own := *lists
	slices.Sort(own)
	baseline := []string(nil)
	if len(own) == 0 {
		baseline = w.chained(pod, of, v1alpha2.BaselineTier)
	}
	if len(admin)+len(own)+len(baseline) == 0 {
		return
	}
	switch {
	case of == ingress:
		*lists = slices.Concat([]string{nodeList}, admin, own, baseline)
	case len(own) > 0:
		// An administrator may keep pods from nodes, also from their own; a NetworkPolicy can't.
		*lists = slices.Concat(admin, []string{nodeList}, own)
	default:
		*lists = slices.Concat(admin, baseline)
	}
	if len(own) == 0 {
		*lists = append(*lists, Rest)
		w.tiers.rest[pod] = true
	}
}

// chained is the list of a tier that a pod is asked about by, if there is any.
func (w *wanted) chained(pod *local, of direction, tier v1alpha2.Tier) []string {
	var policies []*clusterwide
	for _, policy := range w.tiers.policies {
		if policy.object != nil && policy.object.spec.Tier == tier && policy.selects[pod] && len(policy.rules[of]) > 0 {
			policies = append(policies, policy.object)
		}
	}
	if len(policies) == 0 {
		return nil
	}
	slices.SortFunc(policies, func(a, b *clusterwide) int {
		return cmp.Or(cmp.Compare(a.spec.Priority, b.spec.Priority), cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	keys, whole := []types.NamespacedName(nil), []string{string(tier)}
	for _, policy := range policies {
		keys = append(keys, policy.key())
		whole = append(whole, policy.key().Name)
	}
	list := name(strings.ToLower(string(tier))+"-"+string(of), policies[0].name, strings.Join(whole, " "))
	known := w.tiers.chains[list]
	if known == nil {
		known = &chain{list: list, of: of, policies: keys, users: map[*local]bool{}, dirty: true}
		w.tiers.chains[list] = known
	}
	known.users[pod] = true
	pod.chains = append(pod.chains, known)
	return []string{list}
}

// unchain has a pod use no list of a tier any more.
func (w *wanted) unchain(pod *local) {
	for _, chain := range pod.chains {
		delete(chain.users, pod)
	}
	pod.chains = nil
	delete(w.tiers.rest, pod)
}

// link makes the lists of tiers that have changed.
func (w *wanted) link() {
	for name, chain := range w.tiers.chains {
		switch {
		case len(chain.users) == 0:
			delete(w.tiers.chains, name)
			w.setACL(name, nil)
		case chain.dirty:
			list := &quiver.Acl{Name: name}
			for i, key := range chain.policies {
				for _, rule := range w.tiers.policies[key].rules[chain.of] {
					own := proto.CloneOf(rule)
					// Policies number their rules alike.
					own.Name = fmt.Sprintf("%d.%s", i, rule.Name)
					list.Rules = append(list.Rules, own)
				}
			}
			w.setACL(name, list)
			chain.dirty = false
		}
	}
	if len(w.tiers.rest) == 0 {
		w.setACL(Rest, nil)
		return
	}
	w.setACL(Rest, &quiver.Acl{Name: Rest, DefaultAction: quiver.AclDefault_ACL_DEFAULT_REFLECT})
}

// chainsOf are the lists of a tier's that a policy is part of.
func (w *wanted) chainsOf(key types.NamespacedName) (lists []string) {
	for name, chain := range w.tiers.chains {
		if slices.Contains(chain.policies, key) {
			lists = append(lists, name)
		}
	}
	return lists
}
