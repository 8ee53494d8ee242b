// Command quiver-agent runs on every node, beside quiverd: it serves quiver-cni, and tells quiverd which pods there are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"quiver/kubernetes/internal/address"
	"quiver/kubernetes/internal/agent"
	"quiver/kubernetes/internal/annotation"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/balance"
	"quiver/kubernetes/internal/calls"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/escape"
	"quiver/kubernetes/internal/health"
	"quiver/kubernetes/internal/host"
	"quiver/kubernetes/internal/install"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/policy"
	"quiver/kubernetes/internal/report"
	"quiver/kubernetes/internal/settings"
)

type options struct {
	socket, quiverd, state, node, kubeconfig, ranges, device, health string
	defaults                                                         annotation.Defaults
	standalone, install, uninstall, stay, services, policies, keep   bool
	outgoing                                                         host.Families
	sessions                                                         dataplane.Sessions
	mtu                                                              uint
	overlay                                                          overlay.Settings
	addresses, live                                                  string
	carrier                                                          host.Carrier
	uplink                                                           string
	peers                                                            []pods.Node
	plugins, networks, plugin, network, program, programState        string
}

// hostWord has the program write what the host's kernel has of addresses, routes and rules, and nothing of an agent: for whoever shall find a fault.
const hostWord = "host"

// How long calls that are being answered at the end may still take.
const farewellTime = 5 * time.Second

