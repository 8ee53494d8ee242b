package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"quiver/kubernetes/internal/escape"
)

// Each runs the command line `quiver` on every node that has Quiver, and writes what it says below the node's name. Where that fails, the others'
// answers are written all the same.
func (c *Cluster) Each(ctx context.Context, to io.Writer, words ...string) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return each(to, nodes, func(node Node) ([]byte, error) { return c.call(ctx, node, words...) })
}

func each(to io.Writer, nodes []Node, quiver func(Node) ([]byte, error)) error {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(node Node) bool { return node.Pod == nil })
	said, failures := make([][]byte, len(nodes)), make([]error, len(nodes))
	var waiting sync.WaitGroup
	for i, node := range nodes {
		waiting.Go(func() {
			if said[i], failures[i] = quiver(node); failures[i] != nil {
				failures[i] = fmt.Errorf("node %s: %w", node.Name, failures[i])
			}
		})
	}
	waiting.Wait()
	for i, node := range nodes {
		if failures[i] == nil {
			escape.Fprintf(to, "%s:\n%s\n", node.Name, []byte(escape.Lines(string(bytes.TrimSpace(said[i])))))
		}
	}
	return errors.Join(failures...)
}

// Capture writes what passes a pod's interfaces, as pcapng, until there is enough or the context ends. More are options of `quiver pcap start`.
func (c *Cluster) Capture(ctx context.Context, pod string, more []string, out, failures io.Writer) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := c.end(asking, pod)
	if err != nil {
		return err
	}
	if found.node == "" {
		return fmt.Errorf("%s is an address: name a pod, as pod or namespace/pod", pod)
	}
	node, err := c.Node(asking, found.node)
	if err != nil {
		return err
	}
	names, err := attached(func(words ...string) ([]byte, error) { return c.call(asking, node, inJSON(words)...) }, pod, found.addresses)
	if err != nil {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	return c.Run(ctx, node, capture(names, more), out, failures)
}

// capture is the command line that does it.
func capture(interfaces, more []string) []string {
	words := []string{"pcap", "start", "--write", "-"}
	for _, name := range interfaces {
		words = append(words, "--interface", name)
	}
	return append(words, more...)
}
