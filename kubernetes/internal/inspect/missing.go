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

// missing says why an address of an end leads nowhere on its node; empty: it does lead there.
func (e end) missing(address netip.Addr, ask asker) (because string, err error) {
	if e.gone != "" || e.node == "" {
		return e.gone, nil
	}
	var found struct {
		Entries []struct {
			Prefix netip.Prefix
			Action string
		}
	}
	if err := read(&found, ask.of(e.node), "show", "fib", address.String()); err != nil {
		return "", err
	}
	if len(found.Entries) == 0 {
		return fmt.Sprintf("nobody has %v there: quiverd has no route to it", address), nil
	}
	taken := found.Entries[0]
	switch {
	case taken.Prefix.IsSingleIP() && taken.Action == "forward":
		return "", nil
	case e.pod != "":
		return fmt.Sprintf("quiverd has no route to pod %s (%v): it has no interface of Quiver's, or the agent isn't ready; if it stays so, delete the pod, so that it is made anew", e.pod, address), nil
	case taken.Action == "forward":
		return fmt.Sprintf("nobody has %v there: quiverd takes the route %v, which is no pod's", address, taken.Prefix), nil
	}
	return fmt.Sprintf("nobody has %v there: quiverd takes the route %v, and answers that it is %s", address, taken.Prefix, taken.Action), nil
}

// without has verdicts of an end's node deny what leads nowhere there, whatever policies say.
func (e end) without(all []Verdict, ask asker) {
	for i := range all {
		one := &all[i]
		for _, address := range e.addresses {
			// (Who couldn't be asked about policies isn't asked this.)
			if one.Node != e.node || one.From != address && one.To != address || one.Unknown && e.gone == "" {
				continue
			}
			because, err := e.missing(address, ask)
			if err != nil {
				*one = Verdict{From: one.From, To: one.To, Port: one.Port, Node: one.Node, Service: one.Service, Endpoints: one.Endpoints}.notAsked(err)
			}
			if because != "" {
				one.Passes, one.Unknown, one.Because, one.said = false, false, because, nil
				break
			}
		}
	}
}
