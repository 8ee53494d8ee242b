package host

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/pods"
)

// far is a namespace at the other end of a cable.
func far(t *testing.T, role string) string {
	t.Helper()
	name := fmt.Sprintf("qt-%s-%d", role, os.Getpid())
	nstest.IP(t, "netns", "add", name)
	t.Cleanup(func() { nstest.IP(t, "netns", "del", name) })
	nstest.IP(t, "-n", name, "link", "set", "lo", "up")
	return name
}

// in has something done in a namespace: sockets stay there.
func in(t *testing.T, name string, do func()) {
	t.Helper()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	there, err := netns.GetFromName(name)
	if err == nil {
		err = netns.Set(there)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	defer home.Close()
	defer func() {
		if err := netns.Set(home); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// tells has everybody who connects to a namespace told by whose address they are seen.
func tells(t *testing.T, name string) {
	in(t, name, func() {
		listener, err := net.Listen("tcp", "[::]:80")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(connection, netip.MustParseAddrPort(connection.RemoteAddr().String()).Addr().Unmap())
				connection.Close()
			}
		}()
	})
}

// connected is a connection from a namespace, by an address of its own. (Without goroutines of the dialer's: they would be elsewhere.)
func connected(t *testing.T, name, from, to string, port int) (file *os.File) {
	t.Helper()
	in(t, name, func() {
		address := func(text string, port int) unix.Sockaddr {
			if ip := netip.MustParseAddr(text); ip.Is4() {
				return &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
			}
			return &unix.SockaddrInet6{Port: port, Addr: netip.MustParseAddr(text).As16()}
		}
		family := unix.AF_INET
		if strings.Contains(to, ":") {
			family = unix.AF_INET6
		}
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		file = os.NewFile(uintptr(fd), to)
		patience := unix.NsecToTimeval((20 * time.Second).Nanoseconds())
		err = errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience),
			unix.Bind(fd, address(from, 0)))
		if err == nil {
			err = unix.Connect(fd, address(to, port))
		}
		if err != nil {
			file.Close()
			t.Fatalf("%s to %s: %v", from, to, err)
		}
	})
	return file
}

// seenAs asks somebody from a namespace, by an address of its own, as whom it is seen.
func seenAs(t *testing.T, name, from, to string) string {
	t.Helper()
	file := connected(t, name, from, to, 80)
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatalf("%s to %s: %v", from, to, err)
	}
	return string(text)
}

// echoes has a namespace send everything back that it is sent.
func echoes(t *testing.T, name string, port int) {
	in(t, name, func() {
		listener, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					defer connection.Close()
					_, _ = io.Copy(connection, connection)
				}()
			}
		}()
	})
}

