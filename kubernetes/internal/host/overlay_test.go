package host

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	core "k8s.io/api/core/v1"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/service"
)

var self = pods.Node{Name: "n1", Ranges: prefixes("10.244.1.0/24", "fd00:10:244:1::/64"), Addresses: addresses("192.168.7.1", "fd00:7::1")}

// static are nodes that don't change.
func static(others ...pods.Node) Nodes { return &pods.Static{This: self, Rest: others} }

// withOverlay is a follower in a namespace that has what quiverd would have made.
func withOverlay(t *testing.T, mode overlay.Mode, others ...pods.Node) (f *Follower, told func() *dataplane.Paths) {
	inNamespace(t)
	for _, device := range []string{"quiver0", dataplane.UnderlayDevice} {
		nstest.IP(t, "tuntap", "add", device, "mode", "tun")
		nstest.IP(t, "link", "set", device, "up")
	}
	f = follower(static(others...))
	f.Overlay = overlay.Settings{Mode: mode, Port: 4789, VNI: 4096}
	last := &dataplane.Paths{}
	f.Tell = func(_ context.Context, paths dataplane.Paths) error {
		*last = paths
		return nil
	}
	t.Cleanup(func() {
		if f.table != nil {
			f.table.Close()
		}
	})
	return f, func() *dataplane.Paths { return last }
}

