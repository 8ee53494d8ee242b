package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// The list by which node and pods always reach each other.
const nodeList = Ours + "node"

// rules is a policy, and what becomes of it here.
type rules struct {
	object   *networking.NetworkPolicy
	selector labels.Selector
	// Pods of this node that it selects.
	selects map[*local]bool
	lists   map[direction]*quiver.Acl
	used    []*group
}

// local is a pod of this node. One that is made anew may be there beside the one before it, which had its name.
type local struct {
	key       types.NamespacedName
	uid       string
	addresses []netip.Addr
	// As they were last known, its own and its namespace's: it is guarded by them until it has gone from here, whatever the API server has
	// forgotten.
	labels, namespace labels.Set
	// Lists of tiers that it is asked about by.
	chains []*chain
}

// wanted is what all policies together want for the pods of this node, and what of it has changed since it was asked last.
type wanted struct {
	groups   *groups
	policies map[string]map[string]*rules
	// This node's pods, by namespace.
	here map[string]map[*local]bool
	node []netip.Addr
	// Policies of administrators.
	tiers *tiers

	acls      map[string]*quiver.Acl
	endpoints map[string]*quiver.Endpoint

	dirtyPolicies                 map[types.NamespacedName]bool
	dirtyPods                     map[*local]bool
	changedACLs, changedEndpoints map[string]bool
	problems                      map[types.NamespacedName][]string
}

func newWanted() *wanted {
	return &wanted{
		groups: newGroups(), policies: map[string]map[string]*rules{}, here: map[string]map[*local]bool{}, tiers: newTiers(),
		acls: map[string]*quiver.Acl{}, endpoints: map[string]*quiver.Endpoint{},
		dirtyPolicies: map[types.NamespacedName]bool{}, dirtyPods: map[*local]bool{},
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
		node := []string{address.String()}
		list.Rules = append(list.Rules,
			&quiver.AclRule{Name: "from-" + strconv.Itoa(i), Remark: "the node always reaches its pods", Action: quiver.AclAction_ACL_ACTION_REFLECT, Sources: node},
			&quiver.AclRule{Name: "to-" + strconv.Itoa(i), Remark: "pods always reach their node", Action: quiver.AclAction_ACL_ACTION_REFLECT, Destinations: node})
	}
	w.setACL(list.Name, list)
}

// find is a pod of this node; nil: it isn't here.
func (w *wanted) find(key types.NamespacedName, uid string) *local {
	for pod := range w.here[key.Namespace] {
		if pod.key == key && pod.uid == uid {
			return pod
		}
	}
	return nil
}

// setHere tells a pod's addresses on this node; none: it isn't here any more. The UID may be unknown.
func (w *wanted) setHere(key types.NamespacedName, uid string, addresses []netip.Addr) {
	pod := w.find(key, uid)
	switch {
	case pod == nil && len(addresses) == 0, pod != nil && slices.Equal(pod.addresses, addresses):
		return
	case pod == nil:
		pod = &local{key: key, uid: uid, namespace: w.groups.namespaces[key.Namespace]}
		if w.here[key.Namespace] == nil {
			w.here[key.Namespace] = map[*local]bool{}
		}
		w.here[key.Namespace][pod] = true
		if known := w.groups.pods[key.Namespace][key.Name]; known != nil && pod.is(known) {
			pod.labels = known.Labels
		}
	case len(addresses) == 0:
		if delete(w.here[key.Namespace], pod); len(w.here[key.Namespace]) == 0 {
			delete(w.here, key.Namespace)
		}
	}
	pod.addresses = slices.Clone(addresses)
	w.dirtyPods[pod] = true
}

// is tells whether that is what the API server says of it.
func (p *local) is(pod *Pod) bool { return p.uid == "" || pod.UID == "" || p.uid == pod.UID }

// setPod tells of a pod anywhere; nil: it is gone.
func (w *wanted) setPod(key types.NamespacedName, pod *Pod) {
	before := w.groups.pods[key.Namespace][key.Name]
	if before == pod || before != nil && pod != nil && before.equal(pod) {
		return
	}
	w.groups.setPod(key, pod)
	if pod != nil {
		w.setLabels(pod)
	}
}

// setLabels tells a pod of this node its labels.
func (w *wanted) setLabels(pod *Pod) {
	for here := range w.here[pod.Key.Namespace] {
		if here.key == pod.Key && here.is(pod) {
			here.labels = pod.Labels
			w.dirtyPods[here] = true
		}
	}
}