// A pod and the world, with a node in between. The world is also another node with a pod, and knows the way to pods.
func TestWhatPodsSendOutOfTheClusterHasTheNodesAddress(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	pod, world := far(t, "pod"), far(t, "world")
	for _, words := range []string{
		"link add quiver0 up type veth peer name eth0 netns " + pod, "-n " + pod + " link set eth0 up", "link add eth0 up type veth peer name eth0 netns " + world, "-n " + world + " link set eth0 up",
		"address add 10.244.1.254/24 dev quiver0", "address add fd00:1::fe/64 dev quiver0 nodad", "address add 192.168.7.1/24 dev eth0", "address add fd00:7::1/64 dev eth0 nodad",
		"-n " + pod + " address add 10.244.1.2/24 dev eth0", "-n " + pod + " address add fd00:1::2/64 dev eth0 nodad",
		"-n " + pod + " route add default via 10.244.1.254", "-n " + pod + " route add default via fd00:1::fe",
		"-n " + world + " address add 192.168.7.2/24 dev eth0", "-n " + world + " address add fd00:7::2/64 dev eth0 nodad",
		"-n " + world + " address add 203.0.113.9/32 dev eth0", "-n " + world + " address add 2001:db8::9/128 dev eth0 nodad",
		"-n " + world + " address add 10.244.2.5/32 dev eth0", "-n " + world + " address add fd00:2::5/128 dev eth0 nodad",
		"-n " + world + " route add 10.244.1.0/24 via 192.168.7.1", "-n " + world + " route add fd00:1::/64 via fd00:7::1",
		"route add default via 192.168.7.2", "route add default via fd00:7::2",
	} {
		nstest.IP(t, strings.Fields(words)...)
	}
	for _, setting := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		if err := os.WriteFile("/proc/sys/net/"+setting, []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tells(t, world)
	tells(t, pod)
	expect := func(want map[string]string) {
		t.Helper()
		for to, as := range want {
			from := "10.244.1.2"
			if strings.Contains(to, ":") {
				from = "fd00:1::2"
			}
			if got := seenAs(t, pod, from, to); got != as {
				t.Errorf("%s sees the pod as %s, not %s", to, got, as)
			}
		}
	}
	itself := map[string]string{
		"203.0.113.9": "10.244.1.2", "192.168.7.2": "10.244.1.2", "10.244.2.5": "10.244.1.2",
		"2001:db8::9": "fd00:1::2", "fd00:7::2": "fd00:1::2", "fd00:2::5": "fd00:1::2",
	}
	expect(itself)

	self := pods.Node{Name: "n1", Ranges: prefixes("10.244.1.0/24", "fd00:1::/64"), Addresses: addresses("192.168.7.1", "fd00:7::1")}
	other := pods.Node{Name: "n2", Ranges: prefixes("10.244.2.0/24", "fd00:2::/64"), Addresses: addresses("192.168.7.2", "fd00:7::2")}
	outgoing := &Outgoing{Families: Families{V4: true, V6: true}}
	bring := func(others ...pods.Node) {
		t.Helper()
		if err := outgoing.Bring(self, others); err != nil {
			t.Fatal(err)
		}
	}
	translated := map[string]string{
		"203.0.113.9": "192.168.7.1", "192.168.7.2": "10.244.1.2", "10.244.2.5": "10.244.1.2",
		"2001:db8::9": "fd00:7::1", "fd00:7::2": "fd00:1::2", "fd00:2::5": "fd00:1::2",
	}
	bring(other)
	expect(translated)
	// Who connects to a pod from outside is answered by the address that was asked, and nobody else's address changes.
	for from, to := range map[string]string{"203.0.113.9": "10.244.1.2", "2001:db8::9": "fd00:1::2"} {
		if got := seenAs(t, world, from, to); got != from {
			t.Errorf("the pod sees %s as %s", from, got)
		}
	}

	// Somebody takes away all, or part of it.
	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := &nftables.Table{Name: outgoingTable, Family: nftables.TableFamilyINet}
	for _, harm := range []func(){connection.FlushRuleset, func() { connection.FlushTable(table) }, func() {
		connection.FlushSet(&nftables.Set{Name: familySet(clusterSet, false), Table: table})
	}} {
		harm()
		if err := connection.Flush(); err != nil {
			t.Fatal(err)
		}
		bring(other)
		expect(translated)
	}
	// Of one family alone, as an agent that comes after this one is told.
	for of, its := range map[Families]func(to string) bool{
		{V4: true}: func(to string) bool { return !strings.Contains(to, ":") }, {V6: true}: func(to string) bool { return strings.Contains(to, ":") },
	} {
		outgoing = &Outgoing{Families: of}
		for range 2 {
			bring(other)
		}
		want := maps.Clone(itself)
		maps.DeleteFunc(want, func(to, _ string) bool { return its(to) })
		for to, as := range translated {
			if its(to) {
				want[to] = as
			}
		}
		expect(want)
	}
	outgoing = &Outgoing{Families: Families{V4: true, V6: true}}
	bring(other)
	// While it runs, it is told of others. Connections go on as they began, though the world has no way to the pod.
	echoes(t, world, 81)
	kept := connected(t, pod, "10.244.1.2", "203.0.113.9", 81)
	defer kept.Close()
	for _, c := range []struct {
		of   Families
		want map[string]string
	}{
		{Families{}, itself}, {Families{}, itself}, {Families{V4: true}, map[string]string{"203.0.113.9": "192.168.7.1", "2001:db8::9": "fd00:1::2"}},
		{Families{V4: true, V6: true}, translated},
	} {
		outgoing.Translate(c.of)
		bring(other)
		expect(c.want)
		nstest.IP(t, "-n", world, "route", "del", "10.244.1.0/24")
		text := make([]byte, 4)
		_, err := kept.WriteString("more")
		if err == nil {
			_, err = io.ReadFull(kept, text)
		}
		if err != nil || string(text) != "more" {
			t.Fatalf("%v: %q came back, %v", c.of, text, err)
		}
		nstest.IP(t, "-n", world, "route", "add", "10.244.1.0/24", "via", "192.168.7.1")
	}
	// Nothing is translated any more, and another agent begins, before it knows other nodes and then: it goes on nevertheless.
	outgoing.Translate(Families{})
	bring(other)
	outgoing = &Outgoing{}
	for _, then := range []func(){func() {}, func() { bring(other) }, func() { bring(other) }} {
		if err := outgoing.Resume(); err != nil {
			t.Fatal(err)
		}
		then()
		expect(itself)
		nstest.IP(t, "-n", world, "route", "del", "10.244.1.0/24")
		text := make([]byte, 4)
		_, err := kept.WriteString("more")
		if err == nil {
			_, err = io.ReadFull(kept, text)
		}
		if err != nil || string(text) != "more" {
			t.Fatalf("after another agent: %q came back, %v", text, err)
		}
		nstest.IP(t, "-n", world, "route", "add", "10.244.1.0/24", "via", "192.168.7.1")
	}
	outgoing.Translate(Families{V4: true, V6: true})
	// The other node goes.
	bring()
	expect(map[string]string{"10.244.2.5": "192.168.7.1", "fd00:2::5": "fd00:7::1", "192.168.7.2": "192.168.7.1"})

	for range 2 {
		if err := WithdrawOutgoing(); err != nil {
			t.Fatal(err)
		}
	}
	if tables, err := connection.ListTables(); err != nil || len(tables) != 0 {
		t.Errorf("left: %v, %v", tables, err)
	}
	expect(itself)
	// Nobody has translated anything.
	outgoing = &Outgoing{}
	if err := outgoing.Resume(); err != nil {
		t.Error(err)
	}
	bring(other)
	outgoing = &Outgoing{Families: Families{V4: true, V6: true}}
	// A node that has no ranges yet has nothing to translate.
	if err := outgoing.Bring(pods.Node{Name: "n1"}, []pods.Node{other}); err != nil {
		t.Error(err)
	}
	if tables, err := connection.ListTables(); err != nil || len(tables) != 0 {
		t.Errorf("without ranges: %v, %v", tables, err)
	}
}

func TestIntervalsAreWhatAllNodesHave(t *testing.T) {
	self := pods.Node{Ranges: prefixes("10.244.1.0/24"), Addresses: addresses("10.0.0.1"), External: addresses("203.0.113.7")}
	others := []pods.Node{
		// Right behind, around, within, and at the end of all addresses.
		{Ranges: prefixes("10.244.2.0/24"), Addresses: addresses("10.0.0.2")}, {Ranges: prefixes("10.1.0.0/16"), Addresses: addresses("10.1.7.7")},
		{Ranges: prefixes("255.255.255.0/24", "fd00:1::/64"), Addresses: addresses("10.0.0.1")},
	}
	l := leavingOf(self, others, Families{V4: true, V6: true})
	show := func(v4 bool) (text string) {
		for _, element := range intervals(l.cluster, v4) {
			address, _ := netip.AddrFromSlice(element.Key)
			if text += " " + address.String(); element.IntervalEnd {
				text += "]"
			}
		}
		return text
	}
	if got := show(true); got != " 10.0.0.1 10.0.0.3] 10.1.0.0 10.2.0.0] 10.244.1.0 10.244.3.0] 203.0.113.7 203.0.113.8] 255.255.255.0" {
		t.Error(got)
	}
	if got := show(false); got != " fd00:1:: fd00:1:0:1::]" {
		t.Error(got)
	}
}
