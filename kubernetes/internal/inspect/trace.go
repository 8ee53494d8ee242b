package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// Packets of an interface that quiverd is asked to trace at a time: what isn't meant is traced, too, and shan't take much of a worker's time.
	lot = 500
	// This often a node is asked what it has seen.
	look = 300 * time.Millisecond
)

// Order says which packets to trace.
type Order struct {
	// From is the pod that sends them, "pod" or "namespace/pod".
	From string
	// To is whom they are for: a pod likewise, a Service "svc/name" or "svc/namespace/name", or an address. Empty: anybody.
	To string
	// Protocol: "tcp", "udp", "sctp", or "icmp" of either family. Empty: any.
	Protocol string
	// Port of the destination, TCP's or UDP's. 0: any.
	Port uint16
	// Count of packets that is enough.
	Count int
	// Timeout after which it ends with what there is.
	Timeout time.Duration
}

// Step is what one node of quiverd's graph did with a packet.
type Step struct {
	// Node of the graph.
	Node string `json:"node"`
	// Offset since the packet came in, in nanoseconds.
	Offset uint64 `json:"offset_ns"`
	// Text of what it saw and decided; may have several lines.
	Text string `json:"text"`
}

// Hop is the way of a packet through one node of the cluster.
type Hop struct {
	// Node of the cluster.
	Node string `json:"node"`
	// Interface by which it came to quiverd there.
	Interface string `json:"interface"`
	// Time when it came, by that node's clock, in nanoseconds since 1970-01-01 UTC.
	Time uint64 `json:"timestamp_ns"`
	// Steps in the order of its way.
	Steps []Step `json:"steps"`

	headers headers
}

// Way is that of one packet through all nodes.
type Way struct {
	// Packet in words.
	Packet string `json:"packet"`
	// Hops in the order of its way: the sender's node first, if it was seen there.
	Hops []Hop `json:"hops"`
}

// Seen is what a node has looked at.
type Seen struct {
	// Node of the cluster.
	Node string `json:"node"`
	// Packets that were traced there, meant or not, and those that were meant.
	Packets int `json:"packets"`
	Matched int `json:"matched"`
}

// Traced is what became of an order.
type Traced struct {
	// Ways of packets, in the order in which they were sent.
	Ways []Way `json:"packets"`
	// Nodes that were looked at, the sender's first.
	Nodes []Seen `json:"nodes"`
	// Interrupted: whoever has asked ended it before there was enough.
	Interrupted bool `json:"interrupted"`

	// Whoever packets are for is on these nodes, but not on the sender's.
	elsewhere bool
}

// NothingError is an order for packets of which none was sent.
type NothingError struct {
	// From which pod, on which node.
	From, Node string
	// Others that the pod sent meanwhile.
	Others int
	// Timeout that is over; 0: it was interrupted before.
	Timeout time.Duration
}

func (e *NothingError) Error() string {
	if e.Timeout == 0 {
		return fmt.Sprintf("pod %s on node %s sent no such packet until now, and %d others", e.From, e.Node, e.Others)
	}
	return fmt.Sprintf("pod %s on node %s sent no such packet within %s, and %d others; see that it sends some, and whether they are as --to, --port and --proto say",
		e.From, e.Node, e.Timeout, e.Others)
}

// Trace follows packets that a pod sends through the dataplanes of its own node, and of those where they may arrive. quiverd has one trace for all
// who ask: what others have traced there is forgotten, before and after. Where the context ends while it is under way, that is what there is so far.
func (c *Cluster) Trace(ctx context.Context, order Order) (*Traced, error) {
	preparing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	plan, nodes, err := c.plan(preparing, order)
	if err != nil {
		return nil, err
	}
	return plan.run(ctx, func(ctx context.Context, node string, words ...string) ([]byte, error) {
		return c.callAmong(ctx, nodes, node, words...)
	})
}

// caller runs the command line `quiver` on a node.
type caller func(ctx context.Context, node string, words ...string) ([]byte, error)

// plan is an order, and where to look.
type plan struct {
	Order
	// Where packets begin, and the other nodes where they may arrive.
	spots []*spot
	// Receivers are on the other nodes alone.
	elsewhere bool
	every     time.Duration
}

// spot is a node where packets of a flow are looked for.
type spot struct {
	node string
	want flow
	call caller
	// How the interfaces are found at which packets come in.
	find func(quiver func(words ...string) ([]byte, error)) ([]string, error)

	interfaces []string
	// Of the lots that are over, and of the one that isn't.
	before, now []Hop
	looked, all int
}

