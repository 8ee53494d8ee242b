package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"quiver/kubernetes/internal/inspect"
)

// Most packets that are worth to be looked at one by one, and for which is waited.
const mostTraced = 100

// order reads the flags of `trace`.
func order(pod string, words []string, told io.Writer) (order inspect.Order, asJSON bool, err error) {
	flags := flag.NewFlagSet("trace", flag.ContinueOnError)
	flags.SetOutput(told)
	flags.StringVar(&order.To, "to", "", "pod, Service (svc/name) or address that they are for (empty: any)")
	flags.StringVar(&order.Protocol, "proto", "", "tcp, udp, sctp or icmp (empty: any)")
	port := flags.Uint("port", 0, "port that they are for (0: any)")
	flags.IntVar(&order.Count, "count", 5, "packets")
	flags.DurationVar(&order.Timeout, "timeout", 15*time.Second, "how long to wait for them")
	output := flags.String("output", "table", "table or json")
	order.From = pod
	if err := flags.Parse(words); err != nil {
		return order, false, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("trace: %q is too much: name one pod, then flags", flags.Arg(0))
	case !slices.Contains([]string{"", "tcp", "udp", "sctp", "icmp"}, order.Protocol):
		err = fmt.Errorf("trace: --proto %s: take tcp, udp, sctp or icmp", order.Protocol)
	case *port > 65535:
		err = fmt.Errorf("trace: --port %d: take 1 to 65535", *port)
	case order.Count < 1 || order.Count > mostTraced:
		err = fmt.Errorf("trace: --count %d: take 1 to %d", order.Count, mostTraced)
	case order.Timeout <= 0:
		err = fmt.Errorf("trace: --timeout %s: take more than that", order.Timeout)
	case *output != "table" && *output != "json":
		err = fmt.Errorf("trace: --output %s: take table or json", *output)
	}
	order.Port = uint16(*port)
	return order, *output == "json", err
}

// trace follows packets of a pod.
func trace(ctx context.Context, cluster *inspect.Cluster, pod string, words []string) error {
	wanted, asJSON, err := order(pod, words, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	traced, err := cluster.Trace(ctx, wanted)
	if err != nil {
		return err
	}
	return inspect.PrintTraced(os.Stdout, traced, asJSON)
}
