package host

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
)

// besideKernel is a follower that has quiverd open a port on the uplink, where it passes packets unless amiss says otherwise.
func besideKernel(t *testing.T, amiss *error, others ...pods.Node) (f *Follower, told func() *dataplane.Port, log *strings.Builder) {
	t.Helper()
	f, paths := withOverlay(t, overlay.None, others...)
	log = &strings.Builder{}
	f.Carrier, f.Log = ByPort, slog.New(slog.NewTextHandler(log, nil))
	f.Carries = func(context.Context) error { return *amiss }
	f.changes.beside = true
	if err := f.Figures(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	return f, func() *dataplane.Port { return paths().Port }, log
}

// besideTable is our table as nft tells it; empty: there is none.
func besideTable(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("nft", "--stateless", "list", "table", "inet", uplinkTable).CombinedOutput()
	if err != nil && !strings.Contains(string(out), "No such file") {
		t.Fatal(string(out))
	}
	if err != nil {
		return ""
	}
	return string(out)
}

func TestThePortIsToldWhereTheKernelHasFoundOthersAndTheKernelStandsAside(t *testing.T) {
	far := pods.Node{Name: "far", Ranges: prefixes("10.244.3.0/24"), Addresses: addresses("172.16.0.3"), External: addresses("203.0.113.3")}
	var amiss error
	f, told, log := besideKernel(t, &amiss, n2, far)
	// (By another device.)
	nstest.IP(t, "address", "add", "172.16.0.1/16", "dev", "eth1")
	nstest.IP(t, "link", "set", "eth0", "mtu", "1400")
	nstest.IP(t, "neigh", "add", "192.168.7.2", "lladdr", "02:00:00:00:00:22", "dev", "eth0")
	f.bring(t.Context())
	port := told()
	want := dataplane.Hop{Address: n2.Addresses[0], Station: "02:00:00:00:00:22", Ranges: n2.Ranges[:1]}
	if port == nil || port.Device != "eth0" || port.MTU != 1400 || len(port.Hops) != 1 || port.Hops[0].Address != want.Address || port.Hops[0].Station != want.Station || !slices.Equal(port.Hops[0].Ranges, want.Ranges) {
		t.Fatalf("told %+v; %v", port, f.told)
	}
	if shown := nstest.IP(t, "link", "show", "eth0"); !strings.Contains(shown, "link/ether "+port.Station+" ") {
		t.Errorf("%s, not %s", port.Station, shown)
	}
	// Whom nobody has found, and who is elsewhere, is the kernel's.
	for _, words := range []string{"node n2: nobody has answered for fd00:7::2 by eth0 yet", "node far: 172.16.0.3 is no direct neighbour by eth0"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("%q isn't said: %s", words, log)
		}
	}
	if f.Ready() != nil || f.hops != 1 {
		t.Errorf("%v; %d", f.Ready(), f.hops)
	}
	rules := besideTable(t)
	for _, words := range []string{
		"elements = { 10.244.2.0/24 }", "elements = { 172.16.0.3, 192.168.7.2,\n\t\t\t     203.0.113.3 }", "elements = { fd00:7::2 }", "priority -450",
		`iifname "eth0" ip saddr @carried4 ip daddr 10.244.1.0/24 counter drop`, `iifname "eth0" ip6 saddr @carried6 ip6 daddr fd00:10:244:1::/64 counter drop`,
		"ip saddr 10.244.1.0/24 ip daddr @nodes4 masquerade fully-random",
	} {
		if !strings.Contains(rules, words) {
			t.Errorf("no %s in\n%s", words, rules)
		}
	}
	// The kernel has been asked for the one that it didn't know.
	if shown := nstest.IP(t, "-6", "neigh", "show", "fd00:7::2", "dev", "eth0"); !strings.Contains(shown, "INCOMPLETE") {
		t.Errorf("%q", shown)
	}
	// What somebody has told it stays.
	if shown := nstest.IP(t, "neigh", "show", "192.168.7.2", "dev", "eth0"); !strings.Contains(shown, "PERMANENT") {
		t.Errorf("%q", shown)
	}
	// The routes of the kernel stay: hosts' own packets, and what the port doesn't carry, take them.
	if all := strings.Join(routes(t), "\n"); !strings.Contains(all, "10.244.2.0/24 via 192.168.7.2 dev eth0") {
		t.Error(all)
	}

	nstest.IP(t, "neigh", "replace", "fd00:7::2", "lladdr", "02:00:00:00:00:26", "dev", "eth0")
	f.bring(t.Context())
	if port := told(); len(port.Hops) != 2 || f.hops != 2 {
		t.Errorf("%+v", port)
	}
	amiss = errors.New("somebody has it")
	f.bring(t.Context())
	if rules := besideTable(t); strings.Contains(rules, "drop") || !strings.Contains(rules, "masquerade") || f.hops != 0 || f.Ready() != nil || !strings.Contains(log.String(), "somebody has it") {
		t.Errorf("%s\n%v, %v", rules, f.Ready(), log)
	}
	f.Carrier = ByKernel
	f.bring(t.Context())
	if told() != nil || besideTable(t) != "" {
		t.Errorf("left: %+v, %s", told(), besideTable(t))
	}
}

