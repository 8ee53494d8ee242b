package agent

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/overlay"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

func tunnelTo(nodes ...string) *dataplane.Overlay {
	local := netip.MustParseAddr("192.0.2.1")
	o := &dataplane.Overlay{Settings: overlay.Settings{Mode: overlay.VXLAN, Port: 4789, VNI: 4096}, MTU: 1500, Plan: overlay.Plan{Locals: []netip.Addr{local}}}
	remote, prefix := local, netip.MustParsePrefix("10.9.0.0/24")
	for _, node := range nodes {
		remote = remote.Next()
		prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, prefix.Addr().As4()[2] + 1, 0}), 24)
		o.Peers = append(o.Peers, overlay.Peer{Node: node, Local: local, Remote: remote, Ranges: []netip.Prefix{prefix}})
	}
	return o
}

// brought has quiverd be where paths say.
func (p *place) brought(t *testing.T, paths dataplane.Paths) (changed bool) {
	t.Helper()
	changed, err := p.SetPaths(paths)
	if err == nil && changed {
		err = p.Reconcile(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func (p *place) tunnelsThere(t *testing.T) []string {
	t.Helper()
	there, err := p.quiverd.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(there.ToNodes)
	return there.ToNodes
}

func TestPodsThatAreThereGetTheNewMTUAndKeepIt(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	request := p.asked(t, "a")
	p.add(t, request)
	namespace := strings.TrimPrefix(request.Netns, "/run/netns/")
	expect := func(mtu string) {
		t.Helper()
		if shown := nstest.IP(t, "-n", namespace, "link", "show", "eth0"); !strings.Contains(shown, " mtu "+mtu+" ") {
			t.Errorf("%s, not %s", shown, mtu)
		}
	}
	expect("1400")
	if !p.brought(t, dataplane.Paths{MTU: 1300}) || p.brought(t, dataplane.Paths{MTU: 1300}) {
		t.Error("what is new isn't told, or what isn't is")
	}
	expect("1300")
	if got := p.Attachments()[0].MTU; got != 1300 {
		t.Errorf("told: %d", got)
	}
	// It is on disk, where nothing else has changed.
	before := p.Attachments()[0]
	disk, err := attachment.Open(filepath.Join(p.directory, "attachments"))
	if err != nil {
		t.Fatal(err)
	}
	if got := disk.Get(before.ID); got == nil || got.MTU != 1300 || !got.Since.Equal(before.Since) {
		t.Errorf("on disk: %+v; told: %+v", got, before)
	}
	p.begin(t, "10.9.0.0/24")
	if got := p.Attachments()[0].MTU; got != 1400 {
		t.Errorf("an agent that finds the way as it was before: %d", got)
	}
}

func TestTunnelsComeAndGoWithNodesAndStayUntilNodesAreKnown(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.settings.HostDevice, p.settings.Services = "quiver0", true
	expect := func(want ...string) {
		t.Helper()
		if got := p.tunnelsThere(t); !slices.Equal(got, want) {
			t.Errorf("tunnels %v, not %v", got, want)
		}
	}
	p.brought(t, dataplane.Paths{MTU: 1450, Overlay: tunnelTo("n2", "n3")})
	expect("pod:to-n2", "pod:to-n3")
	known := p.asked(t, "known")
	p.add(t, known)
	// An agent comes that hasn't heard of nodes yet. It is asked again for a pod that is there: what comes by tunnels goes on being looked at.
	p.paths, p.compared, p.toNodes, p.looked = nil, errNotCompared, nil, false
	p.add(t, known)
	if !slices.Contains(p.toNodes, "pod:to-n3") {
		t.Errorf("tunnels that aren't looked at: %v", p.toNodes)
	}
	p.paths, p.compared, p.toNodes, p.looked = nil, errNotCompared, nil, false
	hurried, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := p.Add(hurried, p.asked(t, "early")); err == nil || !strings.Contains(err.Error(), "it isn't known yet how other nodes are reached") {
		t.Errorf("a pod that is too early: %v", err)
	}
	if _, err := p.Status(t.Context(), &agentv1.StatusRequest{}); err == nil {
		t.Error("it is ready")
	}
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("pod:to-n2", "pod:to-n3")
	if names := p.tenant(nil).Tenants[0].Interfaces; !slices.Contains(names, "pod:to-n3") || !slices.Contains(names, "pod:host") {
		t.Errorf("looked at: %v", names)
	}
	p.brought(t, dataplane.Paths{MTU: 1450, Overlay: tunnelTo("n2")})
	expect("pod:to-n2")
	p.brought(t, dataplane.Paths{MTU: 1500})
	expect()
	there, err := p.quiverd.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range there.Ours() {
		if strings.Contains(ref.Name, "underlay") || strings.Contains(ref.Name, "10.9.1.0") {
			t.Errorf("left: %v", ref)
		}
	}
}

// portOn is a port on a device, by which pods of another node are reached.
func portOn(device string) *dataplane.Port {
	hop := dataplane.Hop{Address: netip.MustParseAddr("192.0.2.2"), Station: "02:00:00:00:00:12", Ranges: []netip.Prefix{netip.MustParsePrefix("10.9.2.0/24")}}
	return &dataplane.Port{Device: device, Station: "02:00:00:00:00:11", MTU: 1500, Hops: []dataplane.Hop{hop}}
}

func TestThePortOnTheUplinkStandsInNobodysWayAndIsLookedAt(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	nstest.IP(t, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
	nstest.IP(t, "link", "set", "eth0", "up")
	nstest.IP(t, "link", "set", "eth1", "up")
	p.settings.HostDevice, p.settings.Services = "quiver0", true
	mine := &quiver.Config{Interfaces: []*quiver.Interface{{Name: "mine", Port: &quiver.Interface_AfPacket{AfPacket: &quiver.AfPacket{HostInterface: "eth1"}}}}}
	if err := p.quiverd.Apply(t.Context(), mine, nil); err != nil {
		t.Fatal(err)
	}
	// No such device, and one that somebody else has: all else is as it shall be, and pods can be made.
	for device, words := range map[string]string{"eth9": "no such device", "eth1": "mine"} {
		p.brought(t, dataplane.Paths{MTU: 1500, Port: portOn(device)})
		p.add(t, p.asked(t, "by-"+device))
		if err := p.Port(t.Context()); err == nil || !strings.Contains(err.Error(), words) || p.compared != nil {
			t.Errorf("%s: %v; %v", device, err, p.compared)
		}
		if changed, err := p.SetPaths(*p.paths); err != nil || !changed {
			t.Errorf("%s isn't tried again: %v", device, err)
		}
	}
	if err := p.quiverd.Apply(t.Context(), nil, dataplane.Refs(mine)); err != nil {
		t.Fatal(err)
	}
	p.brought(t, dataplane.Paths{MTU: 1500, Port: portOn("eth1")})
	if err := p.Port(t.Context()); err != nil {
		t.Error(err)
	}
	if names := p.tenant(nil).Tenants[0].Interfaces; !slices.Contains(names, "pod:uplink") {
		t.Errorf("looked at: %v", names)
	}
	// An agent comes that hasn't heard of nodes yet.
	p.paths, p.compared, p.toNodes, p.looked = nil, errNotCompared, nil, false
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := p.tenant(nil).Tenants[0].Interfaces; !slices.Contains(names, "pod:uplink") {
		t.Errorf("looked at, when nodes aren't known: %v", names)
	}
	if err := p.Port(t.Context()); err != nil {
		t.Error(err)
	}
	nstest.IP(t, "link", "set", "eth1", "down")
	down := func() bool {
		err := p.Port(t.Context())
		return err != nil && strings.Contains(err.Error(), "pod:uplink is down")
	}
	for tries := 0; !down(); tries++ {
		if tries > 6000 {
			t.Fatal(p.Port(t.Context()))
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.brought(t, dataplane.Paths{MTU: 1500})
	there, err := p.quiverd.Objects(t.Context())
	if err != nil || len(there.ToNodes) != 0 || slices.ContainsFunc(there.Ours(), func(ref *quiver.ObjectRef) bool {
		return strings.Contains(ref.Name, "uplink") || strings.Contains(ref.Name, "10.9.2.0")
	}) {
		t.Errorf("left: %v, %v", there.Ours(), err)
	}
}
