package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"quiver/kubernetes/internal/connectivity"
)

// testWords is what the flags of `connectivity-test` say.
type testWords struct {
	connectivity.Order
	nodes  string
	output *string
}

// testFlags are those of `connectivity-test`, and where they are read to.
func testFlags() (*flag.FlagSet, *testWords) {
	flags, order := flag.NewFlagSet("connectivity-test", flag.ContinueOnError), &testWords{}
	flags.StringVar(&order.nodes, "nodes", "", "one or two nodes, with a comma in between (empty: the first two that forward)")
	flags.StringVar(&order.Outside, "outside", "", "address and port out of the cluster that pods shall reach by TCP (empty: none)")
	flags.DurationVar(&order.Timeout, "timeout", 10*time.Second, "how long each check tries")
	flags.BoolVar(&order.Keep, "keep", false, "leave the namespace, with pods, Service and NetworkPolicy")
	order.output = outputFlag(flags)
	return flags, order
}

// testOrder reads the words behind `connectivity-test`.
func testOrder(words []string) (order connectivity.Order, asJSON bool, err error) {
	flags, said := testFlags()
	if _, err = parse(flags, words); err != nil {
		return order, false, err
	}
	order = said.Order
	if said.nodes != "" {
		order.Nodes = strings.Split(said.nodes, ",")
	}
	switch {
	case len(order.Nodes) > 2 || slices.Contains(order.Nodes, "") || len(order.Nodes) == 2 && order.Nodes[0] == order.Nodes[1]:
		err = misused("connectivity-test", "--nodes %s: take one or two different ones", said.nodes)
	case order.Timeout < time.Second:
		err = misused("connectivity-test", "--timeout %s: take 1s or more", order.Timeout)
	case order.Outside != "" && !isEnd(order.Outside):
		err = misused("connectivity-test", "--outside %s: take ADDRESS:PORT", order.Outside)
	default:
		asJSON, err = told("connectivity-test", *said.output)
	}
	return order, asJSON, err
}

// isEnd tells whether it is an address, or a name, with a port.
func isEnd(text string) bool {
	host, port, err := net.SplitHostPort(text)
	number, wrong := net.LookupPort("tcp", port)
	return err == nil && wrong == nil && host != "" && number > 0
}

// testConnectivity tests, and tells of each check as soon as it is done.
func testConnectivity(words []string) (run, error) {
	wanted, asJSON, err := testOrder(words)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, at place) error { return test(ctx, at, wanted, asJSON) }, nil
}

func test(ctx context.Context, at place, wanted connectivity.Order, asJSON bool) error {
	test, err := connectivity.New(at.config, at.cluster)
	if err != nil {
		return err
	}
	report, err := test.Run(ctx, wanted, func(result connectivity.Result) {
		if !asJSON {
			connectivity.Line(os.Stdout, result)
		}
	})
	if report != nil {
		// Also where what comes behind has failed: the namespace that couldn't be removed.
		err = errors.Join(err, connectivity.Sum(os.Stdout, report, asJSON))
	}
	if err == nil && report.Failed > 0 {
		return errUnwell
	}
	return err
}
