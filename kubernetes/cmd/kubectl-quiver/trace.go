package main

import (
	"context"
	"flag"
	"os"
	"slices"
	"time"

	"quiver/kubernetes/internal/inspect"
)

// Most packets that are worth to be looked at one by one, and for which is waited.
const mostTraced = 100

// traceOrder is what the flags of `trace` say.
type traceOrder struct {
	inspect.Order
	port   uint
	output *string
}

// traceFlags are those of `trace`, and where they are read to.
func traceFlags() (*flag.FlagSet, *traceOrder) {
	flags, order := flag.NewFlagSet("trace", flag.ContinueOnError), &traceOrder{}
	flags.StringVar(&order.To, "to", "", "pod, Service (svc/name) or address that they are for (empty: any)")
	flags.StringVar(&order.Protocol, "proto", "", "tcp, udp, sctp or icmp (empty: any)")
	flags.UintVar(&order.port, "port", 0, "port that they are for (0: any)")
	flags.IntVar(&order.Count, "count", 5, "packets")
	flags.DurationVar(&order.Timeout, "timeout", 15*time.Second, "how long to wait for them")
	order.output = outputFlag(flags)
	return flags, order
}

// order reads the words behind `trace`.
func order(words []string) (order inspect.Order, asJSON bool, err error) {
	flags, said := traceFlags()
	if words, err = parse(flags, words); err != nil {
		return order, false, err
	}
	switch {
	case !slices.Contains([]string{"", "tcp", "udp", "sctp", "icmp"}, said.Protocol):
		err = misused("trace", "--proto %s: take tcp, udp, sctp or icmp", said.Protocol)
	case said.port > 65535:
		err = misused("trace", "--port %d: take 1 to 65535", said.port)
	case said.Count < 1 || said.Count > mostTraced:
		err = misused("trace", "--count %d: take 1 to %d", said.Count, mostTraced)
	case said.Timeout <= 0:
		err = misused("trace", "--timeout %s: take more than that", said.Timeout)
	default:
		asJSON, err = told("trace", *said.output)
	}
	said.From, said.Port = words[0], uint16(said.port)
	return said.Order, asJSON, err
}

// trace follows packets of a pod.
func trace(words []string) (run, error) {
	wanted, asJSON, err := order(words)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, at place) error {
		traced, err := at.cluster.Trace(ctx, wanted)
		if err != nil {
			return err
		}
		if err = inspect.PrintTraced(os.Stdout, traced, asJSON); err == nil && traced.Interrupted {
			return errInterrupted
		}
		return err
	}, nil
}
