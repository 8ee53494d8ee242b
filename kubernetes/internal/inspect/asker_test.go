package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// serial answers one at a time.
func serial(ask asker) asker {
	var lock sync.Mutex
	return func(node string, words ...string) ([]byte, error) {
		lock.Lock()
		defer lock.Unlock()
		return ask(node, words...)
	}
}

func TestAQuestionIsAskedOnceAndNotTooManyAtOnce(t *testing.T) {
	var lock sync.Mutex
	asked, under, most := map[string]int{}, map[string]int{}, 0
	arrived, release := make(chan string, 64), make(chan struct{})
	ask := asker(func(node string, words ...string) ([]byte, error) {
		lock.Lock()
		asked[node+" "+words[0]]++
		under[node]++
		most = max(most, under[node])
		lock.Unlock()
		arrived <- node
		<-release
		lock.Lock()
		under[node]--
		lock.Unlock()
		return []byte(node + " " + words[0]), nil
	}).remembering()
	var waiting sync.WaitGroup
	for i := range 20 {
		for _, node := range []string{"n1", "n2"} {
			waiting.Go(func() {
				question := fmt.Sprint(i % 10)
				if said, err := ask(node, question); err != nil || string(said) != node+" "+question {
					t.Errorf("%s, %v", said, err)
				}
			})
		}
	}
	// Nobody answers yet: each node has as many questions as it may, whatever the other one does.
	begun := map[string]int{}
	for range 2 * mostOfNode {
		begun[<-arrived]++
	}
	close(release)
	waiting.Wait()
	if begun["n1"] != mostOfNode || begun["n2"] != mostOfNode || most != mostOfNode || len(asked) != 20 {
		t.Errorf("%v begun, %d at once, asked %v", begun, most, asked)
	}
	for question, times := range asked {
		if times != 1 {
			t.Errorf("%s is asked %d times", question, times)
		}
	}
}

// What is known of others is told where a node can't be asked, and what that node would say is unknown.
func TestOfANodeThatCannotBeAskedItsVerdictsAloneAreUnknown(t *testing.T) {
	cluster := &Cluster{namespace: "quiver"}
	leaving := pod(core.ConditionFalse)
	leaving.Name, leaving.Spec.Containers = "quiver-x7", []core.Container{{Name: uninstallContainer}}
	nodes := []Node{{Name: "n1", Pod: pod(core.ConditionTrue)}, {Name: "n2", Pod: pod(core.ConditionTrue)}, {Name: "n3"}, {Name: "n4", Pod: leaving}}
	b := web("10.96.0.1")
	b.slices[0].Endpoints = append(b.slices[0].Endpoints, discovery.Endpoint{Addresses: []string{"10.0.1.8"}, NodeName: new("n3")}, discovery.Endpoint{Addresses: []string{"10.0.1.9"}, NodeName: new("n4")})
	backends := strings.NewReplacer(`"draining"`, `"active"`).Replace(twoBackends)
	ask := func(node string, words ...string) ([]byte, error) {
		switch {
		case node != "n1" && node != "n2":
			return cluster.callAmong(t.Context(), nodes, node, words...)
		case words[0] == "explain":
			return []byte(toBackend), nil
		case words[1] == "vip":
			return []byte(backends), nil
		}
		return []byte(said["n1"]), nil
	}
	all, err := b.explain(end{addresses: addresses("10.0.0.5"), node: "n1"}, "tcp/80", nodes, ask)
	var out []string
	for _, one := range all[min(1, len(all)):] {
		out = append(out, fmt.Sprintf("%v %s %s %s", one.To, one.Node, one.word(), one.Because))
	}
	want := `10.0.1.7 n1 passes no policy is for it
10.0.1.7 n2 passes no policy is for it
10.0.1.8 n1 passes no policy is for it
10.0.1.8 n3 unknown the node couldn't be asked: quiver show acl --match 10.0.0.5 10.0.1.8 tcp/8080: there is no pod of Quiver in namespace quiver
10.0.1.9 n1 passes no policy is for it
10.0.1.9 n4 unknown the node couldn't be asked: quiver show acl --match 10.0.0.5 10.0.1.9 tcp/8080: Quiver is being uninstalled: see the log of pod quiver-x7`
	if got := strings.Join(out, "\n"); err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := cluster.callAmong(t.Context(), nodes, "n9"); err == nil || strings.Contains(err.Error(), "n9") {
		t.Errorf("whoever asks names the node, too: %v", err)
	}
	// So it is from outside, where each node is asked by itself, and of a node's port.
	outside := external()
	all, err = outside.explain(end{addresses: addresses("198.51.100.9")}, "tcp/80", []Node{
		{Name: "n1", Pod: pod(core.ConditionTrue), Addresses: addresses("192.168.7.1")}, {Name: "n2", Pod: pod(core.ConditionTrue), Addresses: addresses("192.168.7.2")},
	}, func(node string, words ...string) ([]byte, error) {
		if node == "n2" {
			return nil, errors.New("no answer within 15s")
		}
		return ask(node, words...)
	})
	unknown := 0
	for _, one := range all {
		if one.Unknown {
			unknown++
			if one.Node != "n2" || !strings.HasSuffix(one.Because, ": no answer within 15s") || strings.Contains(one.Because, "n2") {
				t.Errorf("%+v", one)
			}
		}
	}
	// Of n2: at the address and at its port, and as the node of the endpoint that n1 gives.
	if err != nil || unknown != 3 || !all[0].Passes {
		t.Errorf("%v, %+v", err, all)
	}
	// Whether a pod of another node gets to a port of this one isn't known either where its own can't be asked.
	if seen, all := toNode(podOnN1, addressNodes[1], podOnN1.addresses[0], netip.MustParseAddrPort("192.168.7.2:80"), "tcp", addressNodes, asks(nil)); seen.IsValid() || len(all) != 1 || !all[0].Unknown {
		t.Errorf("%v, %+v", seen, all)
	}
}
