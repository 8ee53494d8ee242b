package inspect

import (
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"

	"quiver/kubernetes/internal/escape"
)

// Verdict is what one node says of a session that somebody would begin: its policies, or who is behind a Service there.
type Verdict struct {
	// From and To are its ends; of two pods there is one verdict for each family that both have, and each of their nodes.
	From, To netip.Addr
	// Port of To, where it isn't the one that was asked about: a Service's, or the one at which a backend of it listens. 0: that one.
	Port uint16
	// Node that was asked: the sender's judges egress and knows Services, the receiver's judges ingress.
	Node string
	// Passes tells whether packets of both sides would pass there.
	Passes bool
	// Unknown: nobody who could be asked knows whether they would.
	Unknown bool
	// Because names policies and rules, the Service and who is behind it, or what was looked at.
	Because string
	// Service that is asked there, "namespace/name", and its endpoints; empty: none.
	Service   string
	Endpoints []Endpoint
	// What policies on the node say, where Because tells that.
	said *answer
}

// Endpoint is one that a Service has for a session.
type Endpoint struct {
	// Address and port where it listens.
	Address netip.AddrPort `json:"address"`
	// Node on which it is; empty: it isn't known.
	Node string `json:"node,omitempty"`
	// Chosen: the session gets it.
	Chosen bool `json:"chosen"`
	// LeftOut says why it isn't given to such clients; empty: it may be.
	LeftOut string `json:"left_out,omitempty"`
}

// word is the verdict in a word.
func (v Verdict) word() string {
	switch {
	case v.Unknown:
		return "unknown"
	case v.Passes:
		return "passes"
	}
	return "denied"
}

// notAsked is the verdict of a node that couldn't be asked; what it already says of why stays before that.
func (v Verdict) notAsked(err error) Verdict {
	v.Unknown, v.Because = true, fmt.Sprintf("%sthe node couldn't be asked: %v", v.Because, err)
	return v
}

// PrintVerdicts writes them as a table, or in JSON if that is asked for, and tells whether all let pass.
func PrintVerdicts(to io.Writer, all []Verdict, asJSON bool) (pass bool, err error) {
	pass = true
	for _, one := range all {
		pass = pass && one.Passes
	}
	if asJSON {
		return pass, encodeVerdicts(to, all, pass)
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FROM\tTO\tNODE\tVERDICT\tBECAUSE")
	for _, one := range all {
		to := one.To.String()
		if one.Port != 0 {
			to = netip.AddrPortFrom(one.To, one.Port).String()
		}
		escape.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", one.From, to, one.Node, one.word(), one.Because)
	}
	return pass, table.Flush()
}

func encodeVerdicts(to io.Writer, all []Verdict, pass bool) error {
	type verdict struct {
		From      netip.Addr `json:"from"`
		To        netip.Addr `json:"to"`
		Port      uint16     `json:"port,omitempty"`
		Node      string     `json:"node"`
		Verdict   string     `json:"verdict"`
		Because   string     `json:"because"`
		Service   string     `json:"service,omitempty"`
		Endpoints []Endpoint `json:"endpoints,omitempty"`
	}
	said := struct {
		Passes   bool      `json:"passes"`
		Verdicts []verdict `json:"verdicts"`
	}{pass, []verdict{}}
	for _, one := range all {
		said.Verdicts = append(said.Verdicts, verdict{one.From, one.To, one.Port, one.Node, one.word(), one.Because, one.Service, one.Endpoints})
	}
	return escape.JSON(to, said)
}
