package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/policy"
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
	ask := serial(func(node string, words ...string) ([]byte, error) {
		asked = append(asked, node+": "+strings.Join(words, " "))
		return []byte(said[node]), nil
	})
	from, to := end{addresses: addresses("10.0.0.5", "fd00::5"), node: "n1"}, end{addresses: addresses("10.0.1.7", "fd00:1::7"), node: "n2"}
	all, err := explain(from, to, "tcp/80", ask)
	var out strings.Builder
	pass, failed := PrintVerdicts(&out, all, false)
	want := `FROM      TO         NODE  VERDICT  BECAUSE
10.0.0.5  10.0.1.7   n1    passes   no policy is for it
10.0.0.5  10.0.1.7   n2    denied   ingress: no rule of NetworkPolicy default/web.v1
fd00::5   fd00:1::7  n1    passes   no policy is for it
fd00::5   fd00:1::7  n2    denied   ingress: no rule of NetworkPolicy default/web.v1
`
	if err != nil || failed != nil || pass || out.String() != want {
		t.Errorf("%v, %v, passes %v:\n%s", err, failed, pass, out.String())
	}
	if want := "n2: show acl --match 10.0.0.5 10.0.1.7 tcp/80"; !slices.Contains(asked, want) {
		t.Errorf("asked %q, not %q", asked, want)
	}

	// Of two on a node it is asked once; an address is on none.
	all, err = explain(end{addresses: addresses("10.0.2.5"), node: "n3"}, end{addresses: addresses("10.0.2.7"), node: "n3"}, "tcp/80", ask)
	because := "egress: egress-0.1 of NetworkPolicy red/asks; ingress: the node always reaches its pods"
	if err != nil || len(all) != 1 || !all[0].Passes || all[0].Because != because {
		t.Errorf("%v, %+v", err, all)
	}
	all, err = explain(end{addresses: addresses("10.0.3.5"), node: "n4"}, end{addresses: addresses("10.0.3.7"), node: "n4"}, "tcp/80", ask)
	because = "egress: no policy decides; ingress: passed on by ingress-0 of ClusterNetworkPolicy p (to-tenants), then ingress-2 of BaselineAdminNetworkPolicy default"
	if err != nil || len(all) != 1 || all[0].Passes || all[0].Because != because {
		t.Errorf("%v, %+v", err, all)
	}
	if all, err = explain(end{addresses: addresses("192.0.2.1"), node: ""}, to, "tcp/80", ask); err != nil || len(all) != 1 || all[0].Node != "n2" {
		t.Errorf("%v, %+v", err, all)
	}

	if _, err = explain(end{addresses: addresses("192.0.2.1"), node: ""}, end{addresses: addresses("192.0.2.2"), node: ""}, "tcp/80", ask); err == nil {
		t.Error("two addresses are explained")
	}
	if _, err = explain(end{addresses: addresses("fd00::1"), node: ""}, end{addresses: addresses("10.0.1.7"), node: "n2"}, "tcp/80", ask); err == nil {
		t.Error("two families are explained")
	}
}

