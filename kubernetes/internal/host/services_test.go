package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/service"
)

// inNode goes on in a namespace of a node, whose device towards quiverd is no more than a device. Where quiverd would answer, the node does.
func inNode(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add quiver0 type veth peer name quiver1", "link set quiver0 up", "link set quiver1 up", "link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up",
		"address add 192.168.7.1/24 dev eth0", "address add fd00:7::1/64 dev eth0 nodad",
		"address add 10.244.1.254/32 dev lo", "address add fd00:1::fe/128 dev lo nodad")
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
		if err := services.Bring(service.Lead{Addresses: addresses}, all); err != nil {
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
		if err := services.Bring(service.Lead{Addresses: []netip.Addr{one, other, taken}}, all); err == nil || !strings.Contains(err.Error(), "10.96.0.9/32: somebody else") {
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

// sayingWhere listens at an address and tells who connects which that is.
func sayingWhere(t *testing.T, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
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
	return listener
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
			defer sayingWhere(t, netip.AddrPortFrom(source, uint16(port)).String()).Close()
		}
	}
	tcp := func(port uint16) service.NodePort { return service.NodePort{Protocol: core.ProtocolTCP, Port: port} }
	expect := func(all bool, brought []service.NodePort, want ...bool) {
		t.Helper()
		if err := services.Bring(service.Lead{NodePorts: brought, Sources: sources}, all); err != nil {
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

// Where a pod would listen, the node does, at the address of the pod.
func TestPortsOfTheNodeLeadToPods(t *testing.T) {
	inNode(t)
	nstest.IP(t, "address", "add", "10.244.1.7/32", "dev", "lo")
	nstest.IP(t, "address", "add", "10.244.1.8/32", "dev", "lo")
	nstest.IP(t, "address", "add", "fd00:1::7/128", "dev", "lo")
	nstest.IP(t, "address", "add", "192.168.8.1/24", "dev", "eth0")
	services, err := OpenServices("quiver0")
	if err != nil {
		t.Fatal(err)
	}
	defer services.Close()
	for _, pod := range []string{"10.244.1.7:80", "10.244.1.8:81", "[fd00:1::7]:80"} {
		defer sayingWhere(t, pod).Close()
	}
	to := func(node, pod string, protocol core.Protocol) service.HostPort {
		at := netip.MustParseAddrPort(node)
		return service.HostPort{Place: service.Place{Address: at.Addr(), Protocol: protocol, Port: at.Port()}, To: netip.MustParseAddrPort(pod)}
	}
	bring := func(all bool, ports ...service.HostPort) {
		t.Helper()
		if err := services.Bring(service.Lead{HostPorts: ports}, all); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want map[string]string) {
		t.Helper()
		for _, address := range []string{"192.168.7.1", "192.168.8.1", "127.0.0.1", "fd00:7::1", "::1"} {
			if got := answered(address, 8080); got != want[address] {
				t.Errorf("%s is answered by %q", address, got)
			}
		}
	}
	everywhere := []service.HostPort{to("0.0.0.0:8080", "10.244.1.7:80", core.ProtocolTCP), to("[::]:8080", "[fd00:1::7]:80", core.ProtocolTCP)}
	bring(true, everywhere...)
	expect(map[string]string{"192.168.7.1": "10.244.1.7:80", "192.168.8.1": "10.244.1.7:80", "fd00:7::1": "[fd00:1::7]:80"})
	// Each address has its own pod, and so does the loopback one; another protocol is another port.
	one, other := to("192.168.7.1:8080", "10.244.1.7:80", core.ProtocolTCP), to("127.0.0.1:8080", "10.244.1.8:81", core.ProtocolTCP)
	bring(false, one, other, to("192.168.8.1:8080", "10.244.1.8:81", core.ProtocolUDP))
	expect(map[string]string{"192.168.7.1": "10.244.1.7:80", "127.0.0.1": "10.244.1.8:81"})
	bring(false, other)
	expect(map[string]string{"127.0.0.1": "10.244.1.8:81"})
	// An address that isn't the node's stays whose it is, until the node has it.
	nstest.IP(t, "route", "add", "203.0.113.9", "dev", "eth0")
	bring(false, other, to("203.0.113.9:8080", "10.244.1.7:80", core.ProtocolTCP))
	if got := answered("203.0.113.9", 8080); got != "" {
		t.Errorf("somebody else's address is answered by %s", got)
	}
	nstest.IP(t, "address", "add", "203.0.113.9/32", "dev", "eth0")
	if got := answered("203.0.113.9", 8080); got != "10.244.1.7:80" {
		t.Errorf("an address that has come is answered by %q", got)
	}
	// Somebody takes rules away.
	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	connection.FlushTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	expect(nil)
	bring(true, other)
	expect(map[string]string{"127.0.0.1": "10.244.1.8:81"})
	bring(false)
	expect(nil)
	if tables, err := connection.ListTables(); err != nil || len(tables) != 0 {
		t.Errorf("left: %v, %v", tables, err)
	}
}

// A client goes on sending by the same port while pods come and go: each datagram goes to who is there.
func TestDatagramsFollowWhoHasThePort(t *testing.T) {
	inNode(t)
	services, err := OpenServices("quiver0")
	if err != nil {
		t.Fatal(err)
	}
	defer services.Close()
	listen := func(address string) net.PacketConn {
		t.Helper()
		nstest.IP(t, "address", "add", address+"/32", "dev", "lo")
		listener, err := net.ListenPacket("udp", address+":53")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		return listener
	}
	pods := []net.PacketConn{listen("10.244.1.7"), listen("10.244.1.8")}
	client, err := net.ListenPacket("udp", "192.168.7.1:40000")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	node := &net.UDPAddr{IP: net.IPv4(192, 168, 7, 1), Port: 5353}
	// Somebody else answers there before.
	own, err := net.ListenPacket("udp", "192.168.7.1:5353")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	got := func(who net.PacketConn, text string) {
		t.Helper()
		if _, err := client.WriteTo([]byte(text), node); err != nil {
			t.Fatal(err)
		}
		if err := who.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 100)
		if n, _, err := who.ReadFrom(data); err != nil || string(data[:n]) != text {
			t.Errorf("%s: %q, %v", who.LocalAddr(), data[:n], err)
		}
	}
	got(own, "before")
	for _, pod := range pods {
		port := service.HostPort{
			Place: service.Place{Address: netip.IPv4Unspecified(), Protocol: core.ProtocolUDP, Port: 5353}, To: netip.MustParseAddrPort(pod.LocalAddr().String()),
		}
		if err := services.Bring(service.Lead{HostPorts: []service.HostPort{port}}, false); err != nil {
			t.Fatal(err)
		}
		got(pod, "for "+pod.LocalAddr().String())
	}
	// A Service is asked there now.
	source, err := net.ListenPacket("udp", "10.244.1.254:1024")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	external := service.ExternalPort{
		Place: service.Place{Address: netip.MustParseAddr("192.168.7.1"), Protocol: core.ProtocolUDP, Port: 5353}, To: netip.MustParseAddrPort("10.244.1.254:1024"),
	}
	if err := services.Bring(service.Lead{ExternalPorts: []service.ExternalPort{external}, Sources: []netip.Addr{external.To.Addr()}}, false); err != nil {
		t.Fatal(err)
	}
	got(source, "for the Service")
	if err := services.Bring(service.Lead{}, false); err != nil {
		t.Fatal(err)
	}
	got(own, "afterwards")
}

func TestWhatTheKernelCouldntForgetIsTriedAgain(t *testing.T) {
	inNode(t)
	services, err := OpenServices("quiver0")
	if err != nil {
		t.Fatal(err)
	}
	defer services.Close()
	var asked []string
	fails := map[uint16]error{}
	before := deleteConnections
	defer func() { deleteConnections = before }()
	deleteConnections = func(_ netlink.ConntrackTableType, _ netlink.InetFamily, filters ...netlink.CustomConntrackFilter) (uint, error) {
		for number := uint16(5353); number < 5357; number++ {
			for _, filter := range filters {
				if filter.MatchConntrackFlow(&netlink.ConntrackFlow{Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP, DstPort: number}}) {
					asked = append(asked, fmt.Sprint(number))
					return 0, fails[number]
				}
			}
		}
		return 0, errors.New("some other port")
	}
	bring := func(wantAsked string, failing []uint16, numbers ...uint16) {
		t.Helper()
		asked, fails = nil, map[uint16]error{}
		busy := errors.New("busy")
		for _, number := range failing {
			fails[number] = busy
		}
		var ports []service.HostPort
		for _, number := range numbers {
			place := service.Place{Address: netip.IPv4Unspecified(), Protocol: core.ProtocolUDP, Port: number}
			ports = append(ports, service.HostPort{Place: place, To: netip.MustParseAddrPort("10.244.1.7:53")})
		}
		if err := services.Bring(service.Lead{HostPorts: ports}, true); errors.Is(err, busy) != (len(failing) > 0) || err != nil && len(failing) == 0 {
			t.Errorf("told %v", err)
		}
		if slices.Sort(asked); strings.Join(asked, " ") != wantAsked {
			t.Errorf("the kernel was asked to forget %q", asked)
		}
	}
	bring("5353 5354", []uint16{5353}, 5353, 5354)
	// The one that came is gone, and another is there: what is done isn't done again.
	bring("5353 5355", []uint16{5353, 5355}, 5354, 5355)
	// And that has gone, too.
	bring("5353 5355", []uint16{5355}, 5354)
	bring("5355", nil, 5354)
	bring("", nil, 5354)
	bring("5354", nil)
}