func TestTheHostReachesPodsThroughTunnelsWithAnAddressOfItsOwnRangeAndOthersAsBefore(t *testing.T) {
	far := pods.Node{Name: "far", Ranges: prefixes("10.244.3.0/24", "fd00:10:244:3::/64"), Addresses: addresses("172.16.0.3", "fd00:9::3")}
	f, told := withOverlay(t, overlay.CrossSubnet, n2, far)
	for range 2 {
		if !f.bring(t.Context()) {
			t.Fatal(f.told)
		}
	}
	all := strings.Join(routes(t), "\n")
	for _, want := range []string{
		"10.244.2.0/24 via 192.168.7.2 dev eth0", "10.244.3.0/24 dev quiver0 proto 81 scope link", "fd00:10:244:2::/64 via fd00:7::2", "fd00:10:244:3::/64 dev quiver0 proto 81 src fd00:10:244:1::",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	// The kernel takes that address where it shall, and nowhere else.
	for to, want := range map[string]string{"10.244.3.9": "src 10.244.1.0", "192.168.7.2": "src 192.168.7.1", "fd00:10:244:3::9": "src fd00:10:244:1::", "fd00:7::2": "src fd00:7::1"} {
		if got := nstest.IP(t, "route", "get", to); !strings.Contains(got, want+" ") {
			t.Errorf("to %s: %s", to, got)
		}
	}
	nstest.IP(t, "route", "add", "10.244.1.0/24", "dev", "quiver0")
	nstest.IP(t, "route", "add", "fd00:10:244:1::/64", "dev", "quiver0")
	for to, want := range map[string]string{"10.244.1.9": "src 192.168.7.1", "fd00:10:244:1::9": "src fd00:7::1"} {
		if got := nstest.IP(t, "route", "get", to); !strings.Contains(got, want+" ") {
			t.Errorf("to %s: %s", to, got)
		}
	}
	if paths := told(); paths.MTU != 1450 || paths.Overlay.MTU != 1500 || len(paths.Overlay.Peers) != 2 {
		t.Errorf("told %+v", paths)
	}
	// All of it ends.
	f.Overlay.Mode = overlay.None
	f.bring(t.Context())
	if got := strings.Join(routes(t), "\n"); strings.Contains(got, "dev quiver0 proto 81") {
		t.Errorf("left:\n%s", got)
	}
	if (&filled{name: overlayTable}).isThere() {
		t.Error("the table is still there")
	}
}

func TestTheTableIsMadeAnewWhereSomebodyTakesItAway(t *testing.T) {
	f, _ := withOverlay(t, overlay.VXLAN, n2)
	there := func() bool {
		plan, err := f.Overlay.For(self, []pods.Node{n2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		wanted := endsOf(f.Overlay, &plan, f.Device, self, []pods.Node{n2})
		return wanted.filled().isThere()
	}
	f.bring(t.Context())
	if !there() {
		t.Fatal(f.told)
	}
	if err := WithdrawOverlay(); err != nil || there() {
		t.Fatal(err)
	}
	f.bring(t.Context())
	if !there() {
		t.Error("it isn't")
	}
	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	// Where pods may send nothing to the tunnels' port: other nodes, and where quiverd itself has its ends.
	for name, want := range map[string][]netip.Addr{"peers4": n2.Addresses[:1], "nodes4": {n2.Addresses[0], dataplane.Underlay[true]}, "nodes6": {n2.Addresses[1], dataplane.Underlay[false]}} {
		set, err := connection.GetSetByName(&nftables.Table{Name: overlayTable, Family: nftables.TableFamilyINet}, name)
		if err != nil {
			t.Fatal(err)
		}
		elements, err := connection.GetSetElements(set)
		var got []netip.Addr
		for _, element := range elements {
			address, _ := netip.AddrFromSlice(element.Key)
			got = append(got, address)
		}
		slices.SortFunc(got, netip.Addr.Compare)
		slices.SortFunc(want, netip.Addr.Compare)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestPodsOfNodesBehindTunnelsSeeTheirAddressesFromOutside(t *testing.T) {
	far := pods.Node{Name: "far", Ranges: prefixes("10.244.3.0/24"), Addresses: addresses("172.16.0.3"), External: addresses("203.0.113.3")}
	here := self
	here.External = addresses("203.0.113.1")
	settings := overlay.Settings{Mode: overlay.CrossSubnet}
	plan, err := settings.For(here, []pods.Node{n2, far}, prefixes("192.168.7.0/24", "fd00:7::/64"))
	if err != nil {
		t.Fatal(err)
	}
	one, others := outside(&plan, here, []pods.Node{n2, far})
	l := leavingOf(one, others, Families{V4: true, V6: true})
	for text, inside := range map[string]bool{"10.244.3.7": true, "10.244.2.7": true, "192.168.7.2": true, "192.168.7.1": true, "172.16.0.3": false, "203.0.113.3": false, "203.0.113.1": false} {
		address := netip.MustParseAddr(text)
		if slices.ContainsFunc(l.cluster, func(prefix netip.Prefix) bool { return prefix.Contains(address) }) != inside {
			t.Errorf("%s of the cluster: %v", text, !inside)
		}
	}
}

func TestTheMTUOfPodsIsWhatTheUplinkHasRoomFor(t *testing.T) {
	f, told := withOverlay(t, overlay.VXLAN, n2)
	var log strings.Builder
	f.Log = slog.New(slog.NewTextHandler(&log, nil))
	expect := func(mtu uint32, words string) {
		t.Helper()
		log.Reset()
		f.bring(t.Context())
		if got := told().MTU; got != mtu || !strings.Contains(log.String(), words) {
			t.Errorf("%d, not %d; %s", got, mtu, log.String())
		}
	}
	expect(1450, "uplink=eth0")
	nstest.IP(t, "link", "set", "eth0", "mtu", "9000")
	expect(8950, "headers=50")
	f.Overlay.Mode = overlay.None
	expect(9000, "headers=0")
	f.MTU = 1400
	expect(1400, "MTU of pods")
	nstest.IP(t, "link", "set", "eth0", "mtu", "1300")
	expect(1400, "--mtu 1400: the way to other nodes has room for 1300")
	f.MTU = 0
	nstest.IP(t, "link", "set", "eth0", "mtu", "1280")
	expect(1280, "fits")
	f.Overlay.Mode = overlay.VXLAN
	*told() = dataplane.Paths{}
	expect(1280, "MTU 1280 of eth0 has no room")
	// Small packets pass: tunnels are there, and pods can be made.
	if got := told().Overlay; got == nil || got.MTU != 1330 || len(got.Peers) != 1 {
		t.Errorf("%+v", got)
	}
	if strings.Count(log.String(), "level=ERROR") != 1 {
		t.Errorf("said more than once:\n%s", log.String())
	}
}

func TestNothingIsLargerThanPacketsCanBe(t *testing.T) {
	found := &Uplink{sizes: map[int]uint32{}}
	(&devices{byIndex: map[int]net.Interface{1: {Name: "wide", MTU: 1 << 16}}}).add(found, 1, 0)
	if found.MTU != 65535 {
		t.Error(found.MTU)
	}
}

// An address on a loopback says nothing of the way to others, and neither does the device that has it where they are reached by another.
func TestTheMTUIsThatOfTheWaysToOthers(t *testing.T) {
	f, told := withOverlay(t, overlay.VXLAN, pods.Node{Name: "n3", Ranges: prefixes("10.244.3.0/24"), Addresses: addresses("198.51.100.3")})
	for _, words := range []string{
		"link set lo up", "address del 192.168.7.1/24 dev eth0", "address add 192.168.7.1/32 dev lo", "link add wg0 mtu 1420 up type veth peer name wg1", "link add wide mtu 9000 up type veth peer name wide1", "link set wg1 up", "link set wide1 up",
		"address add 172.30.0.1/30 dev wg0", "address add 172.31.0.1/30 dev wide",
	} {
		nstest.IP(t, strings.Fields(words)...)
	}
	for _, step := range []struct {
		route string
		want  uint32
	}{
		// Nobody is reached: the other address of the node, then.
		{"", 1450},
		{"route add 198.51.100.3 via 172.30.0.2", 1370}, {"route replace 198.51.100.3 via 172.31.0.2", 8950}, {"route replace 198.51.100.3 mtu 1400 via 172.31.0.2", 1350},
		{"route replace 198.51.100.3 nexthop via 172.31.0.2 nexthop via 172.30.0.2", 1370},
	} {
		if step.route != "" {
			nstest.IP(t, strings.Fields(step.route)...)
		}
		if f.bring(t.Context()); told().MTU != step.want {
			t.Errorf("%s: %d, not %d; %v", step.route, told().MTU, step.want, f.told)
		}
	}
}

func TestReadyIsWhoHasAllOfItAndFaultsOfOtherNodesAreCounted(t *testing.T) {
	f, _ := withOverlay(t, overlay.VXLAN, n2, pods.Node{Name: "bare", Ranges: prefixes("10.244.8.0/24")})
	if f.Ready() != errNotLooked {
		t.Error("before anything was looked at")
	}
	if f.bring(t.Context()); f.Ready() != nil || f.unreached != 1 {
		t.Errorf("%v, %d", f.Ready(), f.unreached)
	}
	// One family can't be: the other one goes on.
	nstest.IP(t, "address", "flush", "dev", dataplane.UnderlayDevice)
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+dataplane.UnderlayDevice+"/disable_ipv6", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if f.bring(t.Context()); f.Ready() == nil || !strings.Contains(f.Ready().Error(), "address fd00:10:244:1::") {
		t.Errorf("%v", f.Ready())
	}
	if got := strings.Join(routes(t), "\n"); !strings.Contains(got, "10.244.2.0/24 dev quiver0") {
		t.Errorf("routes:\n%s", got)
	}
	nstest.IP(t, "link", "del", dataplane.UnderlayDevice)
	if f.bring(t.Context()); f.Ready() == nil || !strings.Contains(f.Ready().Error(), dataplane.UnderlayDevice) {
		t.Errorf("%v", f.Ready())
	}
}

// seen waits until a change was told.
func (f *Follower) seen(t *testing.T, what string) {
	t.Helper()
	select {
	case <-f.changes.told:
	case <-time.After(time.Minute):
		t.Fatalf("nobody was told of %s", what)
	}
}

func TestRulesAndRoutesThatChangeAreSeenAtOnce(t *testing.T) {
	f, _ := withOverlay(t, overlay.VXLAN, n2)
	f.bring(t.Context())
	ports := make(chan struct{}, 9)
	f.changes.ports = func() { ports <- struct{}{} }
	f.changes.watch(t.Context(), f.Log)
	connection, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	table := &nftables.Table{Name: overlayTable, Family: nftables.TableFamilyINet}
	for what, harm := range map[string]func(){"all rules": connection.FlushRuleset, "a table": func() { connection.FlushTable(table) }} {
		harm()
		if err := connection.Flush(); err != nil {
			t.Fatal(err)
		}
		f.seen(t, what)
		if f.bring(t.Context()); f.Ready() != nil {
			t.Fatal(f.Ready())
		}
	}
	// That of Services is others' business: they are told, but not of what they do themselves.
	wanted := portsOf(&service.Lead{NodePorts: []service.NodePort{{Protocol: core.ProtocolTCP, Port: 30080}}, Sources: addresses("10.244.1.254")})
	var services kept
	for _, look := range []bool{true, false} {
		services.known = false
		if err := services.bring(wanted, look); err != nil {
			t.Fatal(err)
		}
	}
	// All of nftables is told in order.
	connection.FlushTable(table)
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	f.seen(t, "a table behind what they have done")
	if len(ports) > 0 {
		t.Fatal("they are told of what they do themselves")
	}
	connection.DelTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	if err := connection.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ports:
	case <-time.After(time.Minute):
		t.Fatal("nobody was told of ports of the node")
	}
	nstest.IP(t, "route", "add", "198.51.100.0/24", "via", "192.168.7.9")
	f.seen(t, "a route")
	if len(ports) > 0 {
		t.Errorf("of ports was told %d times more", len(ports))
	}
}

func TestAChangedMTUIsSeenAtOnce(t *testing.T) {
	f, _ := withOverlay(t, overlay.None)
	sizes := make(chan uint32, 9)
	f.Tell = func(_ context.Context, paths dataplane.Paths) error {
		sizes <- paths.MTU
		return nil
	}
	ctx := t.Context()
	// (The namespace is the thread's: who listens is asked here.)
	f.changes.watch(ctx, f.Log)
	f.bring(ctx)
	if got := <-sizes; got != 1500 {
		t.Fatal(got)
	}
	nstest.IP(t, "link", "set", "eth0", "mtu", "1400")
	f.seen(t, "the MTU")
	f.bring(ctx)
	if got := <-sizes; got != 1400 {
		t.Error(got)
	}
}

func TestTheUplinkHasTheNodesAddressOrTheDefaultRoute(t *testing.T) {
	inNamespace(t)
	found := func(own ...string) (*Uplink, []netip.Prefix, error) {
		devices, err := readDevices()
		if err != nil {
			t.Fatal(err)
		}
		uplink, err := devices.uplink(addresses(own...), nil)
		return uplink, devices.networks(addresses(own...)), err
	}
	uplink, networks, err := found("192.0.2.9", "fd00:7::1", "192.168.7.1")
	if err != nil || uplink.Name != "eth0" || uplink.MTU != 1500 || !slices.Equal(networks, prefixes("fd00:7::/64", "192.168.7.0/24")) {
		t.Errorf("%+v, %v, %v", uplink, networks, err)
	}
	if _, _, err := found("192.0.2.9"); err != errNoUplink {
		t.Errorf("told %v", err)
	}
	nstest.IP(t, "link", "set", "eth0", "mtu", "1600")
	nstest.IP(t, "route", "add", "default", "via", "192.168.7.9")
	if uplink, networks, err := found("192.0.2.9"); err != nil || uplink.Name != "eth0" || uplink.MTU != 1600 || networks != nil {
		t.Errorf("%+v, %v, %v", uplink, networks, err)
	}
}
