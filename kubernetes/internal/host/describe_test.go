package host

import (
	"strings"
	"testing"

	"quiver/kubernetes/internal/nstest"
)

func TestTheHostIsDescribedWithAllThatLeadsPackets(t *testing.T) {
	inNamespace(t)
	for _, words := range []string{"route add default via 192.168.7.9 table 7 metric 5", "route add blackhole 198.51.100.0/24", "rule add from 10.244.1.0/24 table 7 priority 99"} {
		nstest.IP(t, strings.Fields(words)...)
	}
	load(t, "nft", "table inet own {\nset seen { type ipv4_addr; elements = { 192.0.2.1 } }\nchain forward {\ntype filter hook forward priority 0; policy drop;\niifname quiver0 ip saddr @seen counter accept\n}\n}\n")
	load(t, "iptables-nft-restore", docker[:strings.Index(docker, "-A DOCKER-USER RULES")]+"COMMIT\n")
	var out strings.Builder
	if err := Describe(&out); err != nil {
		t.Error(err)
	}
	for _, words := range []string{
		"    192.168.7.1/24\n", "eth0: veth mtu 1500",
		"ip rule 99: from 10.244.1.0/24 to all table 7", "default via 192.168.7.9 dev eth0 proto 3 table 7 metric 5\n", "198.51.100.0/24 type 6 proto 3 table 254",
		"table inet own\n", "  chain forward: type filter hook 2 priority 0 policy drop\n", `Cmp(op 0, register 1, "quiver0")`, "SetName:seen", "set seen: 1 elements\n    c0000201\n",
		"table ip filter\n", "  chain FORWARD: type filter hook 2 priority 0 policy drop\n", `"docker0"`, "Chain:DOCKER-USER", "Match(conntrack ",
	} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("%q isn't there", words)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}
