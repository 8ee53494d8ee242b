package host

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/prometheus/client_golang/prometheus"

	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/pods"
)

// As `iptables-save` has it of a host with Docker and no containers.
const docker = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER RULES
-A DOCKER-USER -j RETURN
COMMIT
`

// As ufw has it, what is of no account left out.
const ufw = `*filter
:FORWARD DROP [0:0]
:ufw-before-forward - [0:0]
:ufw-user-forward - [0:0]
:ufw-reject-forward - [0:0]
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-reject-forward
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A ufw-before-forward -j ufw-user-forward
-A ufw-user-forward RULES
COMMIT
`

// As firewalld has it: the policy accepts, the last rule doesn't.
const firewalld = `table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state { invalid } drop
		ip6 daddr { ::/96, ::ffff:0.0.0.0/96, 2002::/24 } reject with icmpv6 addr-unreachable
		jump filter_FORWARD_POLICIES
		reject with icmpx admin-prohibited
	}
	chain filter_FORWARD_POLICIES {
		iifname "up0" oifname "up0" goto filter_FWD_public
		iifname "up0" jump filter_FWD_public
		oifname "up0" jump filter_FWD_public
		return
	}
	chain filter_FWD_public {
		RULES
		return
	}
}
`

const plain = `table inet mine {
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		RULES
	}
}
`

// Rules of a host, and how many of the four ways are refused: out and in, of both families.
func TestFirewallsThatDropWhatPodsSendAreNamed(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}
	for _, c := range []struct {
		name, program, rules, more string
		refused                    int
		words                      string
	}{
		{"nobody", "nft", "", "", 0, ""},
		{"docker", "iptables-nft-restore", docker, "-o docker0", 2, `chain FORWARD of table ip filter: let it pass there, by ` + "`" + `nft insert rule ip filter FORWARD iifname "quiver0" oifname "up0" accept`},
		{"docker, and its user lets out", "iptables-nft-restore", docker, "-i quiver0 -j ACCEPT", 1, `IPv4 from "up0" to "quiver0"`},
		{"docker, and its user lets what is of pods pass", "iptables-nft-restore", docker, "-s 10.244.0.0/16 -j ACCEPT\n-A DOCKER-USER -d 10.244.0.0/16 -j ACCEPT", 0, ""},
		{"docker, and its user lets others pass", "iptables-nft-restore", docker, "-s 10.244.2.0/23 -j ACCEPT", 1, `IPv4 from "quiver0" to "up0"`},
		{"docker, and its user asks what isn't known here", "iptables-nft-restore", docker, "-m mark --mark 7 -j ACCEPT", 0, ""},
		{"docker, and its user drops more", "iptables-nft-restore", docker, "-m mark --mark 7 -j DROP", 2, ""},
		{"ufw", "iptables-nft-restore", ufw, "-p udp --dport 53 -j ACCEPT", 2, ""},
		{"ufw with a route", "iptables-nft-restore", ufw, "-i quiver+ -j ACCEPT\n-A ufw-user-forward -o quiver+ -j ACCEPT", 0, ""},
		{"ufw of IPv6", "ip6tables-nft-restore", strings.ReplaceAll(ufw, "-p icmp -m icmp --icmp-type 8", "-p icmpv6"), "-i docker0 -j ACCEPT", 2, "table ip6 filter"},
		{"firewalld", "nft", firewalld, `iifname "other0" accept`, 4, "chain filter_FORWARD of table inet firewalld"},
		{"firewalld with a zone", "nft", firewalld, `iifname { "quiver0", "other0" } accept; oifname "quiver0" accept`, 0, ""},
		{"one's own", "nft", plain, "ct state established,related accept", 4, ""},
		{"one's own, with a way out", "nft", plain, "iif quiver0 counter accept\nip6 daddr fd00:1::/64 accept", 1, `IPv4 from "up0" to "quiver0"`},
		{"one's own, by a map", "nft", plain, "iifname vmap { quiver0 : jump out, other0 : accept }\n}\nchain out {\nmeta nfproto ipv4 return\naccept", 3, ""},
		{"one's own, by an address's map", "nft", plain, "ip saddr vmap { 10.244.1.0/24 : accept }", 2, ""},
		{"another hook", "nft", strings.ReplaceAll(plain, "hook forward", "hook input"), "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			nstest.Alone(t, "link set lo up", "link add quiver0 type veth peer name up0")
			text := strings.ReplaceAll(c.rules, "RULES", c.more)
			load(t, c.program, text)
			err := refusedByFirewall(passings("quiver0", "up0", ranges, false))
			refused := 0
			if err != nil {
				refused = strings.Count(err.Error(), "\n") + 1
			}
			if refused != c.refused || c.words != "" && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%d refused, not %d: %v", refused, c.refused, err)
			}
		})
	}
}

