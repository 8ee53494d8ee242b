package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// group is the pods that a selector means, as sets of addresses: one, or, where it names a port, one for each number that pods have under
// that name.
type group struct {
	selector *selector
	key      string
	// Policies that use it.
	users map[types.NamespacedName]bool
	// How many pods have each address: one, but for moments in which it passes from one to another.
	parts map[int32]map[netip.Addr]int
	// What parts are called.
	names map[int32]string
}

// set is what a part is called in the dataplane.
func (g *group) set(number int32) string {
	if known := g.names[number]; known != "" {
		return known
	}
	// (Names in the dataplane have no slash, as those of namespaces.)
	readable := strings.TrimPrefix(g.selector.namespace, "/")
	if g.selector.port != "" {
		readable += "." + g.selector.port
	}
	g.names[number] = name("set:", readable, g.key+" "+strconv.Itoa(int(number)))
	return g.names[number]
}

// numbers are those of its parts, in order.
func (g *group) numbers() []int32 { return slices.Sorted(maps.Keys(g.parts)) }

// groups knows all pods and namespaces, and keeps the groups that are in use.
type groups struct {
	namespaces map[string]labels.Set
	pods       map[string]map[string]*Pod
	inUse      map[string]*group
	// Groups by the namespace they are of; "": of several.
	scoped map[string]map[string]*group
	// Parts of groups by what they are called: the members of all sets that there are.
	sets map[string]map[netip.Addr]int

	// Sets whose members have changed, and policies whose groups have other numbers than before.
	changed    map[string]map[netip.Addr]bool
	renumbered map[types.NamespacedName]bool
}

func newGroups() *groups {
	return &groups{
		namespaces: map[string]labels.Set{}, pods: map[string]map[string]*Pod{}, inUse: map[string]*group{}, scoped: map[string]map[string]*group{},
		sets: map[string]map[netip.Addr]int{}, changed: map[string]map[netip.Addr]bool{}, renumbered: map[types.NamespacedName]bool{},
	}
}

// setNamespace tells labels of a namespace; nil: it is gone.
func (gs *groups) setNamespace(name string, set labels.Set) {
	before := gs.namespaces[name]
	for _, group := range gs.scoped[""] {
		had, has := group.selector.namespaces.Matches(before), group.selector.namespaces.Matches(set)
		if had == has {
			continue
		}
		for _, pod := range gs.pods[name] {
			if had && group.selector.matches(pod, before) {
				gs.count(group, pod, -1)
			} else if has && group.selector.matches(pod, set) {
				gs.count(group, pod, 1)
			}
		}
	}
	if set == nil {
		delete(gs.namespaces, name)
	} else {
		gs.namespaces[name] = set
	}
}

// setPod tells of a pod; with nil it is gone.
func (gs *groups) setPod(key types.NamespacedName, pod *Pod) {
	before, namespace := gs.pods[key.Namespace][key.Name], gs.namespaces[key.Namespace]
	for _, scope := range []string{key.Namespace, ""} {
		for _, group := range gs.scoped[scope] {
			// What comes is counted first: an address that stays isn't taken out in between.
			if pod != nil && group.selector.matches(pod, namespace) {
				gs.count(group, pod, 1)
			}
			if before != nil && group.selector.matches(before, namespace) {
				gs.count(group, before, -1)
			}
		}
	}
	if pod != nil {
		if gs.pods[key.Namespace] == nil {
			gs.pods[key.Namespace] = map[string]*Pod{}
		}
		gs.pods[key.Namespace][key.Name] = pod
	} else if delete(gs.pods[key.Namespace], key.Name); len(gs.pods[key.Namespace]) == 0 {
		delete(gs.pods, key.Namespace)
	}
}

// use is the group of a selector, which a policy uses from now on.
func (gs *groups) use(s *selector, user types.NamespacedName) *group {
	key := s.key()
	if known := gs.inUse[key]; known != nil {
		known.users[user] = true
		return known
	}
	made := &group{s, key, map[types.NamespacedName]bool{user: true}, map[int32]map[netip.Addr]int{}, map[int32]string{}}
	gs.inUse[key] = made
	if gs.scoped[s.namespace] == nil {
		gs.scoped[s.namespace] = map[string]*group{}
	}
	gs.scoped[s.namespace][key] = made
	if s.port == "" {
		// There is a set to name also while nobody is in it.
		gs.part(made, 0)
		gs.change(made.set(0))
	}
	for namespace, pods := range gs.pods {
		if s.namespace != "" && s.namespace != namespace {
			continue
		}
		for _, pod := range pods {
			if s.matches(pod, gs.namespaces[namespace]) {
				gs.count(made, pod, 1)
			}
		}
	}
	// Its user sees the numbers as they are.
	delete(gs.renumbered, user)
	return made
}

// leave has a policy use a group no more.
func (gs *groups) leave(group *group, user types.NamespacedName) {
	if delete(group.users, user); len(group.users) > 0 {
		return
	}
	delete(gs.inUse, group.key)
	delete(gs.scoped[group.selector.namespace], group.key)
	for number := range group.parts {
		delete(gs.sets, group.set(number))
		gs.change(group.set(number))
	}
}

// count has a pod be in a group, or be there no more.
func (gs *groups) count(group *group, pod *Pod, by int) {
	if group.selector.port == "" {
		gs.countPart(group, 0, pod.Addresses, by)
		return
	}
	for _, port := range pod.Ports {
		if port.Name == group.selector.port && port.Protocol == group.selector.protocol {
			gs.countPart(group, port.Number, pod.Addresses, by)
		}
	}
}

func (gs *groups) countPart(group *group, number int32, addresses []netip.Addr, by int) {
	if len(addresses) == 0 {
		return
	}
	part := group.parts[number]
	if part == nil {
		part = gs.part(group, number)
		gs.renumber(group)
	}
	set := group.set(number)
	changed := gs.change(set)
	for _, address := range addresses {
		before := part[address]
		if part[address] = before + by; part[address] == 0 {
			delete(part, address)
		}
		if (before == 0) != (before+by == 0) {
			changed[address] = true
		}
	}
	if len(part) == 0 && group.selector.port != "" {
		delete(group.parts, number)
		delete(gs.sets, set)
		gs.renumber(group)
	}
}

// change notes that a set isn't what quiverd has, and gives the members that have come or gone. What was noted before stays: a set that goes and
// comes again by one change may have lost members in between.
func (gs *groups) change(set string) map[netip.Addr]bool {
	if gs.changed[set] == nil {
		gs.changed[set] = map[netip.Addr]bool{}
	}
	return gs.changed[set]
}

func (gs *groups) renumber(group *group) {
	for user := range group.users {
		gs.renumbered[user] = true
	}
}

// part is a new one of a group.
func (gs *groups) part(group *group, number int32) map[netip.Addr]int {
	made := map[netip.Addr]int{}
	group.parts[number], gs.sets[group.set(number)] = made, made
	return made
}
