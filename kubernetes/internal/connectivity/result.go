package connectivity

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome of a check.
type Outcome string

// These are all.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	LeftOut Outcome = "left out"
)

// Result is what came of a check.
type Result struct {
	// Check says what is looked at.
	Check string `json:"check"`
	// Family and Protocol of the packets: "IPv4" or "IPv6", "tcp" or "udp"; empty where there is no one.
	Family   string `json:"family,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// From whom to whom.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Outcome, and what was said.
	Outcome Outcome `json:"outcome"`
	Said    string  `json:"said,omitempty"`
	// Next is what to look at if it failed.
	Next string `json:"next,omitempty"`
}

// judge says what came of it: the probe's answer, or why there was none; asked tells whether it could ask at all.
func (c *check) judge(said string, failed error, asked bool) Result {
	result := c.Result
	result.Said = strings.TrimSpace(said)
	switch {
	case failed != nil && (!c.silent || !asked):
		result.Outcome, result.Said = Failed, failed.Error()
	case failed != nil:
		result.Outcome, result.Said = Passed, "nobody answered"
	case c.silent:
		result.Outcome, result.Said = Failed, "was answered: "+result.Said
	case c.answers == nil || slices.ContainsFunc(c.answers, func(want string) bool { return result.Said == want || strings.HasPrefix(result.Said, want+" ") }):
		result.Outcome = Passed
	default:
		result.Outcome, result.Said = Failed, fmt.Sprintf(`the answer was "%s", not "%s"`, result.Said, strings.Join(c.answers, `" or "`))
	}
	if result.Outcome == Passed {
		result.Next = ""
	}
	return result
}
