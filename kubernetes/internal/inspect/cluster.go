// Package inspect is what kubectl-quiver does: it looks at Quiver on the nodes of a cluster, from outside.
package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"
	networking "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
)

const (
	// Which pods are Quiver's.
	selector = "app.kubernetes.io/name=quiver"
	// Which of their containers has the command line `quiver`, and reaches quiverd.
	container = "quiverd"
	// Which one the agent is in.
	agentContainer = "quiver-agent"
	// The only one of a pod that takes Quiver away from its node, and is ready when nothing of it is left there.
	uninstallContainer = "uninstall"
	// The agent's option that says where it answers by HTTP.
	healthOption = "--health="
)

// Cluster is looked at.
type Cluster struct {
	config    *rest.Config
	client    *client.CoreV1Client
	discovery *discovery.DiscoveryV1Client
	policies  *networking.NetworkingV1Client
	namespace string
}

// Connect prepares to look at the Quiver in a namespace of a cluster.
func Connect(config *rest.Config, namespace string) (*Cluster, error) {
	core, err := client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	endpoints, err := discovery.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	policies, err := networking.NewForConfig(config)
	return &Cluster{config, core, endpoints, policies, namespace}, err
}

// Node is a node of the cluster.
type Node struct {
	// Name of the node, and the Zone that it is in; empty: in none.
	Name, Zone string
	// Pod of Quiver there; nil: there is none.
	Pod *core.Pod
	// Closed tells whether no more pods shall come: it is cordoned.
	Closed bool
	// Addresses of the node itself, and Ranges of its pods'.
	Addresses []netip.Addr
	Ranges    []netip.Prefix
}

// Nodes are all of the cluster, by name.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := c.client.Nodes().List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := c.client.Pods(c.namespace).List(ctx, meta.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	there := map[string]*core.Pod{}
	for i := range pods.Items {
		// While one is replaced there are two: the one that stays counts.
		pod := &pods.Items[i]
		if before := there[pod.Spec.NodeName]; before == nil || before.DeletionTimestamp != nil {
			there[pod.Spec.NodeName] = pod
		}
	}
	var all []Node
	for _, node := range nodes.Items {
		all = append(all, nodeOf(&node, there[node.Name]))
	}
	slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// nodeOf is a node with what it says of itself.
func nodeOf(node *core.Node, pod *core.Pod) Node {
	found := Node{Name: node.Name, Zone: node.Labels[core.LabelTopologyZone], Pod: pod, Closed: node.Spec.Unschedulable}
	for _, one := range node.Status.Addresses {
		if address, err := netip.ParseAddr(one.Address); err == nil {
			found.Addresses = append(found.Addresses, address.Unmap())
		}
	}
	for _, text := range node.Spec.PodCIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			found.Ranges = append(found.Ranges, prefix)
		}
	}
	return found
}

// Node is the one of a name.
func (c *Cluster) Node(ctx context.Context, name string) (Node, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return Node{}, err
	}
	var names []string
	for _, node := range nodes {
		if node.Name == name {
			return node, nil
		}
		names = append(names, node.Name)
	}
	return Node{}, fmt.Errorf("there is no node %s; there are: %s", name, strings.Join(names, ", "))
}

// Run runs the command line `quiver` on a node, to its end. An error doesn't name the node.
func (c *Cluster) Run(ctx context.Context, node Node, words []string, out, failures io.Writer) error {
	if node.Pod == nil {
		return fmt.Errorf("there is no pod of Quiver in namespace %s", c.namespace)
	}
	if node.uninstalls() {
		return errors.New(node.leaves())
	}
	where := Container{c.namespace, node.Pod.Name, container}
	// Nobody tells a program there that who has asked is gone, but for the end of what it reads.
	open, end := io.Pipe()
	defer end.Close()
	return c.stream(ctx, where, append([]string{"quiver", "--until-eof"}, words...), remotecommand.StreamOptions{Stdin: open, Stdout: out, Stderr: failures})
}

// Container is one in which a program can be run.
type Container struct {
	// Namespace and Pod that it is in, and its Name.
	Namespace, Pod, Name string
}

// Exec runs a program in a container, to its end.
func (c *Cluster) Exec(ctx context.Context, where Container, words []string, out, failures io.Writer) error {
	return c.stream(ctx, where, words, remotecommand.StreamOptions{Stdout: out, Stderr: failures})
}

