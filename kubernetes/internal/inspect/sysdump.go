package inspect

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
)

const (
	// A node has so long for all of its part.
	dumpTime = time.Minute
	// Lines of each container's log.
	logLines = 5000
)

// What is asked of each node, each the name of a file. None of it shows what packets carry.
var questions = []string{
	"doctor", "show version", "get -o json", "show interface", "show memif", "show drops --explain", "show runtime", "show graph",
	"show fib", "show neighbor", "show session", "show vip", "show acl", "show tenant",
}

// What the agent's program is asked there, by the names of files; ADDRESS is where the agent answers.
var agentQuestions = map[string]string{"host": "host", "agent-readyz": "probe get ADDRESS/readyz", "agent-metrics": "probe get ADDRESS/metrics"}

// entry is a file of a dump.
type entry struct {
	name string
	text []byte
}

// Sysdump writes what all nodes say of themselves as a tar archive, compressed: for each what `quiver` shows, the agent's metrics and
// what it says of itself, addresses, routes and firewall of the host, the pod of Quiver, and what its containers logged. What can't be had is told in its place, and counted.
func (c *Cluster) Sysdump(ctx context.Context, to io.Writer) (missing int, err error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return 0, err
	}
	parts := make([][]entry, len(nodes))
	failures := make([]int, len(nodes))
	var waiting sync.WaitGroup
	for i, node := range nodes {
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, dumpTime)
			defer cancel()
			with := func(run func(context.Context, Node, []string, io.Writer, io.Writer) error) asked {
				return func(words []string, out io.Writer) error {
					// Both are written at the same time.
					var failed bytes.Buffer
					err := run(ctx, node, words, out, &failed)
					_, _ = failed.WriteTo(out)
					return err
				}
			}
			parts[i], failures[i] = dump(node, with(c.Run), with(c.RunAgent), func(container string, before bool, out io.Writer) error {
				return c.log(ctx, node.Pod, container, before, out)
			})
		})
	}
	waiting.Wait()
	var all []entry
	for i, part := range parts {
		all = append(all, part...)
		missing += failures[i]
	}
	return missing, archive(to, all, time.Now())
}

// log writes the end of what a container logged, or the one before it.
func (c *Cluster) log(ctx context.Context, pod *core.Pod, container string, before bool, out io.Writer) error {
	lines := int64(logLines)
	options := &core.PodLogOptions{Container: container, Previous: before, TailLines: &lines, Timestamps: true}
	stream, err := c.client.Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = io.Copy(out, stream)
	return err
}

// asked has a program on a node write what it says.
type asked func(words []string, out io.Writer) error

// dump is a node's part, and how many files of it couldn't be had.
func dump(node Node, quiver, agent asked, log func(container string, before bool, out io.Writer) error) (all []entry, missing int) {
	add := func(name string, fill func(io.Writer) error) {
		var text bytes.Buffer
		if err := fill(&text); err != nil {
			missing++
			fmt.Fprintf(&text, "\n%v\n", err)
		}
		all = append(all, entry{path.Join(node.Name, name), text.Bytes()})
	}
	if node.Pod == nil {
		add("pod.json", func(io.Writer) error { return fmt.Errorf("node %s has no pod of Quiver", node.Name) })
		return all, missing
	}
	add("pod.json", func(out io.Writer) error {
		pod := node.Pod.DeepCopy()
		pod.ManagedFields = nil
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(pod)
	})
	for _, question := range questions {
		words := strings.Fields(question)
		add(strings.ReplaceAll(question, " ", "-")+".txt", func(out io.Writer) error { return quiver(words, out) })
	}
	for _, name := range slices.Sorted(maps.Keys(agentQuestions)) {
		question := agentQuestions[name]
		if address := node.health(); address != "" || !strings.Contains(question, "ADDRESS") {
			words := strings.Fields(strings.ReplaceAll(question, "ADDRESS", address))
			add(name+".txt", func(out io.Writer) error { return agent(words, out) })
		}
	}
	for _, container := range append(node.Pod.Status.InitContainerStatuses, node.Pod.Status.ContainerStatuses...) {
		add(path.Join("logs", container.Name+".txt"), func(out io.Writer) error { return log(container.Name, false, out) })
		if container.RestartCount > 0 {
			add(path.Join("logs", container.Name+"-before.txt"), func(out io.Writer) error { return log(container.Name, true, out) })
		}
	}
	return all, missing
}

// archive packs files.
func archive(to io.Writer, all []entry, when time.Time) error {
	zip := gzip.NewWriter(to)
	tape := tar.NewWriter(zip)
	for _, entry := range all {
		header := &tar.Header{Name: path.Join("quiver-sysdump", entry.name), Mode: 0o600, Size: int64(len(entry.text)), ModTime: when}
		if err := tape.WriteHeader(header); err != nil {
			return err
		}
		if _, err := tape.Write(entry.text); err != nil {
			return err
		}
	}
	if err := tape.Close(); err != nil {
		return err
	}
	return zip.Close()
}
