package connectivity

import (
	"encoding/json"
	"fmt"
	"io"
)

// Line writes a result as a line, and below a failure what to look at next.
func Line(to io.Writer, result Result) {
	mark := map[Outcome]string{Passed: "ok  ", Failed: "FAIL", LeftOut: "-   "}[result.Outcome]
	if result.Outcome == LeftOut {
		fmt.Fprintf(to, "%s  %s: %s\n", mark, result.Check, result.Said)
		return
	}
	// (IPv4 tcp stands in the same column everywhere, so that failures of a kind are seen at a glance.)
	fmt.Fprintf(to, "%s  %-32s  %-4s  %-3s", mark, result.Check, result.Family, result.Protocol)
	if result.From != "" && result.To != "" {
		fmt.Fprintf(to, "  %s > %s", result.From, result.To)
	}
	if result.Said != "" {
		fmt.Fprintf(to, ": %s", result.Said)
	}
	fmt.Fprintln(to)
	if result.Outcome == Failed && result.Next != "" {
		fmt.Fprintf(to, "      look at: %s\n", result.Next)
	}
}

// Sum writes the last line, or with asJSON all of it.
func Sum(to io.Writer, report *Report, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(report)
	}
	count := map[Outcome]int{}
	for _, one := range report.Checks {
		count[one.Outcome]++
	}
	_, err := fmt.Fprintf(to, "%d passed, %d failed, %d left out\n", count[Passed], count[Failed], count[LeftOut])
	if report.Kept && err == nil {
		_, err = fmt.Fprintf(to, "namespace %[1]s is kept: kubectl delete namespace %[1]s\n", report.Namespace)
	} else if report.Failed > 0 && err == nil {
		_, err = fmt.Fprintln(to, "the pods are gone: run it with --keep to look at what stands there")
	}
	return err
}
