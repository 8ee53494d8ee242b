package inspect

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"quiver/kubernetes/internal/escape"
)

// PrintTraced writes the way of each packet: its nodes, and what the dataplane of each did with it. In JSON, if that is asked for.
func PrintTraced(to io.Writer, traced *Traced, asJSON bool) error {
	if asJSON {
		return escape.JSON(to, traced)
	}
	for i, way := range traced.Ways {
		escape.Fprintf(to, "Packet %d: %s\n", i+1, way.Packet)
		for _, hop := range way.Hops {
			if err := hop.print(to); err != nil {
				return err
			}
		}
		if lost := traced.unseen(way); lost != "" {
			escape.Fprintf(to, "  not seen on %s\n", lost)
		}
		escape.Fprintln(to)
	}
	var words []string
	for _, seen := range traced.Nodes {
		words = append(words, fmt.Sprintf("%s: %d of %d packets", seen.Node, seen.Matched, seen.Packets))
	}
	_, err := escape.Fprintf(to, "Meant, of those traced: %s\n", strings.Join(words, ", "))
	return err
}

// print writes a line for each step. What a step says in several lines, such as headers, stands below each other.
func (h Hop) print(to io.Writer) error {
	escape.Fprintf(to, "  %s, from %s at %s\n", h.Node, h.Interface, time.Unix(0, int64(h.Time)).UTC().Format("15:04:05.000000"))
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, step := range h.Steps {
		begin := fmt.Sprintf("    %s\t+%.1f us", escape.Text(step.Node), float64(step.Offset)/1000)
		for line := range strings.Lines(step.Text) {
			// Where it goes on is the next line.
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "-> ") {
				continue
			}
			fmt.Fprintf(table, "%s\t%s\n", begin, escape.Text(line))
			begin = "\t"
		}
		if begin != "\t" {
			fmt.Fprintf(table, "%s\t\n", begin)
		}
	}
	return table.Flush()
}

// unseen are the nodes where a packet should have arrived, but wasn't seen. Nothing is missed where it came to another of these, or ended before.
func (t *Traced) unseen(way Way) string {
	last := way.Hops[len(way.Hops)-1]
	if !t.elsewhere || len(way.Hops) > 1 || last.Node != t.Nodes[0].Node || !last.leaves() {
		return ""
	}
	var names []string
	for _, seen := range t.Nodes[1:] {
		names = append(names, seen.Node)
	}
	return strings.Join(names, ", ")
}

// leaves tells whether the node sent the packet on.
func (h Hop) leaves() bool {
	return len(h.Steps) > 0 && strings.HasSuffix(h.Steps[len(h.Steps)-1].Node, "-tx")
}
