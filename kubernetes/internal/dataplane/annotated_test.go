package dataplane

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/proto"

	"quiver/kubernetes/internal/annotation"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
)

// What a pod's annotations say of its interfaces is handed on: each field, of both of them.
func TestWhatAnnotationsSayIsHandedOn(t *testing.T) {
	const (
		ports      = "cni.projectcalico.org/vppExtraMemifPorts"
		spec       = "cni.projectcalico.org/vppExtraMemifSpec"
		interfaces = "cni.projectcalico.org/vppInterfacesSpec"

		polling, interrupt, adaptive = quiver.RxMode_RX_MODE_POLLING, quiver.RxMode_RX_MODE_INTERRUPT, quiver.RxMode_RX_MODE_ADAPTIVE
		ethernet, ip                 = quiver.MemifMode_MEMIF_MODE_ETHERNET, quiver.MemifMode_MEMIF_MODE_IP
	)
	everything := []string{"0.0.0.0/0", "::/0"}
	for _, c := range []struct {
		name           string
		annotations    map[string]string
		queues         uint32
		tunMode, mode  quiver.RxMode
		memif          *quiver.Memif
		answersForThem []string
	}{
		{"nothing", nil, 1, adaptive, 0, nil, nil},
		{"eth0 alone, more queues to receive from", map[string]string{interfaces: `{"eth0": {"rx": 3, "tx": 2, "rxMode": "polling"}}`}, 3, polling, 0, nil, nil},
		{"eth0 alone, more queues to send to", map[string]string{interfaces: `{"eth0": {"rx": 2, "tx": 4, "rxMode": "interrupt"}}`}, 4, interrupt, 0, nil, nil},
		// Sizes that aren't said aren't told, so that quiverd offers all that there can be.
		{"a memif of no shape", map[string]string{ports: "tcp:80"}, 1, adaptive, adaptive, &quiver.Memif{Mode: ethernet, RxQueues: 1, TxQueues: 1}, everything},
		{"a memif of a shape", map[string]string{ports: "tcp:80", spec: `{"rx": 2, "tx": 5, "rxqsz": 256, "txqsz": 512, "isl3": true, "rxMode": "interrupt"}`},
			1, adaptive, interrupt, &quiver.Memif{Mode: ip, RxQueues: 2, TxQueues: 5, RingSize: 512}, nil},
		{"a memif of one size", map[string]string{ports: "tcp:80", spec: `{"rxqsz": 128}`}, 1, adaptive, adaptive,
			&quiver.Memif{Mode: ethernet, RxQueues: 1, TxQueues: 1, RingSize: 128}, everything},
		{"a memif of the size that is usual", map[string]string{ports: "tcp:80", spec: `{"txqsz": 1024}`}, 1, adaptive, adaptive,
			&quiver.Memif{Mode: ethernet, RxQueues: 1, TxQueues: 1, RingSize: 1024}, everything},
		{"both, each by its own", map[string]string{ports: "tcp:80", spec: `{"rx": 7, "rxMode": "polling"}`, interfaces: `{"eth0": {"tx": 2, "rxMode": "interrupt"}}`},
			2, interrupt, polling, &quiver.Memif{Mode: ethernet, RxQueues: 7, TxQueues: 1}, everything},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked, err := annotation.Read(c.annotations, "eth0", annotation.Defaults{})
			if err != nil {
				t.Fatal(err)
			}
			config := Objects(&attachment.Record{
				ID: attachment.ID{Container: "c", Interface: "eth0"}, Netns: "/run/netns/c", MTU: 1400, Tun: asked.Tun, Memif: asked.Memif,
				Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")},
			})
			tun := config.Interfaces[0]
			if queues := tun.GetTap().GetQueues(); queues != c.queues || tun.RxMode != c.tunMode || tun.Mtu != 1400 || tun.ProxyArp != nil {
				t.Errorf("eth0: %d queues, %v", queues, tun)
			}
			if c.memif == nil {
				if len(config.Interfaces) != 1 {
					t.Errorf("a memif that nobody asked for: %v", config.Interfaces)
				}
				return
			}
			memif := config.Interfaces[1]
			want := &quiver.Interface{
				Name: memif.Name, Mtu: 1400, RxMode: c.mode, Rpf: tun.Rpf, ProxyArp: c.answersForThem, Port: &quiver.Interface_Memif{Memif: c.memif},
			}
			c.memif.Netns, c.memif.Socket = "/run/netns/c", "@vpp/memif-eth0"
			if !proto.Equal(memif, want) {
				t.Errorf("got  %v\nwant %v", memif, want)
			}
		})
	}
}