// So long a client of the agent may take to begin to speak.
const helloTime = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == probeWord {
		if err := probed(ctx, os.Args[2:], os.Stdout); err != nil {
			escape.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == hostWord {
		if err := host.Describe(os.Stdout); err != nil {
			escape.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.socket, "socket", "/run/quiver/agent.sock", "unix socket for quiver-cni")
	flag.StringVar(&o.quiverd, "quiverd", "/run/quiver/quiver.sock", "unix socket of quiverd")
	flag.StringVar(&o.state, "state", "/var/lib/quiver/pods", "directory that keeps which pod has which address")
	flag.StringVar(&o.node, "node", os.Getenv("NODE_NAME"), "name of this node ($NODE_NAME)")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server (empty: as a pod does)")
	flag.BoolVar(&o.standalone, "standalone", false, "without a cluster: addresses from --pod-cidr, annotations from the runtime")
	flag.StringVar(&o.ranges, "pod-cidr", "", "standalone: ranges of pods' addresses, \"10.244.0.0/24,fd00:10:244::/64\"")
	flag.StringVar(&o.addresses, "address", "", "standalone: addresses of this node by which others reach it, \"192.0.2.1,fd00::1\"")
	flag.Func("peer", "standalone, once for each: `another node`, by addresses and ranges of pods, \"192.0.2.2,fd00::2=10.244.2.0/24,fd00:10:244:2::/64\"", func(text string) error {
		peer, err := pods.ParsePeer(text)
		o.peers = append(o.peers, peer)
		return err
	})
	flag.UintVar(&o.mtu, "mtu", 0, "MTU of pods' interfaces, bytes (0: what the way to other nodes has room for)")
	o.overlay.Mode = overlay.None
	flag.Var(&o.overlay.Mode, "overlay", "reach pods of other nodes through `tunnels`: none, vxlan (all), or cross-subnet (where a node isn't in a network that this one is in); the same on all nodes")
	flag.UintVar(&o.overlay.Port, "overlay-port", overlay.DefaultPort, "UDP port of tunnels between nodes")
	flag.UintVar(&o.overlay.VNI, "overlay-vni", overlay.DefaultVNI, "network identifier of tunnels between nodes, 24 bits")
	o.carrier = host.ByKernel
	flag.Var(&o.carrier, "uplink", "who carries packets between nodes' `pods` by the node's uplink: kernel (the host's), or af_packet (quiverd, by a port of its own beside the kernel; not with tunnels)")
	flag.StringVar(&o.uplink, "uplink-interface", "", "the host's device that leads to other nodes, for --uplink af_packet (empty: the one with the node's InternalIP)")
	flag.StringVar(&o.device, "host-device", "quiver0", "the host's device towards pods (empty: none; then pods reach each other only)")
	flag.BoolVar(&o.services, "services", true, "serve the cluster's Services, instead of kube-proxy (not standalone)")
	flag.BoolVar(&o.policies, "policies", true, "enforce the cluster's NetworkPolicies, and those of administrators (not standalone)")
	flag.BoolVar(&o.keep, "keep-sessions", false, "let connections go on that policies don't permit any more, until they end (else they are cut at once)")
	flag.Func("max-sessions", "sessions of pods, and of whoever speaks with them, on this node at most: `number`, 1 to 268435456 (default 1000000)", o.sessions.SetMax)
	flag.Func("max-sessions-per-source", "how many of them one pod of this node may have begun: `number`, 1 to 16777215; 0: all (default 0)", o.sessions.SetMaxOfSource)
	flag.Func("counted-sources", "whose they count: `pods` of this node (default), or all addresses (a node's processes and kubelet's probes share one, and so may all clients that come in at another node)", o.sessions.SetSources)
	flag.Func("session-services", "`services` that they pass besides, of: "+strings.Join(dataplane.SessionServices, ",")+" (default: none)", func(text string) error {
		return o.sessions.SetServices(strings.Split(text, ","))
	})
	flag.Func("memif-fallback", "who takes the ports of a pod's memif while no application is connected, where the pod doesn't say: `eth0` (default), or drop", func(word string) (err error) {
		o.defaults.MemifDrops, err = annotation.ParseFallback(word)
		return err
	})
	flag.Func("allowed-source-prefixes", "`prefixes` that pods may be allowed to send from besides their own addresses, by annotation, \"172.16.0.0/16,fd01::7\" (default: none)", func(text string) (err error) {
		o.defaults.Sources, err = annotation.ParseSources(text)
		return err
	})
	o.outgoing = host.Families{V4: true, V6: true}
	flag.Var(&o.outgoing, "nat-outgoing", "have the host translate pods' addresses to its own on the way out of the cluster, of these `families`: ipv4, ipv6, both (or true) or none (or false) (standalone: none, unless this says otherwise)")
	flag.StringVar(&o.live, "settings", "", "`file` that is followed while the agent runs: YAML of natOutgoing, keepSessions, maxSessions, maxSessionsPerSource, countedSources, sessionServices, memifFallback and allowedSourcePrefixes, each instead of its flag (empty: none)")
	flag.StringVar(&o.health, "health", "", "address and port for kubelet's probes, /livez and /readyz, and for Prometheus, /metrics (empty: none)")
	flag.BoolVar(&o.install, "install", false, "put plugin and network configuration where the runtime looks, and end")
	flag.BoolVar(&o.uninstall, "uninstall", false, "remove from quiverd, host and disk what agents have made, and end; pods that are still there lose their network")
	flag.StringVar(&o.plugins, "cni-plugins", "", "install: the runtime's directory of plugins; uninstall: take ours away there (empty: don't)")
	flag.StringVar(&o.networks, "cni-networks", "", "the same for its directory of network configurations")
	flag.StringVar(&o.plugin, "plugin", "/usr/bin/quiver-cni", "install: the plugin")
	flag.StringVar(&o.network, "network", "/etc/quiver/"+install.Network, "install: the network configuration")
	flag.StringVar(&o.program, "start-quiverd", "", "uninstall: quiverd has ended for good; this program is started once more to give back all that it has made, and its state goes, too")
	flag.StringVar(&o.programState, "quiverd-state", "/var/lib/quiver", "uninstall with --start-quiverd: what quiverd leaves on disk")
	flag.BoolVar(&o.stay, "stay", false, "uninstall: don't end when all is done, but be ready (--health) until SIGTERM")
	flag.Parse()
	if given := map[string]bool{}; o.standalone {
		flag.Visit(func(one *flag.Flag) { given[one.Name] = true })
		if !given["nat-outgoing"] {
			o.outgoing = host.Families{}
		}
	}

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	work := run
	switch {
	case o.install:
		work = putOnHost
	case o.uninstall:
		work = uninstall
	}
	if err := work(ctx, o, log); err != nil {
		log.Error("ended", "why", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, log *slog.Logger) error {
	if o.mtu != 0 && (o.mtu < 1280 || o.mtu > 65535) {
		return fmt.Errorf("--mtu %d: take 1280 (what IPv6 needs) to 65535, or 0 for what the way to other nodes has room for", o.mtu)
	}
	if err := o.overlay.Check(); err != nil {
		return err
	}
	if o.overlay.On() && o.device == "" {
		return fmt.Errorf("--overlay %s: tunnels go through the host, which has no device towards pods: say what it is called by --host-device", o.overlay.Mode)
	}
	if err := checkUplink(o); err != nil {
		return err
	}
	if !o.standalone && (o.addresses != "" || o.peers != nil) {
		return errors.New("--address and --peer are for --standalone: in a cluster, node objects tell both")
	}
	unlock, err := lock(o.state)
	if err != nil {
		return err
	}
	defer unlock()
	live := &settings.Follower{
		File: o.live, Kept: filepath.Join(o.state, "settings.yaml"), Otherwise: settings.Settings{Outgoing: o.outgoing, KeepSessions: o.keep, Sessions: o.sessions, Defaults: o.defaults}, Log: log,
	}
	begin, err := live.Begin()
	if err != nil {
		return fmt.Errorf("--settings: %w", err)
	}
	store, err := attachment.Open(filepath.Join(o.state, "attachments"))
	if err != nil {
		return err
	}
	quiverd, err := dataplane.Dial(o.quiverd)
	if err != nil {
		return err
	}
	defer quiverd.Close()

	var source pods.Source = pods.Standalone{}
	var teller calls.Teller
	var cluster *pods.Cluster
	var objects *balance.Objects
	var needed *host.Needed
	var rules *policy.Objects
	var nodes host.Nodes
	ranges := func() ([]netip.Prefix, error) { return pods.ParseRanges(strings.Split(o.ranges, ",")) }
	if !o.standalone {
		if o.node == "" {
			return errors.New("--node is missing: give this node's name, or say --standalone")
		}
		access, err := pods.Access(o.kubeconfig)
		if err == nil {
			cluster, err = pods.Connect(access, o.node)
		}
		if err == nil && o.services {
			objects, err = balance.Follow(access)
		}
		if err == nil && o.services {
			needed, err = needs(access, log)
		}
		if err == nil && o.policies {
			rules, err = policy.Follow(access)
		}
		if err != nil {
			return fmt.Errorf("API server: %w", err)
		}
		if !o.services {
			err = host.WithdrawServices()
		}
		if err != nil {
			return fmt.Errorf("services: %w", err)
		}
		go cluster.Run(ctx)
		nodes = cluster
		source, teller = cluster, cluster
		ranges = func() ([]netip.Prefix, error) {
			return cluster.Ranges(ctx, func(err error) { log.Warn("no addresses for pods yet", "why", err) })
		}
	}
	server := agent.New(agent.Settings{
		HostDevice: o.device, Farewells: attachment.Farewells(filepath.Join(o.state, "deleted")), Last: address.Last(filepath.Join(o.state, "last.json")),
		Services: objects != nil, KeepSessions: begin.KeepSessions, Sessions: begin.Sessions, Defaults: begin.Defaults, Teller: teller,
	}, store, quiverd, source, log)
	if o.standalone {
		// Known at once, or wrong at once.
		known, err := ranges()
		if err != nil {
			return fmt.Errorf("--pod-cidr: %w", err)
		}
		if err := server.SetRanges(known); err != nil {
			return fmt.Errorf("--pod-cidr: %w", err)
		}
		if nodes, err = static(o, known); err != nil {
			return err
		}
	} else {
		go learn(ctx, server, ranges, log)
	}
	registry := prometheus.NewRegistry()
	if objects != nil {
		keeper, err := keep(o, server, cluster, needed, objects, quiverd, log)
		if err == nil {
			err = keeper.Figures(registry)
		}
		if err != nil {
			return fmt.Errorf("services: %w", err)
		}
		server.Keeping(keeper)
		go needed.Run(ctx)
		host.WatchAddresses(ctx, keeper.Wake, log)
		go keeper.Run(ctx)
	}
	if rules != nil {
		keeper := guard(cluster, rules, quiverd, filepath.Join(o.state, "guarded.json"), log)
		if err := keeper.Figures(registry); err != nil {
			return fmt.Errorf("policies: %w", err)
		}
		server.Guarding(keeper)
		go keeper.Run(ctx)
		go rules.Report(ctx, log)
	}
	translate, err := reach(ctx, o, server, nodes, cluster, begin.Outgoing, registry, log)
	if err != nil {
		return err
	}
	go server.Run(ctx)
	go live.Run(ctx, func(before, after settings.Settings) {
		if after.Outgoing != before.Outgoing {
			translate(after.Outgoing)
		}
		server.Set(ctx, after.KeepSessions, after.Sessions, after.Defaults)
	})
	if cluster != nil {
		go report.New(server, quiverd, cluster, log).Run(ctx)
	}
	if err := server.Figures(registry); err != nil {
		return err
	}
	watched, err := calls.Watch(registry, teller)
	if err != nil {
		return err
	}
	if o.health == "" {
		return serve(ctx, o.socket, server, watched, log)
	}
	// Who of the two ends first ends the other.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if err := health.Serve(ctx, o.health, server, registry); err != nil {
			stop(fmt.Errorf("--health: %w", err))
		}
	}()
	if err := serve(ctx, o.socket, server, watched, log); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// learn gives the agent its addresses as soon as the API server tells them.
func learn(ctx context.Context, server *agent.Agent, ranges func() ([]netip.Prefix, error), log *slog.Logger) {
	known, err := ranges()
	if err == nil {
		err = server.SetRanges(known)
	}
	if err == nil {
		log.Info("addresses for pods", "ranges", known)
		err = server.Reconcile(ctx)
	}
	if err != nil && ctx.Err() == nil {
		log.Error("addresses for pods", "why", err)
	}
}

// serve answers at a unix socket, which only root may use, until the context ends.
func serve(ctx context.Context, path string, server *agent.Agent, watched *calls.Calls, log *slog.Logger) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	old := syscall.Umask(0o177)
	listener, err := health.Listen("unix", path, health.Limits{Connections: 1024, OfOne: 64})
	syscall.Umask(old)
	if err != nil {
		return err
	}
	rpc := grpc.NewServer(grpc.UnaryInterceptor(watched.Unary), grpc.ConnectionTimeout(helloTime), grpc.MaxConcurrentStreams(64))
	agentv1.RegisterPodNetworkServer(rpc, server)
	go func() {
		<-ctx.Done()
		// Those who wait for quiverd are told to try again.
		time.AfterFunc(farewellTime, rpc.Stop)
		rpc.GracefulStop()
	}()
	log.Info("ready for quiver-cni", "socket", path)
	return rpc.Serve(listener)
}

// lock makes sure that no second agent uses the directory.
func lock(directory string) (unlock func(), err error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(directory, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("another quiver-agent uses %s: %w", directory, err)
	}
	return func() { file.Close() }, nil
}
