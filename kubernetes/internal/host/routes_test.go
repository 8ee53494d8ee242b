package host

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/overlay"
	"quiver/kubernetes/internal/pods"
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

var n2 = pods.Node{Name: "n2", Ranges: prefixes("10.244.2.0/24", "fd00:10:244:2::/64"), Addresses: addresses("192.168.7.2", "fd00:7::2")}

func TestRoutesLeadToTheAddressOfTheRangesFamily(t *testing.T) {
	v4only := pods.Node{Name: "n3", Ranges: prefixes("fd00:10:244:3::/64", "10.244.3.0/24"), Addresses: addresses("192.168.7.3")}
	fresh := pods.Node{Name: "n4", Addresses: addresses("192.168.7.4")}
	wanted, err := Wanted([]pods.Node{n2, v4only, fresh})
	want := []Route{
		{Prefix: netip.MustParsePrefix("10.244.2.0/24"), Via: netip.MustParseAddr("192.168.7.2")},
		{Prefix: netip.MustParsePrefix("fd00:10:244:2::/64"), Via: netip.MustParseAddr("fd00:7::2")},
		{Prefix: netip.MustParsePrefix("10.244.3.0/24"), Via: netip.MustParseAddr("192.168.7.3")},
	}
	if !slices.Equal(wanted, want) {
		t.Errorf("got %v", wanted)
	}
	if err == nil || !strings.Contains(err.Error(), "n3") || !strings.Contains(err.Error(), "fd00:10:244:3::/64") || strings.Contains(err.Error(), "n4") {
		t.Errorf("told %v", err)
	}
}

// inNamespace goes on in a namespace with a device that has the addresses of a node, and a route of somebody else's.
func inNamespace(t *testing.T) {
	nstest.Alone(t,
		"link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up", "address add 192.168.7.1/24 dev eth0", "address add fd00:7::1/64 dev eth0 nodad",
		"route add 10.244.9.0/24 via 192.168.7.9")
}

// routes are those to pods, as the kernel's own tool tells them.
func routes(t *testing.T) (all []string) {
	for line := range strings.Lines(nstest.IP(t, "-4", "route") + nstest.IP(t, "-6", "route")) {
		if strings.Contains(line, "10.244.") || strings.HasPrefix(line, "fd00:10:") {
			words := strings.Fields(line)
			all = append(all, strings.Join(words[:min(len(words), 7)], " "))
		}
	}
	return all
}

const foreign = "10.244.9.0/24 via 192.168.7.9 dev eth0"

// bring has the routes be those to nodes' pods, and tells what can't be.
func bring(table *Table, nodes []pods.Node) string {
	wanted, err := Wanted(nodes)
	if err = errors.Join(err, table.Bring(wanted)); err != nil {
		return err.Error()
	}
	return ""
}

func TestRoutesBecomeWhatIsWantedAndOthersStay(t *testing.T) {
	inNamespace(t)
	table, err := Open(NodeProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	both := []string{"10.244.2.0/24 via 192.168.7.2 dev eth0 proto 81", foreign, "fd00:10:244:2::/64 via fd00:7::2 dev eth0 proto 81"}
	expect := func(told string, want []string) {
		t.Helper()
		if got := routes(t); told != "" || !slices.Equal(got, want) {
			t.Errorf("told %q; routes:\n%s", told, strings.Join(got, "\n"))
		}
	}
	expect(bring(table, []pods.Node{n2}), both)
	expect(bring(table, []pods.Node{n2}), both)
	// Somebody takes one away.
	nstest.IP(t, "route", "del", "10.244.2.0/24")
	expect(bring(table, []pods.Node{n2}), both)
	// The node moves.
	moved := n2
	moved.Addresses = addresses("192.168.7.22", "fd00:7::22")
	expect(bring(table, []pods.Node{moved}), []string{"10.244.2.0/24 via 192.168.7.22 dev eth0 proto 81", foreign, "fd00:10:244:2::/64 via fd00:7::22 dev eth0 proto 81"})
	// Routes that can't be are told, and don't stand in the way of others.
	told := bring(table, []pods.Node{
		{Name: "far", Ranges: prefixes("10.244.1.0/24"), Addresses: addresses("172.16.0.1")}, n2,
		{Name: "taken", Ranges: prefixes("10.244.9.0/24"), Addresses: addresses("192.168.7.3")},
	})
	for _, words := range []string{"10.244.1.0/24 via 172.16.0.1: network is unreachable: the node is no direct neighbour", "10.244.9.0/24 via 192.168.7.3: somebody else"} {
		if !strings.Contains(told, words) {
			t.Errorf("told %q, not %q", told, words)
		}
	}
	expect("", both)
	// The node goes.
	expect(bring(table, nil), []string{foreign})
}

// nodes come and go.
type nodes struct {
	changed chan struct{}
	others  []pods.Node
	known   bool
}

func (n *nodes) Others() ([]pods.Node, bool)   { return n.others, n.known }
func (n *nodes) Self() (pods.Node, bool)       { return pods.Node{}, n.known }
func (n *nodes) NodesChanged() <-chan struct{} { return n.changed }

// follower is one that has nobody to tell.
func follower(source Nodes) *Follower {
	tell := func(context.Context, dataplane.Paths) error { return nil }
	f := NewFollower(source, "quiver0", slog.New(slog.DiscardHandler))
	f.Overlay, f.Tell = overlay.Settings{Mode: overlay.None}, tell
	return f
}

func TestRoutesOfAnEarlierLifeStayUntilTheNodesAreKnown(t *testing.T) {
	inNamespace(t)
	nstest.IP(t, "route", "add", "10.244.5.0/24", "via", "192.168.7.5", "proto", "81")
	source := &nodes{changed: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		// Taking the second word means that the first was acted upon.
		source.changed <- struct{}{}
		source.changed <- struct{}{}
		cancel()
	}()
	follower(source).Run(ctx)
	if got := routes(t); !slices.Equal(got, []string{"10.244.5.0/24 via 192.168.7.5 dev eth0 proto 81", foreign}) {
		t.Errorf("before anything is known: %q", got)
	}
	source.others, source.known = []pods.Node{n2}, true
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	go func() {
		source.changed <- struct{}{}
		cancel()
	}()
	follower(source).Run(ctx)
	if got := routes(t); len(got) != 3 || strings.Contains(strings.Join(got, " "), "10.244.5.0") {
		t.Errorf("when the nodes are known: %q", got)
	}
}
