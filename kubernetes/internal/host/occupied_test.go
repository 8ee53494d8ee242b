package host

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/service"
)

func TestWhereAHostListensIsKnown(t *testing.T) {
	inNode(t)
	nstest.IP(t, "address", "add", "203.0.113.9/32", "dev", "eth0")
	for _, address := range []string{"192.168.7.1:22", "0.0.0.0:80", "[fd00:7::1]:443", "[::]:6443", "127.0.0.1:2379"} {
		network := "tcp6"
		if strings.Contains(address, ".") {
			network = "tcp4"
		}
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	datagrams, err := net.ListenPacket("udp4", "203.0.113.9:53")
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	// Whoever is connected takes nothing from others.
	for _, network := range []string{"tcp4", "udp4"} {
		connection, err := (&net.Dialer{LocalAddr: map[string]net.Addr{
			"tcp4": &net.TCPAddr{IP: net.IPv4(192, 168, 7, 1), Port: 4000}, "udp4": &net.UDPAddr{IP: net.IPv4(192, 168, 7, 1), Port: 4000},
		}[network]}).Dial(network, "192.168.7.1:22")
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
	}
	found, err := Occupied()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for place := range found {
		got[place.String()] = true
	}
	want := []string{
		"192.168.7.1:22 TCP", "0.0.0.0:80 TCP", "[fd00:7::1]:443 TCP", "[::]:6443 TCP", "0.0.0.0:6443 TCP", "127.0.0.1:2379 TCP", "203.0.113.9:53 UDP",
	}
	for _, place := range want {
		if !got[place] {
			t.Errorf("nobody listens at %s", place)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

// What only passes by is told from what stays.
func TestAClientsSocketForDatagramsIsOnlyForTheMoment(t *testing.T) {
	inNode(t)
	for network, lasts := range map[string]bool{"udp4": false, "tcp4": true} {
		var port int
		if network == "udp4" {
			socket, err := net.ListenPacket(network, "192.168.7.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			port = socket.LocalAddr().(*net.UDPAddr).Port
		} else {
			socket, err := net.Listen(network, "192.168.7.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			port = socket.Addr().(*net.TCPAddr).Port
		}
		protocol := map[bool]core.Protocol{false: core.ProtocolUDP, true: core.ProtocolTCP}[lasts]
		found, err := Occupied()
		lasting, there := found[service.Place{Address: netip.MustParseAddr("192.168.7.1"), Protocol: protocol, Port: uint16(port)}]
		if err != nil || !there || lasting != lasts {
			t.Errorf("%s: %t, %t, %v", network, there, lasting, err)
		}
	}
}

// As net/sctp/proc.c writes it: of a server at all addresses, of one at two, and of a client.
func TestEndpointsOfSCTPThatListenAreKnown(t *testing.T) {
	const table = ` ENDPT     SOCK   STY SST HBKT LPORT   UID INODE LADDRS
00000000a1b2c3d4 00000000b1b2c3d4 2   10  29   38412     0 77001 0.0.0.0 ` + `
00000000a1b2c3d5 00000000b1b2c3d5 1   10  30   2905      0 77002 192.168.7.1 fd00:0007:0000:0000:0000:0000:0000:0001 ` + `
00000000a1b2c3d6 00000000b1b2c3d6 1   7   31   40000     0 77003 192.168.7.1 ` + `
00000000a1b2c3d7 00000000b1b2c3d7 1   10  32   36412     0 77004 0000:0000:0000:0000:0000:0000:0000:0000 ` + `
`
	found := map[service.Place]bool{}
	if err := readEndpoints(strings.NewReader(table), stateListening, found); err != nil {
		t.Fatal(err)
	}
	var got []string
	for place := range found {
		got = append(got, place.String())
	}
	slices.Sort(got)
	want := "0.0.0.0:36412 SCTP, 0.0.0.0:38412 SCTP, 192.168.7.1:2905 SCTP, [::]:36412 SCTP, [fd00:7::1]:2905 SCTP"
	if strings.Join(got, ", ") != want {
		t.Errorf("%q", got)
	}
	for _, wrong := range []string{"header\n1 2 3\n", "header\n0 0 1 10 32 x 0 77004 ::\n", "header\n0 0 1 10 32 80 0 77004 nowhere\n"} {
		if err := readEndpoints(strings.NewReader(wrong), stateListening, found); err == nil {
			t.Errorf("%q is understood", wrong)
		}
	}
}

// An address of the node's own keeps all of its ports but those.
func TestSinglePortsOfAnAddressLeadToTheSource(t *testing.T) {
	inNode(t)
	nstest.IP(t, "address", "add", "203.0.113.9/32", "dev", "eth0")
	services, err := OpenServices("quiver0")
	if err != nil {
		t.Fatal(err)
	}
	defer services.Close()
	sources := []netip.Addr{netip.MustParseAddr("10.244.1.254"), netip.MustParseAddr("fd00:1::fe")}
	for _, address := range []string{"10.244.1.254:1024", "10.244.1.254:1025", "10.244.1.254:80", "[fd00:1::fe]:1024", "203.0.113.9:81", "192.168.7.1:80"} {
		defer sayingWhere(t, address).Close()
	}
	external := func(from, to string) service.ExternalPort {
		at := netip.MustParseAddrPort(from)
		return service.ExternalPort{Place: service.Place{Address: at.Addr(), Protocol: core.ProtocolTCP, Port: at.Port()}, To: netip.MustParseAddrPort(to)}
	}
	pod := service.HostPort{Place: service.Place{Address: netip.IPv4Unspecified(), Protocol: core.ProtocolTCP, Port: 80}, To: netip.MustParseAddrPort("10.244.1.254:80")}
	expect := func(lead service.Lead, want map[string]string) {
		t.Helper()
		lead.Sources = sources
		if err := services.Bring(lead, false); err != nil {
			t.Fatal(err)
		}
		for _, place := range []string{"203.0.113.9:80", "203.0.113.9:81", "192.168.7.1:80", "[fd00:7::1]:80"} {
			at := netip.MustParseAddrPort(place)
			if got := answered(at.Addr().String(), int(at.Port())); got != want[place] {
				t.Errorf("%s is answered by %q", place, got)
			}
		}
		if !portsOf(&lead).empty() && !portsOf(&lead).filled().isThere() {
			t.Error("it would be made anew each time")
		}
	}
	one, other, six := external("203.0.113.9:80", "10.244.1.254:1024"), external("192.168.7.1:80", "10.244.1.254:1025"), external("[fd00:7::1]:80", "[fd00:1::fe]:1024")
	before := map[string]string{"203.0.113.9:81": "203.0.113.9:81", "192.168.7.1:80": "192.168.7.1:80"}
	expect(service.Lead{}, before)
	expect(service.Lead{ExternalPorts: []service.ExternalPort{one, six}}, map[string]string{
		"203.0.113.9:80": "10.244.1.254:1024", "203.0.113.9:81": "203.0.113.9:81", "192.168.7.1:80": "192.168.7.1:80", "[fd00:7::1]:80": "[fd00:1::fe]:1024",
	})
	// They go before ports of all addresses: whose a place is has been decided.
	expect(service.Lead{ExternalPorts: []service.ExternalPort{other}, HostPorts: []service.HostPort{pod}}, map[string]string{
		"203.0.113.9:80": "10.244.1.254:80", "203.0.113.9:81": "203.0.113.9:81", "192.168.7.1:80": "10.244.1.254:1025",
	})
	// More than one message holds.
	var many []service.ExternalPort
	for port := range 3000 {
		many = append(many, external(fmt.Sprintf("203.0.113.9:%d", 2000+port), "10.244.1.254:1024"))
	}
	expect(service.Lead{ExternalPorts: append(many, one)}, map[string]string{
		"203.0.113.9:80": "10.244.1.254:1024", "203.0.113.9:81": "203.0.113.9:81", "192.168.7.1:80": "192.168.7.1:80",
	})
	// An address that isn't the node's any more is left to whose it is now.
	nstest.IP(t, "address", "del", "203.0.113.9/32", "dev", "eth0")
	nstest.IP(t, "route", "add", "203.0.113.9", "dev", "eth0")
	if got := answered("203.0.113.9", 80); got != "" {
		t.Errorf("somebody else's address is answered by %s", got)
	}
	nstest.IP(t, "address", "add", "203.0.113.9/32", "dev", "eth0")
	expect(service.Lead{}, before)
}

func TestAddressesThatComeAndGoAreTold(t *testing.T) {
	inNode(t)
	told := make(chan struct{}, 100)
	WatchAddresses(t.Context(), func() { told <- struct{}{} }, nil)
	nstest.IP(t, "address", "add", "203.0.113.9/32", "dev", "eth0")
	<-told
	nstest.IP(t, "address", "del", "203.0.113.9/32", "dev", "eth0")
	<-told
}