func TestWhichDeviceThePortIsOn(t *testing.T) {
	inNamespace(t)
	nstest.IP(t, "link", "add", "spare", "type", "veth", "peer", "name", "spare1")
	nstest.IP(t, "tuntap", "add", "tun", "mode", "tun")
	found, err := readDevices()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": "", "eth1": "", "eth9": "no such device", "spare": "is down: ip link set spare up", "tun": "is no Ethernet device", "lo": "no such device"} {
		device, err := found.ethernet(self.Addresses, name)
		if want == "" && (err != nil || name != "" && device.Name != name || name == "" && device.Name != "eth0") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v", name, device, err)
		}
	}
	if _, err := found.ethernet(addresses("192.0.2.9"), ""); err == nil || !strings.Contains(err.Error(), "--uplink-interface") {
		t.Errorf("told %v", err)
	}
}

func TestNeighboursAndTheDeviceAreFollowed(t *testing.T) {
	var amiss error
	f, told, _ := besideKernel(t, &amiss, n2)
	nstest.IP(t, "neigh", "add", "192.168.7.2", "lladdr", "02:00:00:00:00:22", "dev", "eth0")
	nstest.IP(t, "neigh", "add", "fd00:7::2", "lladdr", "02:00:00:00:00:22", "dev", "eth0")
	f.bring(t.Context())
	f.changes.watch(t.Context(), f.Log)
	hops := func() (all []string) {
		f.bring(t.Context())
		for _, hop := range told().Hops {
			all = append(all, hop.Station)
		}
		return all
	}
	nstest.IP(t, "neigh", "add", "192.168.7.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0")
	nstest.IP(t, "neigh", "change", "192.168.7.2", "lladdr", "02:00:00:00:00:33", "dev", "eth0")
	f.seen(t, "another station")
	if got := hops(); !slices.Equal(got, []string{"02:00:00:00:00:33", "02:00:00:00:00:22"}) {
		t.Error(got)
	}
	nstest.IP(t, "neigh", "del", "fd00:7::2", "dev", "eth0")
	f.seen(t, "a neighbour that went")
	if got := hops(); !slices.Equal(got, []string{"02:00:00:00:00:33"}) {
		t.Error(got)
	}
	// It has been asked for, and is forgotten before it has answered.
	if shown := nstest.IP(t, "-6", "neigh", "show", "fd00:7::2", "dev", "eth0"); !strings.Contains(shown, "INCOMPLETE") {
		t.Errorf("%q", shown)
	}
	nstest.IP(t, "neigh", "del", "fd00:7::2", "dev", "eth0")
	f.seen(t, "a neighbour that went again")
	nstest.IP(t, "link", "set", "eth0", "address", "02:00:00:00:00:11")
	f.seen(t, "another station of the device's own")
	if f.bring(t.Context()); told().Station != "02:00:00:00:00:11" {
		t.Errorf("%+v", told())
	}
}

// The kernel's answers come while its table is read, so that it isn't known whether they are in what was read.
func TestWhatChangesWhileItIsReadIsNews(t *testing.T) {
	update := &netlink.NeighUpdate{Type: unix.RTM_NEWNEIGH, Neigh: netlink.Neigh{LinkIndex: 7, State: netlink.NUD_REACHABLE, IP: net.IPv4(192, 168, 7, 2), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}}
	var n neighbours
	n.await("eth0", 7, "", map[netip.Addr]string{n2.Addresses[0]: "02:00:00:00:00:01"})
	if n.moved(update) {
		t.Error("what is as it was is news")
	}
	n.read()
	if !n.moved(update) {
		t.Error("it is read without it, and nobody is told")
	}
	n.await("eth0", 7, "", map[netip.Addr]string{n2.Addresses[0]: ""})
	if !n.moved(update) {
		t.Error("what is found isn't news")
	}
}
