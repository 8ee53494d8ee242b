package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// command is what may be asked for.
type command struct {
	name, takes string
	// How many words it takes, itself excluded: at least, and at most if it isn't -1. Its own flags don't count.
	least, most int
	// What it does, a line each.
	says []string
	// Its own flags; nil: it has none, and words behind it that look so are another program's.
	flags func() *flag.FlagSet
}

var commands = []command{
	{name: "status", says: []string{"what every node says of itself; exit status 1 if one doesn't forward"}, flags: noFlags("status")},
	{name: "explain", takes: "FROM TO [PROTOCOL/PORT] [--output json]", least: 2, most: 3, says: []string{
		"what becomes of a session, and which policies decide, on the nodes of both ends; exit status 1 if",
		"it wouldn't pass, or isn't known to. An end is a pod, \"pod\" or \"namespace/pod\", or an address. TO",
		"may be a Service, \"svc/name\" or \"svc/namespace/name\", with a port of it behind a colon, or an",
		"address and port at which one answers (ClusterIP, external IP, load balancer's, node port), or the",
		"host port of a pod: then also which endpoints may be given, and FROM may be a host's address, or one",
		"outside of the cluster. PROTOCOL/PORT is tcp/80, udp/53, sctp/7, icmp or the like:",
		"  kubectl quiver explain client shop/web-0 tcp/8080",
		"  kubectl quiver explain client svc/shop/web:http",
		"  kubectl quiver explain client 10.96.41.3 tcp/80",
		"  kubectl quiver explain 198.51.100.9 svc/shop/web:http",
	}, flags: func() *flag.FlagSet { flags, _ := explainFlags(); return flags }},
	{name: "trace", takes: "POD [--to TO] [--proto PROTOCOL] [--port PORT] [--count NUMBER] [--timeout TIME] [--output json]", least: 1, most: 1, says: []string{
		"the way of the next packets that a pod sends, through its node and the one where they arrive;",
		"TO is a pod, a Service \"svc/name\" or \"svc/namespace/name\", or an address. Ends when there",
		"are NUMBER (5), or after TIME (15s); exit status 1 if there were none. Ctrl-C ends it with what there",
		"is, and exit status 130. Forgets what else is traced on these nodes:",
		"  kubectl quiver trace client --to svc/shop/web --port 80",
	}, flags: func() *flag.FlagSet { flags, _ := traceFlags(); return flags }},
	{name: "pcap", takes: "POD [WORD...]", least: 1, most: -1, says: []string{
		"capture what a pod sends and receives, as pcapng to standard output, until Ctrl-C; WORDs are",
		"options of \"quiver pcap start\":",
		"  kubectl quiver pcap client --count 100 | wireshark -k -i -",
	}},
	{name: "drops", says: []string{"what was dropped on every node, and what that means"}, flags: noFlags("drops")},
	{name: "sessions", says: []string{"sessions on every node"}, flags: noFlags("sessions")},
	{name: "connectivity-test", takes: "[--nodes NODE,NODE] [--outside ADDRESS:PORT] [--timeout TIME] [--keep] [-o json]", says: []string{
		"makes pods, a Service and a NetworkPolicy in a namespace of its own, has pods and hosts ask each",
		"other in every way, and takes all of it away; exit status 1 if something isn't as it shall be",
	}, flags: func() *flag.FlagSet { flags, _ := testFlags(); return flags }},
	{name: "sysdump", takes: "FILE", least: 1, most: 1, says: []string{
		"all that nodes say of themselves, for whoever shall find a fault: a .tar.gz; exit status 1 if",
		"some of it couldn't be had",
	}, flags: noFlags("sysdump")},
	{name: "on", takes: "NODE WORD...", least: 2, most: -1, says: []string{
		"run the command line \"quiver\" on a node, with its exit status:",
		"  kubectl quiver on n1 show drops --explain",
		"  kubectl quiver on n1 trace --help",
	}},
	{name: versionCommand, says: []string{"version of this program (that of every node's quiverd: status); --version, too"}, flags: noFlags(versionCommand)},
	{name: helpCommand, takes: "[COMMAND]", most: 1, says: []string{"this, or about one command"}, flags: noFlags(helpCommand)},
}

// Commands that need no cluster.
const versionCommand, helpCommand = "version", "help"

// Where in a line it stands what a command does.
const indent = 43

// usageError is a command line that can't be meant. It has the remedy.
type usageError string

func (e usageError) Error() string { return string(e) }

