package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quiver/kubernetes/internal/policy"
)

// Verdict is what the policies on one node say of a session that somebody would begin.
type Verdict struct {
	// From and To are its ends; of two pods there is one verdict for each family that both have, and each of their nodes.
	From, To netip.Addr
	// Node that was asked: the sender's judges egress, the receiver's ingress.
	Node string
	// Passes tells whether packets of both sides would pass there.
	Passes bool
	// Because names policies and rules.
	Because string
}

// end is one of a session.
type end struct {
	addresses []netip.Addr
	// Node on which it is, if it is a pod.
	node string
}

// Explain asks the nodes of both ends what becomes of a session. An end is a pod, "pod" or "namespace/pod", or an address; one at
// least must be a pod. The service is "tcp/80", or a protocol alone. What is asked about is a backend, not a Service.
func (c *Cluster) Explain(ctx context.Context, from, to, service string) ([]Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sender, err := c.end(ctx, from)
	if err != nil {
		return nil, err
	}
	receiver, err := c.end(ctx, to)
	if err != nil {
		return nil, err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	ask := func(node string, words ...string) ([]byte, error) {
		return c.callAmong(ctx, nodes, node, inJSON(words)...)
	}
	return explain(sender, receiver, service, ask)
}

// end finds one.
func (c *Cluster) end(ctx context.Context, text string) (end, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return end{addresses: []netip.Addr{address}}, nil
	}
	namespace, name, is := strings.Cut(text, "/")
	if !is {
		namespace, name = core.NamespaceDefault, text
	}
	pod, err := c.client.Pods(namespace).Get(ctx, name, meta.GetOptions{})
	if err != nil {
		return end{}, err
	}
	if pod.Spec.HostNetwork {
		return end{}, fmt.Errorf("pod %s/%s has its node's network, not one of Quiver's; give its address where it is the other end", namespace, name)
	}
	found := end{node: pod.Spec.NodeName}
	for _, entry := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(entry.IP); err == nil {
			found.addresses = append(found.addresses, address)
		}
	}
	if len(found.addresses) == 0 {
		return end{}, fmt.Errorf("pod %s/%s has no address yet", namespace, name)
	}
	return found, nil
}

func explain(from, to end, service string, ask func(node string, words ...string) ([]byte, error)) (all []Verdict, err error) {
	nodes := slices.Compact([]string{from.node, to.node})
	nodes = slices.DeleteFunc(nodes, func(node string) bool { return node == "" })
	if len(nodes) == 0 {
		return nil, errors.New("neither end is a pod: policies are about pods")
	}
	for _, sender := range from.addresses {
		for _, receiver := range to.addresses {
			if sender.Is4() != receiver.Is4() {
				continue
			}
			for _, node := range nodes {
				var said answer
				quiver := func(words ...string) ([]byte, error) { return ask(node, words...) }
				if err := read(&said, quiver, "show", "acl", "--match", sender.String(), receiver.String(), service); err != nil {
					return nil, fmt.Errorf("node %s: %w", node, err)
				}
				all = append(all, Verdict{sender, receiver, node, said.Verdict == "passes", said.because()})
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the two have no addresses of the same family")
	}
	return all, nil
}

// answer is what `quiver show acl --match` says.
type answer struct {
	Verdict string
	Steps   []step
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
				decided = step.decides()
			case step.Rule != nil:
				passed = append(passed, "passed on by "+step.Rule.Rule.Remark)
			case policyOf(step.ACL) != "":
				silent = append(silent, policyOf(step.ACL))
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

func (s step) decides() string {
	if s.ACL == policy.Rest {
		return "no policy decides"
	}
	name := "its default"
	if s.Rule != nil {
		name = s.Rule.Rule.Name
	}
	if whose := policyOf(s.ACL); whose != "" {
		return name + " of " + whose
	}
	// (That of a policy for the whole cluster says whose rule it is.)
	if s.Rule != nil && s.Rule.Rule.Remark != "" {
		return s.Rule.Rule.Remark
	}
	return name + " of " + s.ACL
}

// policyOf is the NetworkPolicy of which a list is made (its name ends early if it is long); empty: of none.
func policyOf(list string) string {
	for _, made := range []string{"np:in:", "np:out:"} {
		if rest, is := strings.CutPrefix(list, made); is {
			readable, _, _ := strings.Cut(rest, ":")
			return "NetworkPolicy " + strings.Replace(readable, ".", "/", 1)
		}
	}
	return ""
}

// PrintVerdicts writes them as a table, and tells whether all let pass.
func PrintVerdicts(to io.Writer, all []Verdict) (pass bool, err error) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FROM\tTO\tNODE\tVERDICT\tBECAUSE")
	pass = true
	for _, one := range all {
		verdict := "passes"
		if !one.Passes {
			verdict, pass = "denied", false
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", one.From, one.To, one.Node, verdict, one.Because)
	}
	return pass, table.Flush()
}
