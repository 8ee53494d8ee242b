package inspect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/policy"
)

// end is one of a session.
type end struct {
	addresses []netip.Addr
	// Node on which it is, if it is a pod.
	node string
	// Pod that was named, "namespace/name"; empty: none was.
	pod string
	// Why nobody has its addresses any more; empty: somebody may.
	gone string
}

// Explain asks the nodes of both ends what becomes of a session. An end is a pod, "pod" or "namespace/pod", or an address; one at
// least must be a pod, by name or by its address, unless a Service is asked. The protocol is "tcp/80", or alone. Who is asked may be a
// Service, "svc/name" or "svc/namespace/name", with a port of it behind a colon, by number or name: then the protocol may be empty, and the
// sender be a host or somebody outside of the cluster. So it may where a Service, or a pod by a port of its node, answers at an address.
func (c *Cluster) Explain(ctx context.Context, from, to, protocol string) ([]Verdict, error) {
	whole := ctx
	// (A Service may have many endpoints, and each is asked about.)
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	all, err := c.explain(ctx, from, to, protocol)
	if whole.Err() != nil {
		// Whoever has enough wants no verdicts of what wasn't asked.
		return nil, whole.Err()
	}
	c.nameWhole(whole, all)
	return all, err
}

func (c *Cluster) explain(ctx context.Context, from, to, protocol string) ([]Verdict, error) {
	if _, is := serviceNamed(from); is {
		return nil, fmt.Errorf("%s is a Service, which begins no session: name a pod behind it", from)
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	ask := asker(func(node string, words ...string) ([]byte, error) {
		if ctx.Err() != nil {
			return nil, errors.New("no time was left to ask it")
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return c.callAmong(ctx, nodes, node, inJSON(words)...)
	}).remembering()
	return c.explainOn(ctx, from, to, protocol, nodes, ask)
}

// explainOn does so with these nodes.
func (c *Cluster) explainOn(ctx context.Context, from, to, protocol string, nodes []Node, ask asker) ([]Verdict, error) {
	asked, isService := serviceNamed(to)
	wanted, err := readSession(protocol, to)
	if err != nil {
		return nil, err
	}
	sender, err := c.end(ctx, from)
	if err != nil {
		return nil, err
	}
	if sender = sender.found(nodes); isService {
		all, err := c.explainService(ctx, sender, asked, protocol, nodes, ask)
		sender.without(all, ask)
		return all, err
	}
	receiver, err := c.end(ctx, to)
	if err != nil {
		return nil, err
	}
	if sender, err = wanted.narrow(sender, from); err != nil {
		return nil, err
	}
	if receiver, err = wanted.narrow(receiver.found(nodes), to); err != nil {
		return nil, err
	}
	if receiver.node == "" {
		all, err := c.explainAddress(ctx, sender, receiver.addresses[0], wanted, nodes, ask)
		sender.without(all, ask)
		return all, err
	}
	if sender, err = sender.behindTunnel(receiver, nodes, ask); err != nil {
		because := fmt.Sprintf("as whom it sees the sender isn't known: %v", err)
		return []Verdict{{From: sender.addresses[0], To: receiver.addresses[0], Node: receiver.node, Unknown: true, Because: because}}, nil
	}
	all, err := explain(sender, receiver, protocol, ask)
	receiver.without(all, ask)
	sender.without(all, ask)
	return all, err
}

// nameWhole has verdicts name policies whose names are too long for those of their lists. Who may not read policies is left with the beginnings.
func (c *Cluster) nameWhole(ctx context.Context, all []Verdict) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for namespace := range cutOff(all) {
		policies, err := c.policies.NetworkPolicies(namespace).List(ctx, meta.ListOptions{})
		if err != nil {
			continue
		}
		names := map[string]types.NamespacedName{}
		for _, one := range policies.Items {
			key := types.NamespacedName{Namespace: one.Namespace, Name: one.Name}
			for _, list := range policy.ListNames(key) {
				names[list] = key
			}
		}
		rename(all, names)
	}
}

// cutOff are the namespaces of policies whose names have an end that isn't known.
func cutOff(all []Verdict) map[string]bool {
	namespaces := map[string]bool{}
	for _, one := range all {
		if one.said == nil {
			continue
		}
		for _, step := range one.said.Steps {
			if key, whole, is := policy.Listed(step.ACL); is && !whole {
				if key.Name == "" {
					// The namespace's own may be cut off.
					key.Namespace = core.NamespaceAll
				}
				namespaces[key.Namespace] = true
			}
		}
	}
	return namespaces
}

// rename has verdicts name policies by what their lists are called.
func rename(all []Verdict, names map[string]types.NamespacedName) {
	for i := range all {
		said := all[i].said
		if said == nil {
			continue
		}
		for list, key := range names {
			if said.names == nil {
				said.names = map[string]types.NamespacedName{}
			}
			said.names[list] = key
		}
		all[i].Because = said.because()
	}
}

// behindTunnel is the same end as the receiver's node sees it: a host has the first address of its pods' range in tunnels.
func (e end) behindTunnel(receiver end, nodes []Node, ask asker) (end, error) {
	if e.node != "" || receiver.node == "" {
		return e, nil
	}
	for _, node := range nodes {
		if node.Pod == nil || node.uninstalls() || node.Name == receiver.node || !slices.Contains(node.Addresses, e.addresses[0]) {
			continue
		}
		var found struct {
			Objects []struct {
				Object struct {
					Route struct {
						Prefix   netip.Prefix
						NextHops []struct{ Interface string } `json:"next_hops"`
					}
				}
			}
		}
		if err := read(&found, ask.of(node.Name), "get", "route"); err != nil {
			return e, fmt.Errorf("node %s: %w", node.Name, err)
		}
		seen := end{}
		for _, entry := range found.Objects {
			route := entry.Object.Route
			through := slices.ContainsFunc(route.NextHops, func(hop struct{ Interface string }) bool { return dataplane.IsTunnel(hop.Interface) })
			if !through || !slices.ContainsFunc(receiver.addresses, route.Prefix.Contains) {
				continue
			}
			for _, own := range node.Ranges {
				if own.Addr().Is4() == route.Prefix.Addr().Is4() && own.Addr().Is4() == e.addresses[0].Is4() {
					seen.addresses = append(seen.addresses, dataplane.HostAddress(own))
				}
			}
		}
		if seen.addresses != nil {
			return seen, nil
		}
	}
	return e, nil
}

// found is the same end on its node, if it is the address of a pod.
func (e end) found(nodes []Node) end {
	for _, node := range nodes {
		for _, prefix := range node.Ranges {
			if e.node == "" && prefix.Contains(e.addresses[0]) {
				e.node = node.Name
			}
		}
	}
	return e
}

// end finds one.
func (c *Cluster) end(ctx context.Context, text string) (end, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return end{addresses: []netip.Addr{address.Unmap()}}, nil
	}
	namespace, name, is := strings.Cut(text, "/")
	if !is {
		namespace, name = core.NamespaceDefault, text
	}
	pod, err := c.client.Pods(namespace).Get(ctx, name, meta.GetOptions{})
	if api.IsNotFound(err) {
		return end{}, c.noPod(ctx, namespace, name, is)
	}
	if err != nil {
		return end{}, err
	}
	if pod.Spec.HostNetwork {
		var its []string
		for _, one := range pod.Status.HostIPs {
			its = append(its, one.IP)
		}
		text := fmt.Sprintf("pod %s/%s has the network of its node, %s, not one of Quiver's; where it is the other end, give the node's address", namespace, name, pod.Spec.NodeName)
		if its != nil {
			text += ": " + strings.Join(its, " or ")
		}
		return end{}, errors.New(text)
	}
	return addressesOf(pod)
}