func (c *Cluster) stream(ctx context.Context, where Container, words []string, streams remotecommand.StreamOptions) error {
	url := c.client.RESTClient().Post().Resource("pods").Namespace(where.Namespace).Name(where.Pod).SubResource("exec").
		VersionedParams(&core.PodExecOptions{Container: where.Name, Command: words, Stdin: streams.Stdin != nil, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewWebSocketExecutor(c.config, "GET", url.String())
	if err != nil {
		return err
	}
	// Whoever has enough ends the stream, of which client-go writes on standard error as of a fault. What is one, it returns as well.
	ctx = klog.NewContext(ctx, klog.Logger{})
	return executor.StreamWithContext(ctx, streams)
}

// call runs the command line `quiver` on a node and returns what it prints; an error has what it says of it, and doesn't name the node.
func (c *Cluster) call(ctx context.Context, node Node, words ...string) ([]byte, error) {
	var out, failed bytes.Buffer
	begun := time.Now()
	if err := c.Run(ctx, node, words, &out, &failed); err != nil {
		return nil, whyFailed("quiver", err, c.fitting(node, words, failed.String()), time.Since(begun))
	}
	return out.Bytes(), nil
}

// fitting is what `quiver` says of why it has failed, with remedies for a quiverd in a pod, and without the words that it was asked by: whoever asks tells them.
func (c *Cluster) fitting(node Node, words []string, failures string) string {
	text := strings.TrimPrefix(strings.TrimSpace(failures), "quiver: ")
	if text == "" {
		return ""
	}
	for n := len(words); n > 0; n-- {
		if rest, is := strings.CutPrefix(text, strings.Join(words[:n], " ")+": "); is {
			text = rest
			break
		}
	}
	log := fmt.Sprintf("(kubectl -n %s logs %s -c %s)", c.namespace, node.Pod.Name, container)
	anew := fmt.Sprintf("(kubectl -n %s delete pod %s)", c.namespace, node.Pod.Name)
	return strings.NewReplacer(
		"is it running? (systemctl start quiverd)", "is it running? "+log, "; does it listen elsewhere? (--socket or QUIVER_SOCKET)", "",
		"(journalctl -u quiverd)", log, "restart it (systemctl restart quiverd)", "delete the pod "+anew, "start it again (systemctl start quiverd)", "delete the pod "+anew,
	).Replace(text)
}

// whyFailed is what a program on a node says of why it has failed, after so long. It has no exit status that would be ours.
func whyFailed(program string, err error, failures string, after time.Duration) error {
	var ended exec.CodeExitError
	text := strings.TrimPrefix(strings.TrimSpace(failures), program+": ")
	switch {
	case errors.As(err, &ended) && text == "":
		return fmt.Errorf("%s has ended with status %d, and said nothing", program, ended.Code)
	case errors.As(err, &ended):
		return errors.New(text)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no answer within %s", after.Round(100*time.Millisecond))
	}
	if text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// RunAgent runs the program quiver-agent beside the agent of a node, to its end.
func (c *Cluster) RunAgent(ctx context.Context, node Node, words []string, out, failures io.Writer) error {
	where := Container{c.namespace, node.Pod.Name, agentContainer}
	return c.Exec(ctx, where, append([]string{"quiver-agent"}, words...), out, failures)
}

// Forwards tells whether packets of pods go through: Quiver's pod is ready, stays, and isn't the one that takes it away.
func (n Node) Forwards() bool { return n.Pod != nil && n.leaves() == "" && n.ready() }

// ready tells whether its pod is.
func (n Node) ready() bool { return Ready(n.Pod) }

// Ready tells whether a pod is.
func Ready(pod *core.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition core.PodCondition) bool {
		return condition.Type == core.PodReady && condition.Status == core.ConditionTrue
	})
}

// uninstalls tells whether its pod takes Quiver away.
func (n Node) uninstalls() bool {
	return slices.ContainsFunc(n.Pod.Spec.Containers, func(one core.Container) bool { return one.Name == uninstallContainer })
}

// leaves says how far Quiver has gone from the node; empty: it stays.
func (n Node) leaves() string {
	switch {
	case n.uninstalls() && n.ready():
		return "Quiver is uninstalled: nothing of it is left but this pod, " + n.Pod.Name
	case n.uninstalls():
		return "Quiver is being uninstalled: see the log of pod " + n.Pod.Name
	case n.Pod.DeletionTimestamp != nil:
		return "the pod of Quiver, " + n.Pod.Name + ", is being deleted"
	}
	return ""
}

// health is where the agent of a node answers by HTTP, "ADDRESS:PORT" as seen on the node; empty: nowhere.
func (n Node) health() string {
	for _, one := range n.Pod.Spec.Containers {
		for _, word := range one.Command {
			address, is := strings.CutPrefix(word, healthOption)
			if !is || one.Name != agentContainer {
				continue
			}
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return ""
			}
			// (As the chart has kubelet put it in.)
			return net.JoinHostPort(strings.ReplaceAll(host, "$(NODE_ADDRESS)", n.Pod.Status.HostIP), port)
		}
	}
	return ""
}

// callAgent does so and returns what it prints; an error is as that of call.
func (c *Cluster) callAgent(ctx context.Context, node Node, words ...string) ([]byte, error) {
	var out, failed bytes.Buffer
	begun := time.Now()
	if err := c.RunAgent(ctx, node, words, &out, &failed); err != nil {
		return nil, whyFailed("quiver-agent", err, failed.String(), time.Since(begun))
	}
	return out.Bytes(), nil
}

// callAmong does as call on the node of a name.
func (c *Cluster) callAmong(ctx context.Context, nodes []Node, name string, words ...string) ([]byte, error) {
	i := slices.IndexFunc(nodes, func(one Node) bool { return one.Name == name })
	if i < 0 {
		return nil, errors.New("there is no such node any more")
	}
	return c.call(ctx, nodes[i], words...)
}

// inJSON has the answer in JSON.
func inJSON(words []string) []string { return slices.Concat(words, []string{"--output", "json"}) }
