package inspect

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/realtest"
)

// wired is an interface of quiverd at an end of a cable. (The name decides on its Ethernet address.)
func wired(device, address string) *quiver.Interface {
	return &quiver.Interface{Name: "to-" + device, Addresses: []string{address}, Port: &quiver.Interface_AfPacket{AfPacket: &quiver.AfPacket{HostInterface: device}}}
}

// ofPod is a pod's, whose tun stays in the namespace of all.
func ofPod(name, device string, addresses, routes []string) *quiver.Interface {
	tap := &quiver.Tap{HostName: device, Mode: quiver.TapMode_TAP_MODE_TUN, HostAddresses: addresses}
	for _, prefix := range routes {
		tap.HostRoutes = append(tap.HostRoutes, &quiver.HostRoute{Prefix: prefix})
	}
	return &quiver.Interface{Name: "pod:default." + name + ":0f0f0f0f:eth0", Port: &quiver.Interface_Tap{Tap: tap}}
}

// Two dataplanes with a cable in between are two nodes.
func TestTwoDataplanesShowTheWayOfAPacket(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add v1 type veth peer name v2", "link set v1 up", "link set v2 up")
	directories := map[string]string{"n1": t.TempDir(), "n2": t.TempDir()}
	node := func(name string, config *quiver.Config) *dataplane.Client {
		client, _ := realtest.Start(t, directories[name])
		if err := client.Apply(t.Context(), config, nil); err != nil {
			t.Fatal(err)
		}
		return client
	}
	client := ofPod("client", "tc", []string{"10.244.1.2/32"}, []string{"10.244.2.0/24"})
	server := ofPod("server", "ts", nil, nil)
	to := func(prefix, device, via string) *quiver.Route {
		return &quiver.Route{Prefix: prefix, NextHops: []*quiver.NextHop{{Interface: device, Address: via}}}
	}
	node("n1", &quiver.Config{
		Interfaces: []*quiver.Interface{wired("v1", "10.9.0.1/24"), client},
		Routes:     []*quiver.Route{to("10.244.1.2/32", client.Name, ""), to("10.244.2.0/24", "to-v1", "10.9.0.2")},
	})
	node("n2", &quiver.Config{
		Interfaces: []*quiver.Interface{wired("v2", "10.9.0.2/24"), server},
		Routes:     []*quiver.Route{to("10.244.2.2/32", server.Name, ""), to("10.244.1.0/24", "to-v2", "10.9.0.1")},
	})
	quiver, err := filepath.Abs(filepath.Join("../../../target/release", "quiver"))
	if target := os.Getenv("CARGO_TARGET_DIR"); target != "" {
		quiver, err = filepath.Join(target, "release/quiver"), nil
	}
	if _, missing := os.Stat(quiver); err != nil || missing != nil {
		t.Skip("needs quiver in target/release")
	}
	ask := func(ctx context.Context, node string, words ...string) ([]byte, error) {
		return exec.CommandContext(ctx, quiver, append([]string{"--socket", realtest.Socket(directories[node])}, words...)...).Output()
	}
	connection, err := net.Dial("udp", "10.244.2.2:81")
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	done := make(chan struct{})
	go func() {
		for pause(t.Context(), 20*time.Millisecond) {
			select {
			case <-done:
				return
			default:
				_, _ = connection.Write([]byte("hello"))
			}
		}
	}()
	defer close(done)

	order := Order{From: "client", Protocol: "udp", Port: 81, Count: 3, Timeout: time.Minute}
	peer := receiver{asked: []netip.Addr{netip.MustParseAddr("10.244.2.2")}, answers: []netip.Addr{netip.MustParseAddr("10.244.2.2")}, nodes: []string{"n2"}}
	var traced *Traced
	crossed := func(way Way) bool {
		return len(way.Hops) == 2 && way.Hops[0].Node == "n1" && way.Hops[1].Node == "n2" && way.Hops[0].leaves() && way.Hops[1].leaves()
	}
	// The first ones wait for their neighbour: what goes on then is another packet.
	realtest.Eventually(t, "packets are followed", func() bool {
		all, err := spots(order, end{addresses: addresses("10.244.1.2"), node: "n1"}, peer, []Node{quiverOn("n1"), quiverOn("n2")})
		if err == nil {
			traced, err = (&plan{order, all, true, look}).run(t.Context(), ask)
		}
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(traced.Ways, crossed)
	})
	var out strings.Builder
	if err := PrintTraced(&out, traced, false); err != nil {
		t.Fatal(err)
	}
	if len(traced.Ways) < 3 {
		t.Errorf("not all of them:\n%s", out.String())
	}
	if text, err := ask(t.Context(), "n2", "trace", "show", "--output", "json"); err != nil || strings.Contains(string(text), "steps") {
		t.Errorf("%v; traces are left: %s", err, text)
	}
}