// noPod says that a pod isn't there, and what else is called so: a Service, or, where no namespace is said, a node.
func (c *Cluster) noPod(ctx context.Context, namespace, name string, said bool) error {
	text := fmt.Sprintf("there is no pod %s in namespace %s", name, namespace)
	service := "svc/" + namespace + "/" + name
	if !said {
		service = "svc/" + name
		if node, err := c.client.Nodes().Get(ctx, name, meta.GetOptions{}); err == nil {
			var its []string
			for _, one := range nodeOf(node, nil).Addresses {
				its = append(its, one.String())
			}
			return fmt.Errorf("%s; %s is a node: where it is the other end, give its address: %s", text, name, strings.Join(its, " or "))
		}
	}
	if _, err := c.client.Services(namespace).Get(ctx, name, meta.GetOptions{}); err == nil {
		return fmt.Errorf("%s; there is a Service of that name: say %s", text, service)
	}
	if !said {
		text += "; one of another namespace is NAMESPACE/" + name
	}
	return errors.New(text)
}

func explain(from, to end, protocol string, ask asker) ([]Verdict, error) {
	nodes := slices.Compact([]string{from.node, to.node})
	nodes = slices.DeleteFunc(nodes, func(node string) bool { return node == "" })
	if len(nodes) == 0 {
		return nil, errors.New("neither end is a pod: policies are about pods")
	}
	var finds []func() []Verdict
	for _, sender := range from.addresses {
		for _, receiver := range to.addresses {
			if sender.Is4() != receiver.Is4() {
				continue
			}
			for _, node := range nodes {
				finds = append(finds, func() []Verdict { return []Verdict{judged(ask, node, sender, receiver, protocol)} })
			}
		}
	}
	if finds == nil {
		return nil, errors.New("the two have no addresses of the same family")
	}
	return together(finds), nil
}

