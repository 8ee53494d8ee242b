package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
)

const (
	// This often all is compared though no node is known to have changed: the kernel drops routes when a device goes down.
	resync = 30 * time.Second
	// This often while not all is as it shall be: quiverd may be about to make a device.
	retry = 2 * time.Second
	// What IPv6 needs.
	leastMTU = 1280
	// LonelyMTU is that of pods where there is no device by which other nodes could be reached.
	LonelyMTU = 1500
)

// Nodes are followed.
type Nodes interface {
	// Others are all nodes but this one; not known before the API server has answered once.
	Others() (others []pods.Node, known bool)
	// Self is this node; not known before, either.
	Self() (self pods.Node, known bool)
	// NodesChanged tells that Others may have another answer.
	NodesChanged() <-chan struct{}
}

// Follower keeps the ways between this node's pods and the others' at what the nodes are.
type Follower struct {
	// Nodes of the cluster.
	Nodes Nodes
	// Device of the host towards pods.
	Device string
	// Overlay says whom tunnels lead to.
	Overlay overlay.Settings
	// MTU of pods, in bytes; 0: what the way to other nodes has room for.
	MTU uint32
	// Carrier says who carries packets between pods of this node and of others; of no use with tunnels.
	Carrier Carrier
	// UplinkInterface is the device of the host for quiverd's port; empty: the one with the node's address.
	UplinkInterface string
	// Carries is nil when packets can pass by that port, of which quiverd was told last.
	Carries func(context.Context) error
	// Outgoing is the translation of what leaves the cluster; nil: there is none.
	Outgoing *Outgoing
	// Tell has quiverd do its part.
	Tell func(context.Context, dataplane.Paths) error
	// Warn tells whoever looks after the node what its own settings keep from pods, when that is news; nil: nobody.
	Warn func(about error)
	// Lost tells that somebody has taken away what leads ports of the node to Services; nil: nobody is told.
	Lost func()
	// Log of what goes wrong, and is well again.
	Log *slog.Logger

	table     *Table
	tunnelled tunnelled
	beside    kept
	changes   changes
	told      map[string]string
	// What was said last of pods' MTU.
	sized string
	// What was said last of the host's firewall, of which packets, and when that was looked at.
	refused error
	asked   []passing
	judged  time.Time
	now     func() time.Time

	mutex sync.Mutex
	// What is amiss; errNotLooked before everything was looked at once.
	amiss error
	// Nodes whose objects don't say how to reach them.
	unreached int
	// What the host's settings keep from pods.
	warning error
	// Addresses of other nodes to which the port on the uplink sends.
	hops int
}

var errNotLooked = errors.New("it isn't known yet how other nodes are reached: see whether this node reaches the API server")

// NewFollower makes one that hasn't looked at anything.
func NewFollower(nodes Nodes, device string, log *slog.Logger) *Follower {
	return &Follower{Nodes: nodes, Device: device, Log: log, told: map[string]string{}, changes: changes{told: make(chan struct{}, 1)}, amiss: errNotLooked, now: time.Now}
}

// Ready is nil when the ways to other nodes' pods, and out of the cluster, are as they shall be. That some node's object is wrong is no fault of this one.
func (f *Follower) Ready() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.amiss
}

// Compare has everything looked at: quiverd has come back.
func (f *Follower) Compare() { f.changes.tell() }

