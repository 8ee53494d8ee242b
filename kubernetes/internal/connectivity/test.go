// Package connectivity is `kubectl quiver connectivity-test`: pods of its own ask each other, and hosts ask them, in every way in which a cluster's
// pods, Services and policies are asked.
package connectivity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	clients "k8s.io/client-go/kubernetes/typed/core/v1"
	networking "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/exec"

	"quiver/kubernetes/internal/inspect"
)

const (
	// So long pods may take to run, and a namespace to go.
	patience = 2 * time.Minute
	look     = 300 * time.Millisecond
	// So many ask at a time.
	together = 4
	// What an `exec` may take besides.
	detour = 15 * time.Second
	// The container of Quiver's pods that asks for a host, and has the image of all.
	agent = "quiver-agent"
)

// Order says what to test.
type Order struct {
	// Nodes, one or two; none: the first two that can take pods.
	Nodes []string
	// Outside is whom pods shall reach out of the cluster, address and port; empty: nobody.
	Outside string
	// Timeout of each check.
	Timeout time.Duration
	// Keep leaves the namespace.
	Keep bool
}

// Report is what came of it.
type Report struct {
	// Namespace in which it was, and the Nodes.
	Namespace string   `json:"namespace"`
	Nodes     []string `json:"nodes"`
	// Kept tells whether the namespace is still there.
	Kept bool `json:"kept"`
	// Checks in order, and how many Failed.
	Checks []Result `json:"checks"`
	Failed int      `json:"failed"`
}

// ErrInterrupted is a test that was ended before all was asked.
var ErrInterrupted = errors.New("not all was asked")

// RemainsError is a namespace of a test that is still there.
type RemainsError struct {
	Namespace string
	// Why it couldn't be removed; nil: it was to be kept. (Not to be unwrapped: it is no reason why the test has ended.)
	Why error
}

func (e *RemainsError) Error() string {
	if e.Why == nil {
		return fmt.Sprintf("namespace %[1]s is kept: kubectl delete namespace %[1]s", e.Namespace)
	}
	return fmt.Sprintf("namespace %[1]s of the test is still there: kubectl delete namespace %[1]s: %[2]v", e.Namespace, e.Why)
}

// Test tests a cluster.
type Test struct {
	cluster  *inspect.Cluster
	core     *clients.CoreV1Client
	policies *networking.NetworkingV1Client
}

// New prepares to test the cluster that is looked at.
func New(config *rest.Config, cluster *inspect.Cluster) (*Test, error) {
	core, err := clients.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	policies, err := networking.NewForConfig(config)
	return &Test{cluster, core, policies}, err
}

// Run makes a namespace, asks in it, and takes it away again, also when the context ends before. Each result is told as soon as those before it are.
func (t *Test) Run(ctx context.Context, order Order, tell func(Result)) (report *Report, err error) {
	nodes, err := t.cluster.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	chosen, closed, err := choose(nodes, order.Nodes)
	if err != nil {
		return nil, err
	}
	namespace, err := t.core.Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{GenerateName: "quiver-connectivity-"}}, meta.CreateOptions{})
	if err != nil {
		return nil, err
	}
	report = &Report{Namespace: namespace.Name, Kept: order.Keep}
	defer func() {
		if !order.Keep {
			err = errors.Join(err, t.remove(ctx, namespace.Name))
		} else if err != nil {
			err = errors.Join(err, &RemainsError{Namespace: namespace.Name})
		}
	}()
	there, err := t.build(ctx, namespace.Name, chosen)
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	if err != nil {
		return nil, err
	}
	there.outside, there.patience = order.Outside, order.Timeout
	for _, one := range there.nodes {
		report.Nodes = append(report.Nodes, one.name)
	}
	hosts := map[string]*core.Pod{}
	for _, one := range chosen {
		hosts[one.Name] = one.Pod
	}
	run(ctx, append(closed, there.checks()...), t.asker(namespace.Name, hosts, order.Timeout), func(result Result) {
		report.Checks = append(report.Checks, result)
		if result.Outcome == Failed {
			report.Failed++
		}
		tell(result)
	})
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	return report, nil
}

// choose finds the nodes: those that were named, or the first two whose Quiver forwards and that aren't closed to pods. Closed ones that would have been
// chosen are told as checks that are left out: pods that name their node come there past the scheduler, and be it drained just now.
func choose(nodes []inspect.Node, names []string) (chosen []inspect.Node, closed []check, err error) {
	for _, name := range names {
		i := slices.IndexFunc(nodes, func(node inspect.Node) bool { return node.Name == name })
		if i < 0 || nodes[i].Pod == nil {
			return nil, nil, fmt.Errorf("node %s has no pod of Quiver, or there is no such node: see kubectl quiver status", name)
		}
		chosen = append(chosen, nodes[i])
	}
	for _, node := range nodes {
		switch {
		case len(names) > 0 || len(chosen) == 2 || !node.Forwards():
		case node.Closed:
			said := "no pods shall come there (kubectl uncordon " + node.Name + "); --nodes has it tested nevertheless"
			closed = append(closed, check{Result: Result{Check: "node " + node.Name, Outcome: LeftOut, Said: said}})
		default:
			chosen = append(chosen, node)
		}
	}
	if len(chosen) == 0 {
		err = errors.New("there is no node whose Quiver forwards: see kubectl quiver status")
		for _, one := range closed {
			err = errors.Join(err, fmt.Errorf("%s: %s", one.Check, one.Said))
		}
		return nil, nil, err
	}
	return chosen, closed, nil
}

// asker asks from a place; false: it couldn't.
type asker func(ctx context.Context, from place, words []string) (said string, asked bool, err error)

// asker asks by `exec`: in a pod of the test, or in Quiver's own of a node, which has the network of its host.
func (t *Test) asker(namespace string, hosts map[string]*core.Pod, timeout time.Duration) asker {
	return func(ctx context.Context, from place, words []string) (string, bool, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout+detour)
		defer cancel()
		where := inspect.Container{Namespace: namespace, Pod: from.pod, Name: "probe"}
		if from.pod == "" {
			pod := hosts[from.node]
			where = inspect.Container{Namespace: pod.Namespace, Pod: pod.Name, Name: agent}
		}
		var out, failures bytes.Buffer
		err := t.cluster.Exec(ctx, where, words, &out, &failures)
		var ended exec.CodeExitError
		if errors.As(err, &ended) && ended.Code == 1 {
			return "", true, errors.New(strings.TrimSpace(failures.String()))
		}
		if err != nil {
			err = fmt.Errorf("can't ask in pod %s/%s: %w: %s", where.Namespace, where.Pod, err, strings.TrimSpace(failures.String()))
		}
		return out.String(), err == nil, err
	}
}

// run makes checks, some at a time, and tells of each in order, until the context ends.
func run(ctx context.Context, checks []check, ask asker, tell func(Result)) {
	results := make([]chan Result, len(checks))
	free := make(chan struct{}, together)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for i := range checks {
		results[i] = make(chan Result, 1)
		waiting.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			one := &checks[i]
			if one.Outcome == "" && ctx.Err() == nil {
				said, asked, err := ask(ctx, one.from, one.words)
				one.Result = one.judge(said, err, asked)
			}
			results[i] <- one.Result
		})
	}
	before := Result{}
	for i, result := range results {
		one := <-result
		if checks[i].silent && one.Outcome == Passed && before.Outcome != Passed {
			one.Outcome, one.Said = LeftOut, "nobody answers there, whether permitted or not"
		}
		// (What was being asked when the context ended is nobody's fault.)
		if before = one; ctx.Err() == nil {
			tell(one)
		}
	}
}
