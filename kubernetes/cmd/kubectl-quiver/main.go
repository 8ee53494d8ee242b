// Command kubectl-quiver looks at Quiver on the nodes of a cluster. In $PATH it is `kubectl quiver`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/exec"

	"quiver/kubernetes/internal/inspect"
)

const usage = `Look at Quiver on the nodes of a cluster.

  kubectl quiver [FLAGS] status            what every node says of itself; exit status 1 if one doesn't forward
  kubectl quiver [FLAGS] on NODE WORD...   run the command line "quiver" on a node, with its exit status:
                                             kubectl quiver on n1 show drops --explain
                                             kubectl quiver on n1 trace --help

Flags:
`

// errUnwell is a status that has been told already.
var errUnwell = errors.New("not all nodes are well")

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
	if len(words) == 0 || words[0] != "status" && words[0] != "on" || words[0] == "status" && len(words) > 1 || words[0] == "on" && len(words) < 3 {
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
	default:
		fmt.Fprintln(os.Stderr, "kubectl-quiver:", err)
		os.Exit(1)
	}
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
	if words[0] == "on" {
		node, err := cluster.Node(ctx, words[1])
		if err != nil {
			return err
		}
		return cluster.Run(ctx, node, words[2:], os.Stdout, os.Stderr)
	}
	all, well, err := cluster.Status(ctx)
	if err != nil {
		return err
	}
	if err := inspect.Print(os.Stdout, all); err != nil {
		return err
	}
	if !well {
		return errUnwell
	}
	return nil
}