// Figures are its metrics.
func (f *Follower) Figures(registry *prometheus.Registry) error {
	gauge := func(name, help string, value func() float64) error {
		return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	return errors.Join(
		gauge("quiver_agent_unreached_nodes", "Faults of other nodes' objects by which their pods aren't reached from here; the agent's log names them.", func() float64 {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			return float64(f.unreached)
		}),
		gauge("quiver_agent_uplink_hops", "Addresses of other nodes, one per family, to which quiverd's port on the uplink sends; 0: the host's kernel carries all packets.", func() float64 {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			return float64(f.hops)
		}),
		gauge("quiver_agent_host_refuses", "1 if the host's own settings, forwarding or its firewall, are known to keep something from pods; the agent's log names them.", func() float64 {
			if f.Warning() == nil {
				return 0
			}
			return 1
		}))
}

// Run does so until the context ends. It leaves everything as it is then: traffic goes on.
func (f *Follower) Run(ctx context.Context) {
	f.changes.ports, f.changes.beside = f.Lost, f.Carrier == ByPort
	f.changes.watch(ctx, f.Log)
	for {
		again := resync
		if !f.bring(ctx) {
			again = retry
		}
		select {
		case <-ctx.Done():
			if f.table != nil {
				f.table.Close()
			}
			return
		case <-f.Nodes.NodesChanged():
		case <-f.changes.told:
		case <-time.After(again):
		}
	}
}

// bring tells whether all is well.
func (f *Follower) bring(ctx context.Context) bool {
	others, known := f.Nodes.Others()
	self, is := f.Nodes.Self()
	if !known || !is {
		// Word comes when they are.
		return true
	}
	plan, doubts, failed := f.paths(ctx, self, others)
	f.tell("nodes whose objects don't say how to reach them", "all nodes' objects say how to reach them", doubts)
	f.tell("not all nodes' pods can be reached", "all nodes' pods can be reached", failed)
	if plan != nil && f.Outgoing != nil {
		err := f.Outgoing.Bring(outside(plan, self, others))
		f.tell("pods don't reach what is outside of the cluster", "pods reach what is outside of the cluster", err)
		failed = errors.Join(failed, err)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.amiss, f.unreached = failed, 0
	if doubts != nil {
		f.unreached = strings.Count(doubts.Error(), "\n") + 1
	}
	return failed == nil
}

// paths has the kernel and quiverd lead to other nodes' pods. The plan is nil where there can't be one; doubts are about other nodes' objects.
func (f *Follower) paths(ctx context.Context, self pods.Node, others []pods.Node) (plan *overlay.Plan, doubts, failed error) {
	if f.table == nil {
		table, err := Open(NodeProtocol)
		if err != nil {
			return nil, nil, fmt.Errorf("routes of the host: %w", err)
		}
		f.table = table
	}
	devices, err := readDevices()
	if err != nil {
		return nil, nil, err
	}
	others, twice := distinct(self, others)
	made, doubts := f.Overlay.For(self, others, devices.networks(self.Addresses))
	doubts = errors.Join(twice, doubts)
	if f.Overlay.On() && made.Locals == nil {
		return nil, nil, doubts
	}
	plan = &made
	uplink, err := devices.uplink(self.Addresses, plan.Ends())
	if errors.Is(err, errNoUplink) && (!f.Overlay.On() || f.MTU != 0) {
		// Alone, or somebody knows better.
		uplink, err = &Uplink{MTU: max(LonelyMTU, f.MTU+plan.Headers())}, nil
	}
	if err != nil {
		return plan, doubts, err
	}
	f.changes.know(uplink)
	paths := dataplane.Paths{MTU: f.size(uplink, plan)}
	if f.Overlay.On() {
		// (Where there is less, small packets pass nevertheless.)
		paths.Overlay = &dataplane.Overlay{Settings: f.Overlay, Plan: *plan, MTU: max(uplink.MTU, leastMTU+plan.Headers())}
	}
	port, amiss := f.port(devices, self, plan.Routed)
	paths.Port = port
	failed = errors.Join(f.tunnelled.bring(endsOf(f.Overlay, plan, f.Device, self, others)), f.Tell(ctx, paths), f.carried(ctx, port, amiss, self, others))
	wanted, err := Wanted(plan.Routed)
	doubts = errors.Join(doubts, err)
	host, err := ways(plan, f.Device, self.Ranges)
	failed = errors.Join(failed, err, f.table.Bring(slices.Concat(wanted, host)))
	f.warn(errors.Join(forwards(self.Ranges), f.firewall(passings(f.Device, uplink.only(), self.Ranges, plan.Headers() > 0))))
	return plan, doubts, failed
}

// firewall tells what the host's keeps from pods. It is read at most once in resync, or for other packets: it may be long, and routes change often.
func (f *Follower) firewall(all []passing) error {
	if now := f.now(); now.Sub(f.judged) >= resync || !slices.Equal(all, f.asked) {
		f.refused, f.asked, f.judged = refusedByFirewall(all), all, now
	}
	return f.refused
}

// warn has it known what of the host's own settings stands in pods' way: these aren't changed here, and what they let pass goes on.
func (f *Follower) warn(about error) {
	before := f.Warning()
	f.tell("the host doesn't forward all that pods send and are sent", "nothing of the host's settings is known to stand in pods' way", about)
	if f.Warn != nil && about != nil && (before == nil || before.Error() != about.Error()) {
		f.Warn(about)
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.warning = about
}

// Warning is what the host's own settings keep from pods, though this node is as it shall be; nil: nothing that is known.
func (f *Follower) Warning() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.warning
}

// size is the MTU of pods.
func (f *Follower) size(uplink *Uplink, plan *overlay.Plan) uint32 {
	fits := uplink.MTU - min(uplink.MTU, plan.Headers())
	var amiss error
	mtu := f.MTU
	switch {
	case mtu == 0 && fits < leastMTU:
		mtu = leastMTU
		amiss = fmt.Errorf("MTU %d of %s has no room: headers of tunnels take %d bytes; pods get %d, which IPv6 needs, and larger packets than %d are lost on the way to other nodes: give the device %d",
			uplink.MTU, uplink.Name, plan.Headers(), mtu, fits, leastMTU+plan.Headers())
	case mtu == 0:
		mtu = fits
	case mtu > fits:
		amiss = fmt.Errorf("--mtu %d: the way to other nodes has room for %d (MTU %d of %s, and %d for headers of tunnels); larger packets are cut or lost: leave --mtu out, or take %d",
			mtu, fits, uplink.MTU, uplink.Name, plan.Headers(), fits)
	}
	f.tell("MTU of pods", "MTU of pods fits", amiss)
	if sized := fmt.Sprint(mtu, fits); f.sized != sized {
		f.sized = sized
		f.Log.Info("MTU of pods", "mtu", mtu, "uplink", uplink.Name, "its MTU", uplink.MTU, "headers", plan.Headers())
	}
	return mtu
}

// tell says once that something went wrong, and that it is well again, or for the first time. It tells whether it is.
func (f *Follower) tell(trouble, peace string, err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	before, said := f.told[trouble]
	if said && before == text {
		return text == ""
	}
	f.told[trouble] = text
	if text != "" {
		f.Log.Error(trouble, "why", text)
	} else {
		f.Log.Info(peace)
	}
	return text == ""
}

// outside tells the nodes as the translation of what leaves the cluster shall see them. To the pods of nodes behind tunnels packets don't come this way; their
// own addresses are reached by the network between, which has no way back to pods.
func outside(plan *overlay.Plan, self pods.Node, others []pods.Node) (pods.Node, []pods.Node) {
	through := plan.Through()
	if len(through) == 0 {
		return self, others
	}
	var all []pods.Node
	for _, node := range others {
		if slices.ContainsFunc(through, func(peer overlay.Peer) bool { return peer.Node == node.Name }) {
			node.Addresses, node.External = nil, nil
		}
		all = append(all, node)
	}
	self.External = nil
	return self, all
}
