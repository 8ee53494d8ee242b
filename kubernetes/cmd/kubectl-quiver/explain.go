package main

import (
	"context"
	"flag"
	"os"
	"strings"

	"quiver/kubernetes/internal/inspect"
)

// explainFlags are those of `explain`, and where they are read to.
func explainFlags() (*flag.FlagSet, *string) {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	return flags, outputFlag(flags)
}

// outputFlag is how something is told: --output, or -o.
func outputFlag(flags *flag.FlagSet) *string {
	output := new(string)
	for _, name := range []string{"o", "output"} {
		flags.StringVar(output, name, "table", "table or json")
	}
	return output
}

// told tells whether it shall be JSON.
func told(name, output string) (asJSON bool, err error) {
	if output != "table" && output != "json" {
		return false, misused(name, "--output %s: take table or json", output)
	}
	return output == "json", nil
}

// explain explains a session: from, to, and the protocol with a port.
func explain(words []string) (run, error) {
	flags, output := explainFlags()
	words, err := parse(flags, words)
	if err != nil {
		return nil, err
	}
	asJSON, err := told("explain", *output)
	if err != nil {
		return nil, err
	}
	from, to, protocol := words[0], words[1], strings.Join(words[2:], "")
	if err := inspect.CheckSession(from, to, protocol); err != nil {
		return nil, misused("explain", "%v", err)
	}
	return func(ctx context.Context, at place) error {
		all, err := at.cluster.Explain(ctx, from, to, protocol)
		if err != nil {
			return err
		}
		well, err := inspect.PrintVerdicts(os.Stdout, all, asJSON)
		if err == nil && !well {
			return errUnwell
		}
		return err
	}, nil
}
