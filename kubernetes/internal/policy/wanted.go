package policy

import (
	"maps"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// Names of the list by which node and pods always reach each other.
const nodeList = Ours + "node"

// rules is a policy, and what becomes of it here.
type rules struct {
	object   *networking.NetworkPolicy
	selector labels.Selector
	// Pods of this node that it selects.
	selects map[string]bool
	lists   map[direction]*quiver.Acl
	used    []*group
}

// wanted is what all policies together want for the pods of this node, and what of it has changed since it was asked last.
type wanted struct {
	groups   *groups
	policies map[string]map[string]*rules
	// Addresses of this node's pods, by namespace and name.
	here map[string]map[string][]netip.Addr
	node []netip.Addr

	acls      map[string]*quiver.Acl
	endpoints map[string]*quiver.Endpoint

	dirtyPolicies, dirtyPods      map[types.NamespacedName]bool
	changedACLs, changedEndpoints map[string]bool
	problems                      map[types.NamespacedName][]string
}

func newWanted() *wanted {
	return &wanted{
		groups: newGroups(), policies: map[string]map[string]*rules{}, here: map[string]map[string][]netip.Addr{},
		acls: map[string]*quiver.Acl{}, endpoints: map[string]*quiver.Endpoint{},
		dirtyPolicies: map[types.NamespacedName]bool{}, dirtyPods: map[types.NamespacedName]bool{},
		changedACLs: map[string]bool{}, changedEndpoints: map[string]bool{}, problems: map[types.NamespacedName][]string{},
	}
}

// setNode tells the addresses that this node itself is seen with.
func (w *wanted) setNode(addresses []netip.Addr) {
	if slices.Equal(w.node, addresses) {
		return
	}
	w.node = slices.Clone(addresses)
	list := &quiver.Acl{Name: nodeList}
	for i, address := range addresses {
		prefix := []string{netip.PrefixFrom(address, address.BitLen()).String()}
		list.Rules = append(list.Rules,
			&quiver.AclRule{Name: "from-" + place(i), Remark: "the node always reaches its pods", Action: quiver.AclAction_ACL_ACTION_REFLECT, Sources: prefix},
			&quiver.AclRule{Name: "to-" + place(i), Remark: "pods always reach their node", Action: quiver.AclAction_ACL_ACTION_REFLECT, Destinations: prefix})
	}
	w.setACL(list.Name, list)
}

func place(i int) string { return string(rune('a' + i)) }

// setHere tells a pod's addresses on this node; none: it isn't here any more.
func (w *wanted) setHere(key types.NamespacedName, addresses []netip.Addr) {
	if slices.Equal(w.here[key.Namespace][key.Name], addresses) {
		return
	}
	if len(addresses) > 0 {
		if w.here[key.Namespace] == nil {
			w.here[key.Namespace] = map[string][]netip.Addr{}
		}
		w.here[key.Namespace][key.Name] = slices.Clone(addresses)
	} else if delete(w.here[key.Namespace], key.Name); len(w.here[key.Namespace]) == 0 {
		delete(w.here, key.Namespace)
	}
	w.dirtyPods[key] = true
}

// setPod tells of a pod anywhere; nil: it is gone.
func (w *wanted) setPod(key types.NamespacedName, pod *Pod) {
	w.groups.setPod(key, pod)
	if w.here[key.Namespace][key.Name] != nil {
		w.dirtyPods[key] = true
	}
}

// setPolicy tells of a policy; nil: it is gone.
func (w *wanted) setPolicy(key types.NamespacedName, policy *networking.NetworkPolicy) {
	known := w.policies[key.Namespace][key.Name]
	if known == nil {
		if policy == nil {
			return
		}
		known = &rules{selects: map[string]bool{}}
		if w.policies[key.Namespace] == nil {
			w.policies[key.Namespace] = map[string]*rules{}
		}
		w.policies[key.Namespace][key.Name] = known
	}
	known.object = policy
	w.dirtyPolicies[key] = true
}

// settle works out what all that means.
func (w *wanted) settle() {
	for key := range w.dirtyPolicies {
		w.selects(key)
	}
	for key := range w.dirtyPods {
		w.selected(key)
	}
	// Making one list may bring groups about, but has no other list's groups change.
	maps.Copy(w.dirtyPolicies, w.groups.renumbered)
	clear(w.groups.renumbered)
	for key := range w.dirtyPolicies {
		w.compile(key)
	}
	for key := range w.dirtyPods {
		w.endpoint(key)
	}
	clear(w.dirtyPolicies)
	clear(w.dirtyPods)
}

// selects finds the pods of this node that a policy selects, when the policy has changed.
func (w *wanted) selects(key types.NamespacedName) {
	policy := w.policies[key.Namespace][key.Name]
	before := policy.selects
	policy.selects = map[string]bool{}
	if policy.object != nil {
		policy.selector = selectorOf(policy.object)
		for pod := range w.here[key.Namespace] {
			if policy.selector.Matches(w.labels(types.NamespacedName{Namespace: key.Namespace, Name: pod})) {
				policy.selects[pod] = true
			}
		}
	}
	for _, pods := range []map[string]bool{before, policy.selects} {
		for pod := range pods {
			w.dirtyPods[types.NamespacedName{Namespace: key.Namespace, Name: pod}] = true
		}
	}
}

// selectorOf has a selector that can't be understood select everything: its pods are to be guarded.
func selectorOf(policy *networking.NetworkPolicy) labels.Selector {
	selector, err := meta.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return labels.Everything()
	}
	return selector
}

