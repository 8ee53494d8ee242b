// Command kubectl-quiver looks at Quiver on the nodes of a cluster. In $PATH it is `kubectl quiver`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/exec"

	"quiver/kubernetes/internal/escape"
	"quiver/kubernetes/internal/inspect"
)

// errUnwell is something amiss that has been told already.
var errUnwell = errors.New("not all is well")

// errInterrupted is a Ctrl-C before there was all that was asked for.
var errInterrupted = errors.New("interrupted")

const (
	// The exit status of a command line that can't be meant, as `quiver` has it.
	misuse = 2
	// That of who was told to end, as shells have it for Ctrl-C.
	interrupted = 130
)

// place is the cluster that is looked at, and how its API server is reached.
type place struct {
	config  *rest.Config
	cluster *inspect.Cluster
}

// run does what a command line asks for.
type run func(ctx context.Context, at place) error

func main() {
	flags := flag.NewFlagSet("kubectl-quiver", flag.ContinueOnError)
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	overrides := &clientcmd.ConfigOverrides{}
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "file that says how to reach the API server (as kubectl's)")
	flags.StringVar(&overrides.CurrentContext, "context", "", "which of its contexts")
	namespace := flags.String("namespace", "quiver", "namespace of Quiver")
	tells := flags.Bool(versionCommand, false, "tell the version of this program")
	work, err := read(flags, os.Args[1:])
	if err == nil && *tells {
		fmt.Println(versionLine())
		return
	}
	if err == nil && work == nil {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// Whoever doesn't want to wait until it has cleaned up says so once more, which ends it at once.
	context.AfterFunc(ctx, stop)
	if err == nil {
		var at place
		if at, err = connect(clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides), *namespace); err == nil {
			err = work(ctx, at)
		}
	}
	os.Exit(status(ctx, err))
}

// status tells why it has failed, unless that has been told already, and is the exit status.
func status(ctx context.Context, err error) int {
	var ended exec.CodeExitError
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.Code
	case errors.Is(err, errUnwell):
		return 1
	case errors.As(err, &wrong):
		escape.Fprintln(os.Stderr, "kubectl-quiver:", err)
		return misuse
	case ctx.Err() != nil:
		text := errInterrupted.Error()
		if more := besides(err); len(more) > 0 {
			text += ": " + strings.Join(more, "; ")
		}
		escape.Fprintln(os.Stderr, "kubectl-quiver:", text)
		return interrupted
	}
	escape.Fprintln(os.Stderr, "kubectl-quiver:", err)
	return 1
}

// besides is what an error says that isn't the interruption itself: what there wasn't until then, and what remains.
func besides(err error) (all []string) {
	if several, are := err.(interface{ Unwrap() []error }); are {
		for _, one := range several.Unwrap() {
			all = append(all, besides(one)...)
		}
		return all
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return nil
	}
	return []string{err.Error()}
}

// read reads a command line. Where help is asked for it is given, and nothing is left to run.
func read(flags *flag.FlagSet, words []string) (run, error) {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	switch err := flags.Parse(words); {
	case errors.Is(err, flag.ErrHelp):
		helpAll(os.Stdout, flags)
		return nil, nil
	case err != nil:
		return nil, misused("", "%s", wrongFlag(err))
	case flags.NArg() == 0 && flags.Lookup(versionCommand).Value.String() == "true":
		return nil, nil
	case flags.NArg() == 0:
		return nil, misused("", "what shall be looked at isn't said")
	}
	name, words := flags.Arg(0), flags.Args()[1:]
	asked := find(name)
	if asked == nil {
		return nil, misused("", "there is no command %q", name)
	}
	if asked.helps(words) {
		asked.help(os.Stdout, flags)
		return nil, nil
	}
	if err := asked.understands(words); err != nil {
		return nil, err
	}
	switch {
	case name == versionCommand:
		fmt.Println(versionLine())
	case name == helpCommand && len(words) == 0:
		helpAll(os.Stdout, flags)
	case name == helpCommand:
		about := find(words[0])
		if about == nil {
			return nil, misused("", "there is no command %q", words[0])
		}
		about.help(os.Stdout, flags)
	default:
		return prepare(name, words)
	}
	return nil, nil
}

// prepare reads the words of a command, which are as many as it takes.
func prepare(name string, words []string) (run, error) {
	switch name {
	case "explain":
		return explain(words)
	case "trace":
		return trace(words)
	case "connectivity-test":
		return testConnectivity(words)
	}
	return func(ctx context.Context, at place) error { return simple(ctx, at.cluster, name, words) }, nil
}

// connect finds the cluster.
func connect(settings clientcmd.ClientConfig, namespace string) (place, error) {
	config, err := settings.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return place{}, errors.New("nothing says how to reach the API server: name a file that does by --kubeconfig or KUBECONFIG, or have ~/.kube/config")
	}
	if err != nil {
		return place{}, err
	}
	cluster, err := inspect.Connect(config, namespace)
	return place{config, cluster}, err
}

// simple does what has no flags of its own.
func simple(ctx context.Context, cluster *inspect.Cluster, name string, words []string) error {
	switch name {
	case "on":
		node, err := cluster.Node(ctx, words[0])
		if err != nil {
			return err
		}
		return cluster.Run(ctx, node, words[1:], os.Stdout, os.Stderr)
	case "pcap":
		err := cluster.Capture(ctx, words[0], words[1:], os.Stdout, os.Stderr)
		if ctx.Err() != nil {
			// That is how it ends.
			return nil
		}
		return err
	case "drops":
		return cluster.Each(ctx, os.Stdout, "show", "drops", "--explain")
	case "sessions":
		return cluster.Each(ctx, os.Stdout, "show", "session")
	case "sysdump":
		return sysdump(ctx, cluster, words[0])
	}
	all, well, err := cluster.Status(ctx)
	if err == nil {
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
	escape.Fprintln(os.Stdout, "written:", path)
	if missing > 0 {
		escape.Fprintf(os.Stderr, "kubectl-quiver: what belongs into it couldn't all be had; so many of its files say why: %d\n", missing)
		return errUnwell
	}
	return nil
}
