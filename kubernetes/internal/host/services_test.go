package host

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/service"
)

// inNode goes on in a namespace of a node, whose device towards quiverd is no more than a device. Where quiverd would answer, the node does.
func inNode(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add quiver0 type veth peer name quiver1", "link set quiver0 up", "link set quiver1 up", "link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up",
		"address add 192.168.7.1/24 dev eth0", "address add fd00:7::1/64 dev eth0 nodad",
		"address add 10.244.1.254/32 dev lo", "address add fd00:1::fe/128 dev lo")
}

func serviceRoutes(t *testing.T) (all []string) {
	for line := range strings.Lines(nstest.IP(t, "-4", "route", "show", "proto", "82") + nstest.IP(t, "-6", "route", "show", "proto", "82")) {
		all = append(all, strings.Join(strings.Fields(line)[:3], " "))
	}
	return all
}

func TestAddressesOfServicesLeadToTheDevice(t *testing.T) {
	inNode(t)
	nstest.IP(t, "route", "add", "10.96.0.9", "via", "192.168.7.9")
	nstest.IP(t, "route", "add", "10.244.2.0/24", "via", "192.168.7.9", "proto", "81")
	services, err := OpenServices("quiver0")
	if err != nil {
		t.Fatal(err)
	}
	defer services.Close()
	one, other, taken := netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00:96::1"), netip.MustParseAddr("10.96.0.9")
	bring := func(all bool, want []string, addresses ...netip.Addr) {
		t.Helper()
		if err := services.Bring(addresses, nil, nil, all); err != nil {
			t.Error(err)
		}
		if got := serviceRoutes(t); !slices.Equal(got, want) {
			t.Errorf("%v: %q", addresses, got)
		}
	}
	both := []string{"10.96.0.1 dev quiver0", "fd00:96::1 dev quiver0"}
	bring(true, both, one, other)
	bring(false, both[1:], other)
	bring(false, both, other, one)
	// Somebody takes one away: it is back when all is looked at.
	nstest.IP(t, "route", "del", "10.96.0.1")
	bring(false, both[1:], other, one)
	bring(true, both, other, one)
	// One that was there stays, and the others are complete.
	for _, all := range []bool{false, true} {
		if err := services.Bring([]netip.Addr{one, other, taken}, nil, nil, all); err == nil || !strings.Contains(err.Error(), "10.96.0.9/32: somebody else") {
			t.Errorf("told %v", err)
		}
		if got := serviceRoutes(t); !slices.Equal(got, both) {
			t.Errorf("%q", got)
		}
	}
	if err := WithdrawServices(); err != nil {
		t.Error(err)
	}
	if got := serviceRoutes(t); got != nil {
		t.Errorf("left: %q", got)
	}
	if rest := nstest.IP(t, "route"); !strings.Contains(rest, "10.244.2.0/24") || !strings.Contains(rest, "10.96.0.9") {
		t.Errorf("gone: %s", rest)
	}
}

// answered tells whether somebody answers at an address and port of the node, and who.
func answered(address string, port int) string {
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(address, fmt.Sprint(port)), 10*time.Second)
	if err != nil {
		return ""
	}
	defer connection.Close()
	text := make([]byte, 100)
	n, _ := connection.Read(text)
	return string(text[:n])
}

func TestPortsOfTheNodeLeadToTheSource(t *testing.T) {
	inNode(t)
	services, err := OpenServices("quiver0")
	if err != nil {
		t.Fatal(err)
	}
	defer services.Close()
	sources := []netip.Addr{netip.MustParseAddr("10.244.1.254"), netip.MustParseAddr("fd00:1::fe")}
	ports := []int{30080, 30443}
	for _, source := range sources {
		for _, port := range ports {
			listener, err := net.Listen("tcp", netip.AddrPortFrom(source, uint16(port)).String())
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				for {
					connection, err := listener.Accept()
					if err != nil {
						return
					}
					fmt.Fprint(connection, listener.Addr())
					connection.Close()
				}
			}()
		}
	}
	tcp := func(port uint16) service.NodePort { return service.NodePort{Protocol: core.ProtocolTCP, Port: port} }
	expect := func(all bool, brought []service.NodePort, want ...bool) {
		t.Helper()
		if err := services.Bring(nil, brought, sources, all); err != nil {
			t.Fatal(err)
		}
		for i, port := range ports {
			for j, address := range []string{"192.168.7.1", "fd00:7::1"} {
				who := netip.AddrPortFrom(sources[j], uint16(port)).String()
				if !want[i] {
					who = ""
				}
				if got := answered(address, port); got != who {
					t.Errorf("%v: %s port %d: %q", brought, address, port, got)
				}
			}
		}
		if got := answered("127.0.0.1", ports[0]); got != "" {
			t.Errorf("the loopback address was answered by %s", got)
		}
	}
	expect(true, nil, false, false)
	expect(false, []service.NodePort{tcp(30080), {Protocol: core.ProtocolUDP, Port: 30443}}, true, false)
	expect(false, []service.NodePort{tcp(30080), tcp(30443)}, true, true)
	expect(false, []service.NodePort{tcp(30443)}, false, true)
	// Somebody flushes all rules.
	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	connection.FlushRuleset()
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	expect(true, []service.NodePort{tcp(30443)}, false, true)
	// More than one message holds.
	var many []service.NodePort
	for port := range uint16(2768) {
		many = append(many, tcp(30000+port), service.NodePort{Protocol: core.ProtocolUDP, Port: 30000 + port})
	}
	expect(false, many, true, true)
	if err := WithdrawServices(); err != nil {
		t.Fatal(err)
	}
	if tables, err := connection.ListTables(); err != nil || len(tables) != 0 {
		t.Errorf("left: %v, %v", tables, err)
	}
	if err := WithdrawServices(); err != nil {
		t.Error("a second time: ", err)
	}
}
