package connectivity

import (
	"io"

	"quiver/kubernetes/internal/escape"
)

// Line writes a result as a line, and below a failure what to look at next.
func Line(to io.Writer, result Result) {
	mark := map[Outcome]string{Passed: "ok  ", Failed: "FAIL", LeftOut: "-   "}[result.Outcome]
	if result.Outcome == LeftOut {
		escape.Fprintf(to, "%s  %s: %s\n", mark, result.Check, result.Said)
		return
	}
	// (IPv4 tcp stands in the same column everywhere, so that failures of a kind are seen at a glance.)
	escape.Fprintf(to, "%s  %-32s  %-4s  %-3s", mark, result.Check, result.Family, result.Protocol)
	if result.From != "" && result.To != "" {
		escape.Fprintf(to, "  %s > %s", result.From, result.To)
	}
	if result.Said != "" {
		escape.Fprintf(to, ": %s", result.Said)
	}
	escape.Fprintln(to)
	if result.Outcome == Failed && result.Next != "" {
		escape.Fprintf(to, "      look at: %s\n", result.Next)
	}
}

// Sum writes the last line, or with asJSON all of it.
func Sum(to io.Writer, report *Report, asJSON bool) error {
	if asJSON {
		return escape.JSON(to, report)
	}
	count := map[Outcome]int{}
	for _, one := range report.Checks {
		count[one.Outcome]++
	}
	_, err := escape.Fprintf(to, "%d passed, %d failed, %d left out\n", count[Passed], count[Failed], count[LeftOut])
	if report.Kept && err == nil {
		_, err = escape.Fprintf(to, "namespace %[1]s is kept: kubectl delete namespace %[1]s\n", report.Namespace)
	} else if report.Failed > 0 && err == nil {
		_, err = escape.Fprintln(to, "the pods are gone: run it with --keep to look at what stands there")
	}
	return err
}
