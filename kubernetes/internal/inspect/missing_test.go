package inspect

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

// What policies let pass leads nowhere all the same where nobody has the address.
func TestWhatNobodyHasDoesNotPass(t *testing.T) {
	done := podAt("done", "n2", "10.0.1.9")
	done.Status.Phase = core.PodSucceeded
	over := podAt("over", "n2")
	over.Status.Phase = core.PodFailed
	web, _ := served("web", "10.96.0.1", 80, 0, 8080, "10.0.1.8")
	cluster := apiOf(t, []core.Service{web}, nil, []core.Pod{podAt("a", "n1", "10.0.0.5"), podAt("b", "n2", "10.0.1.7"), podAt("bare", "n2", "10.0.1.8"), podAt("late", "n2", "10.0.1.6"), podAt("lost", "n1", "10.0.0.9"), done, over})
	routes := map[string]string{"10.0.0.5": "10.0.0.5/32", "10.0.1.7": "10.0.1.7/32", "10.0.0.1": "10.0.0.1/32"}
	ask := func(node string, words ...string) ([]byte, error) {
		switch {
		case words[0] == "show" && words[1] == "acl":
			return []byte(said["n1"]), nil
		case words[0] == "show" && words[1] == "fib" && words[2] == "10.0.1.6":
			return nil, errors.New("no answer")
		case words[0] == "show" && words[1] == "fib":
			if prefix, is := routes[words[2]]; is {
				return []byte(`{"entries":[{"prefix":"` + prefix + `","source":"static","action":"forward"}]}`), nil
			}
			return []byte(`{"entries":[{"prefix":"10.0.0.0/16","source":"static","action":"unreachable","paths":[]}]}`), nil
		}
		return asks(nil)(node, words...)
	}
	const passes, hasNone = "no policy is for it", "it has no interface of Quiver's, or the agent isn't ready; if it stays so, delete the pod, so that it is made anew"
	for _, one := range []struct {
		from, to string
		want     []string
	}{
		{"shop/a", "shop/b", []string{"n1 passes " + passes, "n2 passes " + passes}},
		{"shop/a", "10.0.0.1", []string{"n1 passes " + passes}},
		{"shop/a", "10.0.1.200", []string{"n1 passes " + passes, "n2 denied nobody has 10.0.1.200 there: quiverd takes the route 10.0.0.0/16, and answers that it is unreachable"}},
		{"shop/a", "shop/bare", []string{"n1 passes " + passes, "n2 denied quiverd has no route to pod shop/bare (10.0.1.8): " + hasNone}},
		{"shop/a", "shop/late", []string{"n1 passes " + passes, "n2 unknown the node couldn't be asked: quiver show fib 10.0.1.6: no answer"}},
		// A host whose own quiverd doesn't answer keeps nobody from being told.
		{"192.168.7.1", "shop/b", []string{"n2 unknown as whom it sees the sender isn't known: node n1: quiver get route: nobody knows what \"n1: get route\" says"}},
		{"shop/lost", "shop/b", []string{"n1 denied quiverd has no route to pod shop/lost (10.0.0.9): " + hasNone, "n2 passes " + passes}},
		{"shop/lost", "192.0.2.1", []string{"n1 denied quiverd has no route to pod shop/lost (10.0.0.9): " + hasNone}},
		{"shop/a", "shop/done", []string{"n1 passes " + passes, "n2 denied pod shop/done has ended (Succeeded): nobody has its address any more, or another one has"}},
	} {
		all, err := cluster.explainOn(t.Context(), one.from, one.to, "tcp/80", addressNodes, ask)
		var got []string
		for _, verdict := range all {
			got = append(got, verdict.Node+" "+verdict.word()+" "+verdict.Because)
		}
		if err != nil || strings.Join(got, "\n") != strings.Join(one.want, "\n") {
			t.Errorf("%s to %s: %v\n%s", one.from, one.to, err, strings.Join(got, "\n"))
		}
	}
	if _, err := cluster.explainOn(t.Context(), "shop/a", "shop/over", "tcp/80", addressNodes, ask); err == nil || err.Error() != "pod shop/over has ended (Failed): nobody has its address any more, or another one has" {
		t.Error(err)
	}
	// So it is behind a Service.
	b := behind{named: named{"shop", "web", ""}, service: &web, nodes: addressNodes}
	backend := end{addresses: addresses("10.0.1.8"), node: "n2"}
	all := b.policies(podOnN1, backend, podOnN1.addresses[0], netip.MustParseAddrPort("10.0.1.8:8080"), "tcp", ask)
	if len(all) != 2 || !all[0].Passes || all[1].word() != "denied" || !strings.HasPrefix(all[1].Because, "nobody has 10.0.1.8 there") {
		t.Errorf("%+v", all)
	}
	// What is in no range of that node isn't quiverd's to have.
	elsewhere := end{addresses: addresses("203.0.113.5"), node: "n2"}
	all = b.policies(podOnN1, elsewhere, podOnN1.addresses[0], netip.MustParseAddrPort("203.0.113.5:8080"), "tcp", ask)
	if len(all) != 2 || !all[0].Passes || !all[1].Passes {
		t.Errorf("%+v", all)
	}
}
