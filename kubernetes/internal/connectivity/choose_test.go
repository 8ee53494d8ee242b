package connectivity

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/inspect"
)

// nodesOf are some by their names: one in capitals forwards, one behind a minus is closed to pods, from one
// behind a tilde Quiver has been taken away.
func nodesOf(text string) (all []inspect.Node) {
	for word := range strings.FieldsSeq(text) {
		name, closed := strings.CutPrefix(word, "-")
		pod := &core.Pod{}
		if rest, leaves := strings.CutPrefix(name, "~"); leaves {
			name, pod.Spec.Containers = rest, []core.Container{{Name: "uninstall"}}
		}
		if name == strings.ToUpper(name) {
			pod.Status.Conditions = []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}}
		}
		all = append(all, inspect.Node{Name: name, Pod: pod, Closed: closed})
	}
	return append(all, inspect.Node{Name: "NONE"})
}

func TestNodesThatForwardAndAreNotClosedAreChosen(t *testing.T) {
	for _, one := range []struct{ nodes, names, want, closed, fails string }{
		{nodes: "A b C D", want: "A C"},
		{nodes: "-A b C D -E", want: "C D", closed: "node A"},
		{nodes: "-A B -C", want: "B", closed: "node A,node C"},
		{nodes: "~A B", want: "B"},
		// Somebody knows better.
		{nodes: "-A B C", names: "A C", want: "A C"},
		{nodes: "A b", names: "b", want: "b"},
		{nodes: "a -B", fails: "node B: no pods shall come there (kubectl uncordon B)"},
		{nodes: "a -b", fails: "there is no node whose Quiver forwards"},
		{nodes: "A", names: "X", fails: "node X has no pod of Quiver"},
		{nodes: "A", names: "NONE", fails: "node NONE has no pod of Quiver"},
	} {
		chosen, left, err := choose(nodesOf(one.nodes), strings.Fields(one.names))
		var got, closed []string
		for _, node := range chosen {
			got = append(got, node.Name)
		}
		for _, check := range left {
			if check.Outcome != LeftOut {
				t.Errorf("%s: %+v", one.nodes, check)
			}
			closed = append(closed, check.Check)
		}
		if !slices.Equal(got, strings.Fields(one.want)) || strings.Join(closed, ",") != one.closed {
			t.Errorf("%s, named %q: chosen %v, closed %v", one.nodes, one.names, got, closed)
		}
		if (err != nil) != (one.fails != "") || err != nil && !strings.Contains(err.Error(), one.fails) {
			t.Errorf("%s, named %q: %v", one.nodes, one.names, err)
		}
	}
}