// A name in the dataplane has 63 characters: of a long policy's, two lists look alike but for the hash behind it.
func TestExplainTellsPoliciesApartWhoseNamesBeginAlike(t *testing.T) {
	key := func(end string) types.NamespacedName {
		return types.NamespacedName{Namespace: "payments-production", Name: "allow-ingress-from-monitoring-" + end}
	}
	asks := func(keys ...types.NamespacedName) []Verdict {
		var steps []string
		for _, key := range keys {
			steps = append(steps, fmt.Sprintf(`{"place":"ingress","acl":%q,"action":"unspecified"}`, policy.ListNames(key)[0]))
		}
		steps = append(steps, fmt.Sprintf(`{"place":"egress","acl":%q,"rule":{"number":1,"rule":{"name":"egress-0.1"}},"action":"reflect"}`, policy.ListNames(keys[0])[1]))
		all, err := explain(end{addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, node: "n1"}, end{addresses: []netip.Addr{netip.MustParseAddr("10.0.1.7")}}, "tcp/80", func(string, ...string) ([]byte, error) {
			return []byte(`{"verdict":"denied","steps":[` + strings.Join(steps, ",") + `]}`), nil
		})
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %+v", err, all)
		}
		return all
	}
	one, other, exact := key("prometheus"), key("grafana"), types.NamespacedName{Namespace: "shop", Name: strings.Repeat("x", 39)}
	all := asks(one, other, exact)
	const begun = "payments-production/allow-ingress-from-monit"
	if want := "egress: egress-0.1 of NetworkPolicy " + begun[:43] + "…; ingress: no rule of NetworkPolicy " + begun + "…, NetworkPolicy " + begun + "…, NetworkPolicy " + exact.String(); all[0].Because != want {
		t.Errorf("%s\nwant %s", all[0].Because, want)
	}
	if got := cutOff(all); len(got) != 1 || !got["payments-production"] {
		t.Errorf("policies are looked for in %v", got)
	}
	names := map[string]types.NamespacedName{}
	for _, known := range []types.NamespacedName{one, other} {
		for _, list := range policy.ListNames(known) {
			names[list] = known
		}
	}
	rename(all, names)
	if want := fmt.Sprintf("egress: egress-0.1 of NetworkPolicy %s; ingress: no rule of NetworkPolicy %[1]s, NetworkPolicy %s, NetworkPolicy %s", one, other, exact); all[0].Because != want {
		t.Errorf("%s\nwant %s", all[0].Because, want)
	}
	// Of a namespace with so long a name not even that is known.
	long := asks(types.NamespacedName{Namespace: strings.Repeat("n", 63), Name: "p"})
	if got := cutOff(long); len(got) != 1 || !got[core.NamespaceAll] || !strings.Contains(long[0].Because, "NetworkPolicy "+strings.Repeat("n", 44)+"…") {
		t.Errorf("%v, %s", got, long[0].Because)
	}
	if got := cutOff(asks(types.NamespacedName{Namespace: "shop", Name: "web"})); len(got) != 0 {
		t.Errorf("policies are looked for in %v", got)
	}
}

func TestAHostIsWhoItIsInTunnels(t *testing.T) {
	routes := `{"objects":[{"object":{"route":{"prefix":"10.244.1.0/24","next_hops":[{"interface":"HOP"}]}}},{"object":{"route":{"prefix":"0.0.0.0/0","next_hops":[{"interface":"pod:host"}]}}}]}`
	nodes := []Node{
		{Name: "n1", Pod: &core.Pod{}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}},
		{Name: "n2", Pod: &core.Pod{}, Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.2.0/24"), netip.MustParsePrefix("fd00:2::/64")}},
	}
	web := end{addresses: []netip.Addr{netip.MustParseAddr("10.244.1.5")}, node: "n1"}
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

// Who isn't meant by a name is told what would be.
func TestNamesThatAreNoPodsOfQuiversTellWhatToSay(t *testing.T) {
	host := podAt("agent", "n1", "192.168.7.1")
	host.Spec.HostNetwork, host.Status.HostIPs = true, []core.HostIP{{IP: "192.168.7.1"}, {IP: "fd00:7::1"}}
	web, _ := served("web", "10.96.0.1", 80, 0, 8080)
	own := web
	own.Namespace, own.Name = "default", "kubernetes"
	cluster := apiOf(t, []core.Service{web, own}, nil, []core.Pod{host})
	for name, want := range map[string]string{
		"n1":         "there is no pod n1 in namespace default; n1 is a node: where it is the other end, give its address: 192.168.7.1 or fd00:7::1",
		"shop/agent": "pod shop/agent has the network of its node, n1, not one of Quiver's; where it is the other end, give the node's address: 192.168.7.1 or fd00:7::1",
		"client":     "there is no pod client in namespace default; one of another namespace is NAMESPACE/client",
		"red/client": "there is no pod client in namespace red",
		"kubernetes": "there is no pod kubernetes in namespace default; there is a Service of that name: say svc/kubernetes",
		"shop/web":   "there is no pod web in namespace shop; there is a Service of that name: say svc/shop/web",
	} {
		if _, err := cluster.end(t.Context(), name); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cluster.behind(t.Context(), named{"shop", "none", ""}); err == nil || err.Error() != "there is no Service none in namespace shop" {
		t.Error(err)
	}
}