// judged is what the policies on a node say.
func judged(ask asker, node string, from, to netip.Addr, protocol string) Verdict {
	var said answer
	one := Verdict{From: from, To: to, Node: node}
	if err := read(&said, ask.of(node), "show", "acl", "--match", from.String(), to.String(), protocol); err != nil {
		return one.notAsked(err)
	}
	one.Passes, one.Because, one.said = said.Verdict == "passes", said.because(), &said
	return one
}

// answer is what `quiver show acl --match` says.
type answer struct {
	Verdict string
	Steps   []step
	// Policies by their lists, where these don't tell their whole names.
	names map[string]types.NamespacedName
}

type step struct {
	Place, ACL, Action string
	Answers            bool
	Rule               *struct{ Rule struct{ Name, Remark string } }
}

// because says for egress and for ingress who decides.
func (a answer) because() string {
	var parts []string
	for _, place := range []string{"egress", "ingress"} {
		var silent, passed []string
		decided := ""
		for _, step := range a.Steps {
			switch {
			case step.Place != place || decided != "":
			case step.Action != "" && step.Action != "unspecified":
				decided = a.decides(step)
			case step.Rule != nil:
				passed = append(passed, "passed on by "+step.Rule.Rule.Remark)
			case a.policyOf(step.ACL) != "":
				silent = append(silent, a.policyOf(step.ACL))
			}
		}
		if decided == "" && silent != nil {
			decided = "no rule of " + strings.Join(silent, ", ")
		}
		if decided != "" {
			parts = append(parts, place+": "+strings.Join(append(passed, decided), ", then "))
		}
	}
	if parts == nil {
		return "no policy is for it"
	}
	return strings.Join(parts, "; ")
}

func (a answer) decides(s step) string {
	if s.ACL == policy.Rest {
		return "no policy decides"
	}
	name := "its default"
	if s.Rule != nil {
		name = s.Rule.Rule.Name
	}
	if whose := a.policyOf(s.ACL); whose != "" {
		return name + " of " + whose
	}
	// (That of a policy for the whole cluster says whose rule it is.)
	if s.Rule != nil && s.Rule.Rule.Remark != "" {
		return s.Rule.Rule.Remark
	}
	return name + " of " + s.ACL
}

// policyOf is the NetworkPolicy of which a list is made, with "…" where the end of its name isn't known; empty: of none.
func (a answer) policyOf(list string) string {
	key, whole, is := policy.Listed(list)
	if !is {
		return ""
	}
	if known, found := a.names[list]; found {
		key, whole = known, true
	}
	if name := "NetworkPolicy " + strings.TrimSuffix(key.String(), "/"); whole {
		return name
	} else {
		return name + "…"
	}
}