// The library leaves out what it doesn't know: the second value that is compared isn't that of the first.
func TestWhatIsMissingInARuleIsNotKnown(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	in := by(expr.MetaKeyIIFNAME, expr.CmpOpEq, "quiver0")
	load := &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}
	other := &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: []byte{7, 0, 0, 0}}
	drop := &expr.Verdict{Kind: expr.VerdictDrop}
	for name, c := range map[string]struct {
		rule []expr.Any
		want match
	}{
		"all of it":           {append(slices.Clone(in), drop), yes},
		"a load":              {append(slices.Clone(in), other, drop), maybe},
		"a load that is lost": {[]expr.Any{load, &expr.Immediate{Register: 1, Data: []byte{7}}, other, drop}, maybe},
		"after a set":         {[]expr.Any{load, &expr.Lookup{SourceRegister: 1, SetName: "names"}, other, drop}, maybe},
		"loaded once more":    {slices.Concat(in, in, []expr.Any{drop}), yes},
	} {
		names := []nftables.SetElement{{Key: nameOf("quiver0")}}
		w := walk{ruleset: ruleset{sets: map[string][]nftables.SetElement{"names": names}}, packet: newPacket(passing{in: "quiver0", v4: true})}
		if got, does := w.meets(&nftables.Rule{Exprs: c.rule}); got != c.want || does.kind != drops {
			t.Errorf("%s: %d, %+v", name, got, does)
		}
	}
}

// What tunnels have packed passes by another device, and conntrack doesn't know it.
func TestFirewallsThatDropTunnelsAreNamed(t *testing.T) {
	for rules, want := range map[string]int{"": 2, "iifname quiver-vxlan accept": 1, "ct state untracked udp dport 4789 accept": 0, "ct state established,new accept": 2, "tcp dport 4789 accept": 2} {
		t.Run(rules, func(t *testing.T) {
			nstest.Alone(t, "link set lo up")
			load(t, "nft", "table ip own {\nchain forward {\ntype filter hook forward priority 0; policy drop;\n"+rules+"\n}\n}\n")
			err := refusedByFirewall(passings("quiver0", "up0", nil, true))
			if refused := len(strings.FieldsFunc(errText(err), func(r rune) bool { return r == '\n' })); refused != want {
				t.Errorf("%d refused, not %d: %v", refused, want, err)
			}
		})
	}
}

// here are nodes of which this one has pods.
type here struct{ nodes }

func (h *here) Self() (pods.Node, bool) {
	return pods.Node{Name: "n1", Ranges: prefixes("10.244.1.0/24"), Addresses: addresses("192.168.7.1")}, true
}

func TestWhatTheHostKeepsFromPodsIsLookedAtAnewAndTold(t *testing.T) {
	inNamespace(t)
	setting := func(value string) {
		for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	var told []string
	f := follower(&here{nodes{others: []pods.Node{n2}, known: true}})
	f.Warn = func(about error) { told = append(told, about.Error()) }
	now := time.Now()
	f.now = func() time.Time { return now }
	registry := prometheus.NewRegistry()
	if err := f.Figures(registry); err != nil {
		t.Fatal(err)
	}
	defer func() { f.table.Close() }()
	for i, c := range []struct {
		forward, rules string
		warns          []string
	}{
		{"1", "", nil},
		{"0", "", []string{"sysctl -w net/ipv4/ip_forward=1"}},
		{"1", "table ip own {\nchain forward {\ntype filter hook forward priority 0; policy drop;\n}\n}", []string{`IPv4 from "quiver0" to "eth0": chain forward of table ip own`, `IPv4 from "eth0" to "quiver0"`}},
		{"1", "add rule ip own forward iifname quiver0 accept\nadd rule ip own forward oifname quiver0 accept", nil},
	} {
		setting(c.forward)
		load(t, "nft", c.rules+"\n")
		// Its firewall isn't read each time that a route changes.
		before := errText(f.refused)
		if f.bring(t.Context()); i > 0 && errText(f.refused) != before {
			t.Errorf("%d: the firewall is read again at once", i)
		}
		now = now.Add(resync)
		f.bring(t.Context())
		text := errText(f.Warning())
		for _, words := range c.warns {
			if !strings.Contains(text, words) {
				t.Errorf("%d: %q lacks %q", i, text, words)
			}
		}
		// Of a family that pods haven't got nothing is asked.
		if c.warns == nil && text != "" || strings.Contains(text, "ipv6") {
			t.Errorf("%d: %s", i, text)
		}
		figures, err := registry.Gather()
		refuses := -1.0
		for _, one := range figures {
			if one.GetName() == "quiver_agent_host_refuses" {
				refuses = one.Metric[0].Gauge.GetValue()
			}
		}
		if err != nil || refuses != float64(min(len(c.warns), 1)) {
			t.Errorf("%d: %v, %v", i, err, refuses)
		}
		// The same again is no news.
		f.bring(t.Context())
	}
	if len(told) != 2 || f.Ready() != nil {
		t.Errorf("told %q; %v", told, f.Ready())
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// load has the kernel have rules, as a program reads them from a file.
func load(t *testing.T, program, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	words := []string{file}
	if program == "nft" {
		words = []string{"-f", file}
	}
	if out, err := exec.Command(program, words...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}