func (p *plan) run(ctx context.Context, call caller) (*Traced, error) {
	defer func() {
		// Also if whoever has asked doesn't wait for it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		for _, spot := range p.spots {
			_, _ = call(ctx, spot.node, "trace", "clear")
		}
	}()
	// Where packets arrive first: none that is seen at the sender's node shall be missed there.
	for _, spot := range slices.Backward(p.spots) {
		spot.call = call
		if err := spot.begin(ctx); err != nil {
			return nil, fmt.Errorf("node %s: %w", spot.node, err)
		}
	}
	if err := p.watch(ctx); err != nil {
		return nil, err
	}
	wanted := min(p.Count, len(p.spots[0].hops()))
	interrupted := ctx.Err() != nil && wanted < p.Count
	// What has been sent meanwhile, and may have been seen where it arrives, is known as such.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := p.spots[0].look(last); err != nil {
		return nil, fmt.Errorf("node %s: %w", p.spots[0].node, err)
	}
	traced, sent := &Traced{Interrupted: interrupted, elsewhere: p.elsewhere}, p.spots[0].hops()
	for i, spot := range p.spots {
		hops := spot.hops()
		matched := len(hops)
		if i == 0 {
			if wanted == 0 {
				nothing := &NothingError{p.From, spot.node, spot.looked, p.Timeout}
				if interrupted {
					nothing.Timeout = 0
				}
				return nil, nothing
			}
			hops = hops[:wanted]
		} else {
			hops = arrivals(hops, sent[:wanted], sent[wanted:])
		}
		traced.add(hops, i == 0)
		traced.Nodes = append(traced.Nodes, Seen{spot.node, spot.looked, matched})
	}
	return traced, nil
}

// watch looks at all spots until the sender's has seen enough, or the time is over, and then once more.
func (p *plan) watch(ctx context.Context) error {
	// (Time for packets that are still on their way is a pause.)
	within, stop := context.WithTimeout(ctx, p.Timeout)
	defer stop()
	failures := make([]error, len(p.spots))
	var waiting sync.WaitGroup
	for i, spot := range p.spots {
		waiting.Go(func() {
			for failures[i] == nil && pause(within, p.every) {
				failures[i] = spot.look(within)
				if i == 0 && len(spot.hops()) >= p.Count {
					pause(within, p.every)
					stop()
				}
			}
			// That the time was over in the midst of it is no failure, nor that who has asked has enough.
			if within.Err() != nil {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
				defer cancel()
				failures[i] = spot.look(last)
			}
			if failures[i] != nil {
				failures[i] = fmt.Errorf("node %s: %w", spot.node, failures[i])
				stop()
			}
		})
	}
	waiting.Wait()
	return errors.Join(failures...)
}

// pause waits; false: the context ended first.
func pause(ctx context.Context, time_ time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time_):
		return true
	}
}

// begin has the node trace.
func (s *spot) begin(ctx context.Context) (err error) {
	quiver := func(words ...string) ([]byte, error) { return s.call(ctx, s.node, inJSON(words)...) }
	if s.interfaces, err = s.find(quiver); err != nil {
		return err
	}
	return s.again(ctx)
}

// again has it trace the next lot.
func (s *spot) again(ctx context.Context) error {
	if _, err := s.call(ctx, s.node, "trace", "clear"); err != nil {
		return fmt.Errorf("quiver trace clear: %w", err)
	}
	for _, name := range s.interfaces {
		if _, err := s.call(ctx, s.node, "trace", "add", name, strconv.Itoa(lot)); err != nil {
			return fmt.Errorf("quiver trace add %s: %w", name, err)
		}
	}
	return nil
}

// look takes what there is of the lot; if all packets of an interface have been traced, the next lot begins.
func (s *spot) look(ctx context.Context) error {
	var shown struct{ Packets []Hop }
	quiver := func(words ...string) ([]byte, error) { return s.call(ctx, s.node, inJSON(words)...) }
	if err := read(&shown, quiver, "trace", "show"); err != nil {
		return err
	}
	s.looked, s.now = s.all, nil
	by, used := map[string]int{}, false
	for _, hop := range shown.Packets {
		if !slices.Contains(s.interfaces, hop.Interface) {
			continue
		}
		by[hop.Interface]++
		used = used || by[hop.Interface] >= lot
		s.looked++
		var is bool
		if hop.headers, is = s.want.among(hop.Steps); is {
			hop.Node = s.node
			s.now = append(s.now, hop)
		}
	}
	if !used {
		return nil
	}
	s.before, s.now, s.all = append(s.before, s.now...), nil, s.looked
	return s.again(ctx)
}

// hops are all that it has seen, in order.
func (s *spot) hops() []Hop { return slices.Concat(s.before, s.now) }
