package inspect

import (
	"net/netip"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

// What `quiver show acl --match --output json` printed on both nodes of a cluster.
var said = map[string]string{
	"n1": `{"tenant":"pod:everybody","verdict":"passes","steps":[]}`,
	"n2": `{"tenant":"pod:everybody","verdict":"denied","steps":[
		{"place":"ingress","acl":"np:node","action":"unspecified","answers":false},
		{"place":"ingress","acl":"np:self:default.web:5dd4a2d9d4f1","action":"unspecified","answers":false},
		{"place":"ingress","acl":"np:in:default.web.v1:1a3b5c7d9e1f","action":"unspecified","answers":false}]}`,
	"n3": `{"tenant":"pod:everybody","verdict":"passes","steps":[
		{"place":"egress","acl":"np:node","action":"unspecified","answers":false},
		{"place":"egress","acl":"np:out:red.asks:1a3b5c7d9e1f","rule":{"number":2,"rule":{"name":"egress-0.1"}},"action":"reflect","answers":false},
		{"place":"ingress","acl":"np:node","rule":{"number":1,"rule":{"name":"from-0","remark":"the node always reaches its pods"}},"action":"reflect","answers":false}]}`,
	"n4": `{"tenant":"pod:everybody","verdict":"denied","steps":[
		{"place":"egress","acl":"np:self:default.web:5dd4a2d9d4f1","action":"unspecified","answers":false},
		{"place":"egress","acl":"np:admin-out:p:1a3b5c7d9e1f","action":"unspecified","answers":false},
		{"place":"egress","acl":"np:rest","action":"reflect","answers":false},
		{"place":"ingress","acl":"np:node","action":"unspecified","answers":false},
		{"place":"ingress","acl":"np:admin-in:p:1a3b5c7d9e1f","rule":{"number":1,"rule":{"name":"0.ingress-0.0","remark":"ingress-0 of ClusterNetworkPolicy p (to-tenants)"}},"action":"unspecified","answers":false},
		{"place":"ingress","acl":"np:baseline-in:q:1a3b5c7d9e1f","rule":{"number":3,"rule":{"name":"0.ingress-2.0","remark":"ingress-2 of BaselineAdminNetworkPolicy default"}},"action":"deny","answers":false}]}`,
}

func TestExplainNamesPoliciesAndRulesOnBothNodes(t *testing.T) {
	addresses := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	var asked []string
	ask := func(node string, words ...string) ([]byte, error) {
		asked = append(asked, node+": "+strings.Join(words, " "))
		return []byte(said[node]), nil
	}
	from, to := end{addresses("10.0.0.5", "fd00::5"), "n1"}, end{addresses("10.0.1.7", "fd00:1::7"), "n2"}
	all, err := explain(from, to, "tcp/80", ask)
	var out strings.Builder
	pass, failed := PrintVerdicts(&out, all)
	want := `FROM      TO         NODE  VERDICT  BECAUSE
10.0.0.5  10.0.1.7   n1    passes   no policy is for it
10.0.0.5  10.0.1.7   n2    denied   ingress: no rule of NetworkPolicy default/web.v1
fd00::5   fd00:1::7  n1    passes   no policy is for it
fd00::5   fd00:1::7  n2    denied   ingress: no rule of NetworkPolicy default/web.v1
`
	if err != nil || failed != nil || pass || out.String() != want {
		t.Errorf("%v, %v, passes %v:\n%s", err, failed, pass, out.String())
	}
	if want := "n2: show acl --match 10.0.0.5 10.0.1.7 tcp/80"; asked[1] != want {
		t.Errorf("asked %q, not %q", asked[1], want)
	}

	// Of two on a node it is asked once; an address is on none.
	all, err = explain(end{addresses("10.0.2.5"), "n3"}, end{addresses("10.0.2.7"), "n3"}, "tcp/80", ask)
	because := "egress: egress-0.1 of NetworkPolicy red/asks; ingress: the node always reaches its pods"
	if err != nil || len(all) != 1 || !all[0].Passes || all[0].Because != because {
		t.Errorf("%v, %+v", err, all)
	}
	all, err = explain(end{addresses("10.0.3.5"), "n4"}, end{addresses("10.0.3.7"), "n4"}, "tcp/80", ask)
	because = "egress: no policy decides; ingress: passed on by ingress-0 of ClusterNetworkPolicy p (to-tenants), then ingress-2 of BaselineAdminNetworkPolicy default"
	if err != nil || len(all) != 1 || all[0].Passes || all[0].Because != because {
		t.Errorf("%v, %+v", err, all)
	}
	if all, err = explain(end{addresses("192.0.2.1"), ""}, to, "tcp/80", ask); err != nil || len(all) != 1 || all[0].Node != "n2" {
		t.Errorf("%v, %+v", err, all)
	}

	if _, err = explain(end{addresses("192.0.2.1"), ""}, end{addresses("192.0.2.2"), ""}, "tcp/80", ask); err == nil {
		t.Error("two addresses are explained")
	}
	if _, err = explain(end{addresses("fd00::1"), ""}, end{addresses("10.0.1.7"), "n2"}, "tcp/80", ask); err == nil {
		t.Error("two families are explained")
	}
}

func TestAHostIsWhoItIsInTunnels(t *testing.T) {
	routes := `{"objects":[{"object":{"route":{"prefix":"10.244.1.0/24","next_hops":[{"interface":"HOP"}]}}},{"object":{"route":{"prefix":"0.0.0.0/0","next_hops":[{"interface":"pod:host"}]}}}]}`
	nodes := []Node{
		{Name: "n1", Pod: &core.Pod{}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}},
		{Name: "n2", Pod: &core.Pod{}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24"), netip.MustParsePrefix("fd00:2::/64")}},
	}
	web := end{[]netip.Addr{netip.MustParseAddr("10.244.1.5")}, "n1"}
	for hop, cases := range map[string]map[string]string{"pod:to-n1": {"192.0.2.2": "10.244.2.0", "192.0.2.1": "192.0.2.1", "203.0.113.9": "203.0.113.9"}, "pod:host": {"192.0.2.2": "192.0.2.2"}} {
		for from, want := range cases {
			got, err := end{addresses: []netip.Addr{netip.MustParseAddr(from)}}.behindTunnel(web, nodes, func(string, ...string) ([]byte, error) {
				return []byte(strings.Replace(routes, "HOP", hop, 1)), nil
			})
			if err != nil || len(got.addresses) != 1 || got.addresses[0].String() != want || got.node != "" {
				t.Errorf("%s by %s: %+v, %v", from, hop, got, err)
			}
		}
	}
}
