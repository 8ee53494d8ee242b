// Command kubectl-quiver looks at Quiver on the nodes of a cluster. In $PATH it is `kubectl quiver`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/exec"

	"quiver/kubernetes/internal/inspect"
)

const usage = `Look at Quiver on the nodes of a cluster.

  kubectl quiver [FLAGS] status            what every node says of itself; exit status 1 if one doesn't forward
  kubectl quiver [FLAGS] explain FROM TO [PROTOCOL/PORT]
                                           what policies say of a session, on the nodes of both ends; exit status 1 if it wouldn't
                                           pass. An end is a pod, "pod" or "namespace/pod", or an address. TO may be a Service,
                                           "svc/name" or "svc/namespace/name", with a port of it behind a colon: then also which
                                           backend is chosen, and why, and FROM may be a host's address, or one outside of the cluster:
                                             kubectl quiver explain client shop/web-0 tcp/8080
                                             kubectl quiver explain client svc/shop/web:http
                                             kubectl quiver explain 198.51.100.9 svc/shop/web:http
  kubectl quiver [FLAGS] trace POD [--to TO] [--proto PROTOCOL] [--port PORT] [--count NUMBER] [--timeout TIME] [--output json]
                                           the way of the next packets that a pod sends, through its node and the one where they arrive;
                                           TO is a pod, a Service "svc/name" or "svc/namespace/name", or an address. Ends when there
                                           are NUMBER (5), or after TIME (15s); exit status 1 if there were none. Forgets what else is
                                           traced on these nodes:
                                             kubectl quiver trace client --to svc/shop/web --port 80
  kubectl quiver [FLAGS] pcap POD [WORD...]
                                           capture what a pod sends and receives, as pcapng to standard output, until Ctrl-C; WORDs are
                                           options of "quiver pcap start":
                                             kubectl quiver pcap client --count 100 | wireshark -k -i -
  kubectl quiver [FLAGS] drops             what was dropped on every node, and what that means
  kubectl quiver [FLAGS] sessions          sessions on every node
  kubectl quiver [FLAGS] connectivity-test [--nodes NODE,NODE] [--outside ADDRESS:PORT] [--timeout TIME] [--keep] [-o json]
                                           makes pods, a Service and a NetworkPolicy in a namespace of its own, has pods and hosts ask each
                                           other in every way, and takes all of it away; exit status 1 if something isn't as it shall be
  kubectl quiver [FLAGS] sysdump FILE      all that nodes say of themselves, for whoever shall find a fault: a .tar.gz; exit status 1 if
                                           some of it couldn't be had
  kubectl quiver [FLAGS] on NODE WORD...   run the command line "quiver" on a node, with its exit status:
                                             kubectl quiver on n1 show drops --explain
                                             kubectl quiver on n1 trace --help

Flags:
`

// errUnwell is something amiss that has been told already.
var errUnwell = errors.New("not all is well")

// The exit status of who was told to end, as shells have it for Ctrl-C.
const interrupted = 130

// How many words each command takes, itself included: at least, and at most if it isn't zero.
var commands = map[string][2]int{"status": {1, 1}, "explain": {3, 4}, "sysdump": {2, 2}, "on": {3, 0},
	"trace": {2, 0}, "pcap": {2, 0}, "drops": {1, 1}, "sessions": {1, 1}, "connectivity-test": {1, 0}}

func main() {
	flags := flag.NewFlagSet("kubectl-quiver", flag.ExitOnError)
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "file that says how to reach the API server (as kubectl's)")
	flags.StringVar(&overrides.CurrentContext, "context", "", "which of its contexts")
	namespace := flags.String("namespace", "quiver", "namespace of Quiver")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	_ = flags.Parse(os.Args[1:])
	words := flags.Args()
	if !understood(words) {
		flags.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := work(ctx, clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), *namespace, words)
	var ended exec.CodeExitError
	switch {
	case err == nil:
	case errors.As(err, &ended):
		os.Exit(ended.Code)
	case errors.Is(err, errUnwell):
		os.Exit(1)
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "kubectl-quiver: interrupted")
		os.Exit(interrupted)
	default:
		fmt.Fprintln(os.Stderr, "kubectl-quiver:", err)
		os.Exit(1)
	}
}

func understood(words []string) bool {
	if len(words) == 0 {
		return false
	}
	takes, is := commands[words[0]]
	return is && len(words) >= takes[0] && (takes[1] == 0 || len(words) <= takes[1])
}

func work(ctx context.Context, settings clientcmd.ClientConfig, namespace string, words []string) error {
	config, err := settings.ClientConfig()
	if err != nil {
		return err
	}
	cluster, err := inspect.Connect(config, namespace)
	if err != nil {
		return err
	}
	well := false
	switch words[0] {
	case "on":
		node, err := cluster.Node(ctx, words[1])
		if err != nil {
			return err
		}
		return cluster.Run(ctx, node, words[2:], os.Stdout, os.Stderr)
	case "explain":
		var all []inspect.Verdict
		if all, err = cluster.Explain(ctx, words[1], words[2], strings.Join(words[3:], "")); err != nil {
			return err
		}
		well, err = inspect.PrintVerdicts(os.Stdout, all, false)
	case "trace":
		return trace(ctx, cluster, words[1], words[2:])
	case "pcap":
		err := cluster.Capture(ctx, words[1], words[2:], os.Stdout, os.Stderr)
		if ctx.Err() != nil {
			// That is how it ends.
			return nil
		}
		return err
	case "drops":
		return cluster.Each(ctx, os.Stdout, "show", "drops", "--explain")
	case "sessions":
		return cluster.Each(ctx, os.Stdout, "show", "session")
	case "connectivity-test":
		return testConnectivity(ctx, config, cluster, words[1:])
	case "sysdump":
		return sysdump(ctx, cluster, words[1])
	default:
		var all []inspect.Status
		if all, well, err = cluster.Status(ctx); err != nil {
			return err
		}
		err = inspect.Print(os.Stdout, all)
	}
	if err == nil && !well {
		return errUnwell
	}
	return err
}

// sysdump writes a file that only its owner reads: addresses and names of a cluster are nobody else's business.
func sysdump(ctx context.Context, cluster *inspect.Cluster, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	missing, err := cluster.Sysdump(ctx, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	fmt.Println("written:", path)
	if missing > 0 {
		fmt.Fprintf(os.Stderr, "kubectl-quiver: %d files of it say why what they should have couldn't be had\n", missing)
		return errUnwell
	}
	return nil
}
