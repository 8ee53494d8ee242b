package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"quiver/kubernetes/internal/probe"
)

// probeWord has the program be an end of `kubectl quiver connectivity-test`, or ask an agent how it is, and nothing of an agent:
//
//	quiver-agent probe serve PORT
//	quiver-agent probe [--for TIME] tcp|udp|connect ADDRESS:PORT
//	quiver-agent probe [--for TIME] resolve NAME
//	quiver-agent probe [--for TIME] get ADDRESS:PORT/PATH
const probeWord = "probe"

// probed does what these words say.
func probed(ctx context.Context, words []string, out io.Writer) error {
	flags := flag.NewFlagSet("quiver-agent probe", flag.ContinueOnError)
	patience := flags.Duration("for", 10*time.Second, "how long to try")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("probe: take `serve PORT`, `tcp|udp|connect ADDRESS:PORT`, `resolve NAME` or `get ADDRESS:PORT/PATH`")
	}
	what, whom := flags.Arg(0), flags.Arg(1)
	if what == "serve" {
		port, err := strconv.ParseUint(whom, 10, 16)
		if err != nil {
			return fmt.Errorf("probe serve: %s is no port", whom)
		}
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		return probe.Serve(ctx, uint16(port), name)
	}
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	if what == "get" {
		return probe.Get(ctx, whom, out)
	}
	var said string
	var err error
	if what == "resolve" {
		said, err = probe.Resolve(ctx, whom)
	} else {
		said, err = probe.Ask(ctx, what, whom)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, said)
	return err
}
