package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/escape"
)

// A node that doesn't answer in this time doesn't.
const patience = 15 * time.Second

// Status is what there is to say of a node.
type Status struct {
	// Name of the node.
	Name string
	// Forwards: see Node.Forwards.
	Forwards bool
	// Version of quiverd; empty: it didn't answer.
	Version string
	// Up is for how long.
	Up time.Duration
	// Restarts of all containers.
	Restarts int
	// Pods and Memifs are interfaces in the dataplane, Tunnels those that lead to other nodes.
	Pods, Memifs, Tunnels int
	// MTU of pods' way to the host; 0: there is none.
	MTU uint32
	// Troubles are what is amiss, in words.
	Troubles []string
}

// Status of all nodes, and whether all of them forward and nothing is amiss.
func (c *Cluster) Status(ctx context.Context) (all []Status, well bool, err error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, false, err
	}
	pods, unlisted := c.networked(ctx)
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all = make([]Status, len(nodes))
	bare := make([][]core.Pod, len(nodes))
	var waiting sync.WaitGroup
	for i, node := range nodes {
		waiting.Go(func() {
			quiver := func(words ...string) ([]byte, error) { return c.call(asking, node, inJSON(words)...) }
			all[i] = status(node, quiver, func(words ...string) ([]byte, error) { return c.callAgent(asking, node, words...) })
			if all[i].Forwards && all[i].Version != "" {
				bare[i] = unattached(pods[node.Name], node.Ranges, quiver)
			}
		})
	}
	waiting.Wait()
	if err := errors.Join(unlisted, c.tellUnattached(ctx, all, bare)); err != nil {
		for i := range all {
			all[i].Troubles = append(all[i].Troubles, fmt.Sprintf("whether all of its pods have interfaces of Quiver's isn't known: %v", err))
		}
	}
	well = true
	for _, node := range all {
		well = well && node.Forwards && len(node.Troubles) == 0
	}
	return all, well, nil
}

// status asks a node: quiverd by `quiver`, the agent by `quiver-agent`.
func status(node Node, quiver, agent func(words ...string) ([]byte, error)) Status {
	s := Status{Name: node.Name}
	if node.Pod == nil {
		s.Troubles = append(s.Troubles, "there is no pod of Quiver")
		return s
	}
	s.Forwards = node.Forwards()
	if said := node.leaves(); said != "" {
		s.Troubles = append(s.Troubles, said)
	}
	for _, container := range append(node.Pod.Status.InitContainerStatuses, node.Pod.Status.ContainerStatuses...) {
		s.Restarts += int(container.RestartCount)
		if waiting := container.State.Waiting; waiting != nil && waiting.Reason != "PodInitializing" {
			s.Troubles = append(s.Troubles, strings.TrimSuffix(fmt.Sprintf("%s waits: %s: %s", container.Name, waiting.Reason, waiting.Message), ": "))
		}
	}
	for _, container := range node.Pod.Status.ContainerStatuses {
		if ended := container.State.Terminated; ended != nil {
			s.Troubles = append(s.Troubles, fmt.Sprintf("%s has ended: %s, exit status %d: see its log", container.Name, ended.Reason, ended.ExitCode))
		}
	}
	if node.leaves() != "" {
		// Neither quiverd nor an agent is there to ask, or not for long.
		return s
	}
	if err := s.ask(quiver); err != nil {
		s.Troubles = append(s.Troubles, strings.ReplaceAll(err.Error(), "\n", "; "))
	} else {
		s.Troubles = append(s.Troubles, s.saidBy(node, agent)...)
	}
	return s
}