// setNamespace tells labels of a namespace; nil: it is gone.
func (w *wanted) setNamespace(name string, set labels.Set) {
	w.groups.setNamespace(name, set)
	if set == nil {
		return
	}
	for pod := range w.here[name] {
		pod.namespace = set
		w.dirtyPods[pod] = true
	}
}

// setPolicy tells of a policy; nil: it is gone.
func (w *wanted) setPolicy(key types.NamespacedName, policy *networking.NetworkPolicy) {
	known := w.policies[key.Namespace][key.Name]
	if known == nil {
		if policy == nil {
			return
		}
		known = &rules{selects: map[*local]bool{}}
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
		if isClusterwide(key) {
			w.subjects(key)
		} else {
			w.selects(key)
		}
	}
	for pod := range w.dirtyPods {
		w.selected(pod)
		w.isSubject(pod)
	}
	// Making one list may bring groups about, but has no other list's groups change.
	maps.Copy(w.dirtyPolicies, w.groups.renumbered)
	clear(w.groups.renumbered)
	for key := range w.dirtyPolicies {
		if isClusterwide(key) {
			w.compileTiered(key)
		} else {
			w.compile(key)
		}
	}
	// One that went comes first: another one may have come by its name and UID since, whose runtime made it anew.
	for _, here := range []bool{false, true} {
		for pod := range w.dirtyPods {
			if w.here[pod.key.Namespace][pod] == here {
				w.endpoint(pod)
			}
		}
	}
	w.link()
	clear(w.dirtyPolicies)
	clear(w.dirtyPods)
}

// selects finds the pods of this node that a policy selects, when the policy has changed.
func (w *wanted) selects(key types.NamespacedName) {
	policy := w.policies[key.Namespace][key.Name]
	before := policy.selects
	policy.selects = map[*local]bool{}
	if policy.object != nil {
		policy.selector = selectorOf(policy.object)
		for pod := range w.here[key.Namespace] {
			if policy.selector.Matches(pod.labels) {
				policy.selects[pod] = true
			}
		}
	}
	maps.Copy(w.dirtyPods, before)
	maps.Copy(w.dirtyPods, policy.selects)
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
func (w *wanted) selected(pod *local) {
	here := w.here[pod.key.Namespace][pod]
	for name, policy := range w.policies[pod.key.Namespace] {
		if policy.object == nil {
			continue
		}
		if turns(policy.selects, pod, here && policy.selector.Matches(pod.labels)) {
			w.dirtyPolicies[types.NamespacedName{Namespace: pod.key.Namespace, Name: name}] = true
		}
	}
}

// turns notes whether a policy selects a pod now, and says whether it begins or ceases to be for any by that.
func turns(selects map[*local]bool, pod *local, now bool) bool {
	if selects[pod] == now {
		return false
	}
	if now {
		selects[pod] = true
		return len(selects) == 1
	}
	delete(selects, pod)
	return len(selects) == 0
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
			maps.Copy(w.dirtyPods, policy.selects)
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
func (w *wanted) endpoint(pod *local) {
	of, reachesItself := names(pod.key, pod.uid)
	made := &quiver.Endpoint{Name: of}
	for _, policy := range w.policies[pod.key.Namespace] {
		if !policy.selects[pod] {
			continue
		}
		if list := policy.lists[ingress]; list != nil {
			made.IngressAcls = append(made.IngressAcls, list.Name)
		}
		if list := policy.lists[egress]; list != nil {
			made.EgressAcls = append(made.EgressAcls, list.Name)
		}
	}
	w.unchain(pod)
	if len(pod.addresses) > 0 {
		w.around(pod, ingress, &made.IngressAcls)
		w.around(pod, egress, &made.EgressAcls)
	}
	if len(pod.addresses) == 0 || made.IngressAcls == nil && made.EgressAcls == nil {
		w.setACL(reachesItself, nil)
		w.setEndpoint(made.Name, nil)
		return
	}
	// (In the order in which quiverd gives them back.)
	for _, address := range slices.SortedFunc(slices.Values(pod.addresses), netip.Addr.Compare) {
		made.Addresses = append(made.Addresses, address.String())
	}
	w.setACL(reachesItself, toItself(reachesItself, pod.addresses))
	for _, lists := range []*[]string{&made.IngressAcls, &made.EgressAcls} {
		if *lists != nil {
			*lists = append([]string{reachesItself}, *lists...)
		}
	}
	w.setEndpoint(made.Name, made)
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