// misused is one of a command; empty: of none.
func misused(name, format string, arguments ...any) error {
	text, remedy := fmt.Sprintf(format, arguments...), "kubectl quiver --help"
	if name != "" {
		text, remedy = name+": "+text, "kubectl quiver "+name+" --help"
	}
	return usageError(text + "; see " + remedy)
}

// noFlags are those of a command that has none.
func noFlags(name string) func() *flag.FlagSet {
	return func() *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }
}

// find is the command of a name, or none.
func find(name string) *command {
	if at := slices.IndexFunc(commands, func(one command) bool { return one.name == name }); at >= 0 {
		return &commands[at]
	}
	return nil
}

// helps tells whether what is asked for is help on a command. What stands behind a node is for `quiver` there, and behind "--" there are no flags.
func (c *command) helps(words []string) bool {
	if c.name == "on" {
		words = words[:min(1, len(words))]
	}
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains([]string{"--help", "-help", "-h"}, word) })
}

// understands says what is wrong with the words behind a command.
func (c *command) understands(words []string) error {
	if c.flags != nil {
		var err error
		if words, err = parse(c.flags(), words); err != nil {
			return err
		}
	}
	switch {
	case len(words) < c.least:
		return misused(c.name, "it takes %s", c.takes)
	case c.most >= 0 && len(words) > c.most:
		return misused(c.name, "%q is too much", words[c.most])
	}
	return nil
}

// parse reads the flags of a command, wherever they stand among its words, which it gives. Behind "--" there are none.
func parse(flags *flag.FlagSet, words []string) (rest []string, err error) {
	flags.SetOutput(io.Discard)
	for {
		if err := flags.Parse(words); err != nil {
			return nil, misused(flags.Name(), "%s", wrongFlag(err))
		}
		read := len(words) - flags.NArg()
		if flags.NArg() == 0 || read > 0 && words[read-1] == "--" {
			return append(rest, flags.Args()...), nil
		}
		rest, words = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

// wrongFlag has flags as they are written here, with two dashes.
func wrongFlag(err error) string {
	text := err.Error()
	if name, is := strings.CutPrefix(text, "flag provided but not defined: -"); is {
		return "there is no flag --" + strings.TrimLeft(name, "-")
	}
	text = strings.NewReplacer("for flag -", "for flag --", "argument: -", "argument: --", "boolean value", "value", "for -", "for --").Replace(text)
	// One of a letter has one dash.
	return oneLetter.ReplaceAllString(text, " -$1$2")
}

var oneLetter = regexp.MustCompile(` --([a-z])(:|$)`)

// help writes about one command, with its own flags and those of all.
func (c *command) help(to io.Writer, all *flag.FlagSet) {
	fmt.Fprintf(to, "  %s\n\n", c.line())
	for _, line := range c.says {
		fmt.Fprintln(to, line)
	}
	if c.flags != nil {
		own := c.flags()
		any := false
		own.VisitAll(func(*flag.Flag) { any = true })
		if any {
			fmt.Fprintf(to, "\nFlags of %s:\n\n", c.name)
			list(to, own)
		}
	}
	fmt.Fprint(to, "\nFLAGS:\n\n")
	list(to, all)
}

// list writes of flags what each is for, with two dashes in front of those that have more than a letter.
func list(to io.Writer, flags *flag.FlagSet) {
	var text strings.Builder
	flags.SetOutput(&text)
	flags.PrintDefaults()
	for line := range strings.Lines(text.String()) {
		if name, is := strings.CutPrefix(line, "  -"); is && len(strings.Fields(name)[0]) > 1 {
			line = "  --" + name
		}
		fmt.Fprint(to, line)
	}
}

func (c *command) line() string {
	return strings.TrimSpace("kubectl quiver [FLAGS] " + c.name + " " + c.takes)
}

// helpAll writes about all of them.
func helpAll(to io.Writer, all *flag.FlagSet) {
	fmt.Fprint(to, "Look at Quiver on the nodes of a cluster.\n\n")
	for i := range commands {
		one := &commands[i]
		first, says := "  "+one.line(), one.says
		if len(first)+1 < indent {
			fmt.Fprintf(to, "%-*s%s\n", indent, first, says[0])
			says = says[1:]
		} else {
			fmt.Fprintln(to, first)
		}
		for _, line := range says {
			fmt.Fprintf(to, "%*s%s\n", indent, "", line)
		}
	}
	fmt.Fprint(to, "\nFLAGS:\n\n")
	list(to, all)
}