// saidBy is what the agent says that is amiss, line by line: why packets aren't forwarded, or what the host keeps from pods nevertheless.
func (s *Status) saidBy(node Node, agent func(words ...string) ([]byte, error)) (troubles []string) {
	const unsaid = "the agent says that it isn't forwarding: see the log of its container"
	address := node.health()
	if address == "" {
		if !s.Forwards {
			troubles = append(troubles, unsaid)
		}
		return troubles
	}
	text, err := agent("probe", "get", address+"/readyz")
	if err != nil {
		return []string{"the agent doesn't say how it is: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line != "forwarding" {
			troubles = append(troubles, line)
		}
	}
	if !s.Forwards && troubles == nil {
		// It may have become well just now.
		troubles = append(troubles, unsaid)
	}
	return troubles
}

// ask takes from quiverd what it knows.
func (s *Status) ask(quiver func(words ...string) ([]byte, error)) error {
	var version struct {
		Version string  `json:"version"`
		Seconds float64 `json:"uptime_seconds"`
	}
	if err := read(&version, quiver, "show", "version"); err != nil {
		return err
	}
	s.Version, s.Up = version.Version, time.Duration(version.Seconds*float64(time.Second))
	var found struct {
		Objects []struct {
			Status struct{ State, Failure string }
			Object struct {
				Interface struct{ Name string }
			}
		}
	}
	if err := read(&found, quiver, "get", "interface", "--status"); err != nil {
		return err
	}
	for _, entry := range found.Objects {
		name := entry.Object.Interface.Name
		switch {
		case strings.HasSuffix(name, ":memif-eth0"):
			s.Memifs++
		case name == "pod:host":
			mtu, err := mtuOf(quiver, name)
			if err != nil {
				return err
			}
			s.MTU = mtu
		case dataplane.IsTunnel(name):
			s.Tunnels++
		case strings.HasPrefix(name, "pod:") && strings.Count(name, ":") > 1:
			s.Pods++
		}
		if entry.Status.State != "applied" {
			s.Troubles = append(s.Troubles, strings.TrimSuffix(fmt.Sprintf("interface %s is %s: %s", name, entry.Status.State, entry.Status.Failure), ": "))
		}
	}
	return nil
}

// mtuOf is what holds for an interface: its object doesn't tell where that is what its port has by itself.
func mtuOf(quiver func(words ...string) ([]byte, error), name string) (uint32, error) {
	var shown struct {
		Interfaces []struct{ MTU uint32 }
	}
	if err := read(&shown, quiver, "show", "interface", name); err != nil {
		return 0, err
	}
	if len(shown.Interfaces) != 1 {
		return 0, fmt.Errorf("quiver show interface %s: %d interfaces instead of one: are quiver and quiverd of one version?", name, len(shown.Interfaces))
	}
	return shown.Interfaces[0].MTU, nil
}

func read(into any, quiver func(words ...string) ([]byte, error), words ...string) error {
	text, err := quiver(words...)
	if err != nil {
		return fmt.Errorf("quiver %s: %w", strings.Join(words, " "), err)
	}
	return json.Unmarshal(text, into)
}

// Print writes nodes as a table, and below what is amiss.
func Print(to io.Writer, all []Status) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tFORWARDS\tQUIVERD\tUP\tRESTARTS\tPODS\tMEMIFS\tTUNNELS\tMTU")
	for _, node := range all {
		forwards, version, up, mtu := "no", "-", "-", "-"
		pods, memifs, tunnels := "-", "-", "-"
		if node.Forwards {
			forwards = "yes"
		}
		if node.Version != "" {
			version, up = node.Version, node.Up.Round(time.Second).String()
			pods, memifs, tunnels = fmt.Sprint(node.Pods), fmt.Sprint(node.Memifs), fmt.Sprint(node.Tunnels)
		}
		if node.MTU != 0 {
			mtu = fmt.Sprint(node.MTU)
		}
		escape.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", node.Name, forwards, version, up, node.Restarts, pods, memifs, tunnels, mtu)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, node := range all {
		for _, trouble := range node.Troubles {
			escape.Fprintf(to, "%s: %s\n", node.Name, trouble)
		}
	}
	return nil
}
