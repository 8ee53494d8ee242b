package inspect

import (
	"slices"
	"strings"
)

// arrivals are what belongs to the packets that are wanted: not to those that were sent beyond their number, and not what came before any of them,
// while the sender's node wasn't looked at yet. What is nobody's later on stays: segments that were cut or joined on their way.
func arrivals(hops, wanted, beyond []Hop) (all []Hop) {
	count := func(hops []Hop) map[string]int {
		marks := map[string]int{}
		for _, hop := range hops {
			marks[hop.headers.mark()]++
		}
		return marks
	}
	ours, others, before := count(wanted), count(beyond), true
	for _, hop := range hops {
		mark := hop.headers.mark()
		is, isnt := ours[mark] > 0, others[mark] > 0
		if before && (is || isnt) {
			all, before = nil, false
		}
		if is {
			ours[mark]--
		} else if isnt {
			others[mark]--
			continue
		}
		all = append(all, hop)
	}
	return all
}

// add joins what a node has seen to the ways so far: a packet goes on that has the same mark, the first of these that isn't there yet.
func (t *Traced) add(hops []Hop, first bool) {
	begun := len(t.Ways)
	for _, hop := range hops {
		i := -1
		if !first {
			i = slices.IndexFunc(t.Ways[:begun], func(way Way) bool {
				sees := func(before Hop) bool { return before.Node == hop.Node }
				return way.Hops[0].headers.mark() == hop.headers.mark() && !slices.ContainsFunc(way.Hops, sees)
			})
		}
		if i < 0 {
			words := []string{hop.headers.network, hop.headers.transport}
			t.Ways = append(t.Ways, Way{Packet: strings.TrimSpace(strings.Join(words, "; "))})
			i = len(t.Ways) - 1
		}
		t.Ways[i].Hops = append(t.Ways[i].Hops, hop)
	}
}
