package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"quiver/kubernetes/internal/connectivity"
	"quiver/kubernetes/internal/inspect"
)

// testOrder reads the flags of `connectivity-test`.
func testOrder(words []string, told io.Writer) (order connectivity.Order, asJSON bool, err error) {
	flags := flag.NewFlagSet("connectivity-test", flag.ContinueOnError)
	flags.SetOutput(told)
	nodes := flags.String("nodes", "", "one or two nodes, with a comma in between (empty: the first two that forward)")
	flags.StringVar(&order.Outside, "outside", "", "address and port out of the cluster that pods shall reach by TCP (empty: none)")
	flags.DurationVar(&order.Timeout, "timeout", 10*time.Second, "how long each check tries")
	flags.BoolVar(&order.Keep, "keep", false, "leave the namespace, with pods, Service and NetworkPolicy")
	var output string
	for _, name := range []string{"o", "output"} {
		flags.StringVar(&output, name, "table", "table or json")
	}
	if err := flags.Parse(words); err != nil {
		return order, false, err
	}
	if *nodes != "" {
		order.Nodes = strings.Split(*nodes, ",")
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("connectivity-test: %q is too much: it takes flags alone", flags.Arg(0))
	case len(order.Nodes) > 2 || len(order.Nodes) == 2 && order.Nodes[0] == order.Nodes[1]:
		err = fmt.Errorf("connectivity-test: --nodes %s: take one or two different ones", *nodes)
	case order.Timeout < time.Second:
		err = fmt.Errorf("connectivity-test: --timeout %s: take 1s or more", order.Timeout)
	case output != "table" && output != "json":
		err = fmt.Errorf("connectivity-test: --output %s: take table or json", output)
	}
	if order.Outside != "" && err == nil {
		if _, _, failed := net.SplitHostPort(order.Outside); failed != nil {
			err = fmt.Errorf("connectivity-test: --outside %s: take ADDRESS:PORT", order.Outside)
		}
	}
	return order, output == "json", err
}

// testConnectivity tests, and tells of each check as soon as it is done.
func testConnectivity(ctx context.Context, config *rest.Config, cluster *inspect.Cluster, words []string) error {
	wanted, asJSON, err := testOrder(words, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	test, err := connectivity.New(config, cluster)
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
