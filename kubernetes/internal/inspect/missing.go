package inspect

import (
	"fmt"
	"net/netip"

	core "k8s.io/api/core/v1"
)

// ended tells whether a pod's containers have ended for good, and its address may be another one's.
func ended(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}

// missing says why an address of an end leads nowhere on its node; empty: it does lead there, or that node can't be asked.
func (e end) missing(address netip.Addr, ask asker) string {
	if e.gone != "" || e.node == "" {
		return e.gone
	}
	var found struct {
		Entries []struct {
			Prefix netip.Prefix
			Action string
		}
	}
	// (Whoever can't be asked says so where policies are asked about.)
	if err := read(&found, ask.of(e.node), "show", "fib", address.String()); err != nil || len(found.Entries) == 0 {
		return ""
	}
	taken := found.Entries[0]
	switch {
	case taken.Prefix.IsSingleIP() && taken.Action == "forward":
		return ""
	case e.pod != "":
		return fmt.Sprintf("quiverd has no route to pod %s (%v): it has no interface of Quiver's, or the agent isn't ready; if it stays so, delete the pod, so that it is made anew", e.pod, address)
	case taken.Action == "forward":
		return fmt.Sprintf("nobody has %v there: quiverd takes the route %v, which is no pod's", address, taken.Prefix)
	}
	return fmt.Sprintf("nobody has %v there: quiverd takes the route %v, and answers that it is %s", address, taken.Prefix, taken.Action)
}

// without has verdicts of an end's node deny what leads nowhere there, whatever policies say.
func (e end) without(all []Verdict, ask asker) {
	for i := range all {
		one := &all[i]
		for _, address := range e.addresses {
			if one.Node != e.node || one.From != address && one.To != address {
				continue
			}
			if because := e.missing(address, ask); because != "" {
				one.Passes, one.Unknown, one.Because, one.said = false, false, because, nil
				break
			}
		}
	}
}