// selected finds the policies that select a pod of this node, when the pod has changed.
func (w *wanted) selected(key types.NamespacedName) {
	here := w.here[key.Namespace][key.Name] != nil
	of := w.labels(key)
	for name, policy := range w.policies[key.Namespace] {
		if policy.object == nil {
			continue
		}
		before, after := policy.selects[key.Name], here && policy.selector.Matches(of)
		if before == after {
			continue
		}
		if after {
			policy.selects[key.Name] = true
		} else {
			delete(policy.selects, key.Name)
		}
		if first := len(policy.selects) == 1 && after; first || len(policy.selects) == 0 {
			w.dirtyPolicies[types.NamespacedName{Namespace: key.Namespace, Name: name}] = true
		}
	}
}

// labels are those of a pod of this node.
func (w *wanted) labels(key types.NamespacedName) labels.Set {
	if pod := w.groups.pods[key.Namespace][key.Name]; pod != nil {
		return pod.Labels
	}
	return nil
}

// compile makes a policy's lists anew, where it selects any pod of this node.
func (w *wanted) compile(key types.NamespacedName) {
	policy := w.policies[key.Namespace][key.Name]
	if policy == nil {
		return
	}
	lists, used, problems := map[direction]*quiver.Acl(nil), []*group(nil), []string(nil)
	if policy.object != nil && len(policy.selects) > 0 {
		lists, used, problems = compile(w.groups, policy.object)
	}
	for _, group := range policy.used {
		if !slices.Contains(used, group) {
			w.groups.leave(group, key)
		}
	}
	for _, of := range []direction{ingress, egress} {
		if before, after := policy.lists[of], lists[of]; before != nil || after != nil {
			w.setACL(listName(key, of), after)
		}
		if (policy.lists[of] == nil) != (lists[of] == nil) {
			for pod := range policy.selects {
				w.dirtyPods[types.NamespacedName{Namespace: key.Namespace, Name: pod}] = true
			}
		}
	}
	policy.lists, policy.used = lists, used
	if len(problems) > 0 {
		w.problems[key] = problems
	} else {
		delete(w.problems, key)
	}
	if policy.object == nil {
		if delete(w.policies[key.Namespace], key.Name); len(w.policies[key.Namespace]) == 0 {
			delete(w.policies, key.Namespace)
		}
	}
}

func (w *wanted) setACL(name string, list *quiver.Acl) {
	if list == nil {
		if w.acls[name] != nil {
			delete(w.acls, name)
			w.changedACLs[name] = true
		}
	} else if !proto.Equal(w.acls[name], list) {
		w.acls[name] = list
		w.changedACLs[name] = true
	}
}

// endpoint says which lists are asked about a pod of this node.
func (w *wanted) endpoint(key types.NamespacedName) {
	name := name("pod:", key.Namespace+"."+key.Name, key.String())
	addresses := w.here[key.Namespace][key.Name]
	made := &quiver.Endpoint{Name: name}
	for _, policy := range w.policies[key.Namespace] {
		if !policy.selects[key.Name] {
			continue
		}
		if list := policy.lists[ingress]; list != nil {
			made.IngressAcls = append(made.IngressAcls, list.Name)
		}
		if list := policy.lists[egress]; list != nil {
			made.EgressAcls = append(made.EgressAcls, list.Name)
		}
	}
	itself := w.itself(key, addresses)
	if len(addresses) == 0 || made.IngressAcls == nil && made.EgressAcls == nil {
		w.setACL(itself.Name, nil)
		w.setEndpoint(name, nil)
		return
	}
	w.setACL(itself.Name, itself)
	for _, address := range addresses {
		made.Addresses = append(made.Addresses, address.String())
	}
	for _, lists := range []*[]string{&made.IngressAcls, &made.EgressAcls} {
		if *lists != nil {
			slices.Sort(*lists)
			*lists = append([]string{nodeList, itself.Name}, *lists...)
		}
	}
	w.setEndpoint(name, made)
}

// itself is the list by which a pod always reaches itself, by a Service say.
func (w *wanted) itself(key types.NamespacedName, addresses []netip.Addr) *quiver.Acl {
	list := &quiver.Acl{Name: name("self:", key.Namespace+"."+key.Name, key.String())}
	for _, address := range addresses {
		prefix := []string{netip.PrefixFrom(address, address.BitLen()).String()}
		list.Rules = append(list.Rules, &quiver.AclRule{Remark: "a pod always reaches itself", Action: quiver.AclAction_ACL_ACTION_REFLECT, Sources: prefix, Destinations: prefix})
	}
	return list
}

func (w *wanted) setEndpoint(name string, endpoint *quiver.Endpoint) {
	if endpoint == nil {
		if w.endpoints[name] != nil {
			delete(w.endpoints, name)
			w.changedEndpoints[name] = true
		}
	} else if !proto.Equal(w.endpoints[name], endpoint) {
		w.endpoints[name] = endpoint
		w.changedEndpoints[name] = true
	}
}
