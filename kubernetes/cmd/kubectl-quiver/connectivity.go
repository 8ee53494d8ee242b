package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
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
	case len(order.Nodes) > 2 || len(order.Nodes) == 2 && order.Nodes[0] == order.Nodes[1]:
		err = fmt.Errorf("connectivity-test: --nodes %s: take one or two different ones", said.nodes)
	case order.Timeout < time.Second:
		err = fmt.Errorf("connectivity-test: --timeout %s: take 1s or more", order.Timeout)
	default:
		asJSON, err = told("connectivity-test", *said.output)
	}
	if order.Outside != "" && err == nil {
		if _, _, failed := net.SplitHostPort(order.Outside); failed != nil {
			err = fmt.Errorf("connectivity-test: --outside %s: take ADDRESS:PORT", order.Outside)
		}
	}
	return order, asJSON, err
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
