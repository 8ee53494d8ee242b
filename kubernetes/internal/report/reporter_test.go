package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quiver/kubernetes/internal/annotation"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/realtest"
)

// cluster is what has been told to pods.
type cluster struct {
	annotations map[string]string
	writes      []string
	events      []string
	fails       error
}

func (c *cluster) Annotations(context.Context, pods.ID, map[string]string) (map[string]string, error) {
	return c.annotations, nil
}

func (c *cluster) Seen(pods.ID) (map[string]string, bool) { return c.annotations, true }

func (c *cluster) Annotate(_ context.Context, pod pods.ID, key, value string) error {
	if c.fails != nil {
		return c.fails
	}
	c.writes = append(c.writes, pod.Namespace+"/"+pod.Name+" "+pod.UID+" "+key+"="+value)
	c.annotations[key] = value
	return nil
}

func (c *cluster) Tell(_ pods.ID, _ bool, reason, message string) {
	c.events = append(c.events, reason+" "+message)
}

// states are quiverd's of memifs; nil: it doesn't answer.
type states map[string]*quiver.MemifState

func (s *states) Memifs(context.Context) (map[string]*quiver.MemifState, error) {
	if *s == nil {
		return nil, errors.New("away")
	}
	return *s, nil
}

// Interfaces are those memifs, and the ordinary interface that a pod has beside each.
func (s *states) Interfaces(context.Context) (map[string]*quiver.InterfaceState, error) {
	all := map[string]*quiver.InterfaceState{}
	for name := range *s {
		all[name] = &quiver.InterfaceState{RxMode: quiver.RxMode_RX_MODE_POLLING}
		beside := strings.Replace(name, ":memif-", ":", 1)
		all[beside] = &quiver.InterfaceState{RxMode: quiver.RxMode_RX_MODE_ADAPTIVE, Placement: []*quiver.QueuePlacement{{}, {Queue: 1}}}
	}
	return all, nil
}

// records are attachments of which nothing has to be kept.
type records func() []*attachment.Record

func (r records) Attachments() []*attachment.Record { return r() }

func (records) KeepAnnotations(attachment.ID, time.Time, map[string]string, map[string]string) error {
	return nil
}

func web(l3 bool) *attachment.Record {
	one := annotation.InterfaceSpec{RxQueues: 1, TxQueues: 1, L3: true}
	memif := annotation.InterfaceSpec{RxQueues: 2, TxQueues: 4, RxSize: 512, TxSize: 1024, L3: l3}
	return &attachment.Record{
		ID: attachment.ID{Container: "c", Interface: "eth0"}, PodNamespace: "shop", PodName: "web", PodUID: "u", MTU: 1500,
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Tun: one, Memif: &annotation.Memif{Spec: memif},
	}
}

const (
	offered = `shop/web u quiver.io/status={"interfaces":[{"name":"eth0","addresses":["10.0.0.5"],"mtu":1500,"mode":"ip","rxQueues":2,"txQueues":2,"rxMode":"adaptive"},` +
		`{"name":"memif-eth0","addresses":["10.0.0.5"],"mtu":1500,"mode":"ethernet","rxQueues":2,"txQueues":4,"rxMode":"polling","socket":"@vpp/memif-eth0","id":0,` +
		`"mac":"02:00:00:00:00:01","ringSize":512,"fallback":"eth0","connected":false}]}`
	inForce = `"rxQueues":1,"txQueues":2,"rxMode":"polling","socket":"@vpp/memif-eth0","id":0,"mac":"02:00:00:00:00:01","ringSize":256,"bufferSize":2048,"fallback":"eth0","connected":true,` +
		`"peer":"testpmd","since":"2026-01-01T00:00:30Z"}`
)

func connected(connects uint64) *quiver.MemifState {
	return &quiver.MemifState{Connected: true, PeerName: "testpmd", Connects: connects, Queues: []*quiver.MemifQueue{
		{Rx: true, RingSize: 256}, {RingSize: 256, BufferSize: 2048}, {RingSize: 256, BufferSize: 2048},
	}}
}

func TestPodsAreToldWhatTheyHave(t *testing.T) {
	record := web(false)
	name, told, dataplane := dataplane.MemifName(record), &cluster{annotations: map[string]string{}}, &states{}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	attachments := records(func() []*attachment.Record {
		return []*attachment.Record{record, {ID: attachment.ID{Container: "without a pod"}}}
	})
	reporter := New(attachments, dataplane, told, slog.New(slog.DiscardHandler))
	at := func(seconds int, is states, writes, events int) {
		t.Helper()
		*dataplane = is
		reporter.round(t.Context(), start.Add(time.Duration(seconds)*time.Second))
		if len(told.writes) != writes || len(told.events) != events {
			t.Fatalf("after %d s: wrote %q, told %q", seconds, told.writes, told.events)
		}
	}
	last := func(all []string, part string) {
		t.Helper()
		if !strings.Contains(all[len(all)-1], part) {
			t.Errorf("%q lacks %q", all[len(all)-1], part)
		}
	}
	at(0, nil, 0, 0)
	// What quiverd hasn't yet isn't told of.
	at(3, states{}, 0, 0)
	// What it has counts, and not what was asked for.
	at(5, states{name: {MaxRingSize: 512}}, 1, 0)
	last(told.writes, offered)
	at(20, states{name: {MaxRingSize: 512}}, 1, 0)
	at(22, states{}, 1, 0)
	at(30, states{name: connected(1)}, 2, 1)
	last(told.writes, inForce)
	last(told.events, `QuiverMemifConnected memif-eth0: application "testpmd" is connected: 1 queue to receive from, 2 to send to, rings of 256, mode ethernet`)
	// Who comes and goes all the time is told of now and then: what is so then.
	gone := &quiver.MemifState{Connects: 1, LastDisconnect: "the peer closed", LastDisconnectNs: uint64(start.Add(33 * time.Second).UnixNano())}
	at(35, states{name: gone}, 2, 1)
	at(39, states{name: connected(2)}, 2, 1)
	at(41, states{name: gone}, 3, 2)
	last(told.writes, `"connected":false,"since":"2026-01-01T00:00:33Z","lastDisconnect":"the peer closed"}`)
	last(told.events, "QuiverMemifDisconnected memif-eth0: no application is connected any more: the peer closed; its ports go to eth0")
	// One that came anew between two looks.
	at(60, states{name: connected(3)}, 4, 3)
	at(80, states{name: connected(4)}, 5, 3)
	last(told.writes, `"since":"2026-01-01T00:01:20Z"`)

	// An agent that comes after this one knows it, too, and tells nothing twice.
	reporter = New(attachments, dataplane, told, slog.New(slog.DiscardHandler))
	at(100, states{name: connected(4)}, 5, 3)
	// What can't be written is written later.
	told.fails = errors.New("conflict")
	at(120, states{name: gone}, 5, 3)
	told.fails = nil
	at(125, states{name: gone}, 5, 3)
	at(131, states{name: gone}, 6, 4)
	// With IP packets there is no MAC.
	record = web(true)
	at(150, states{name: gone}, 7, 4)
	if text := told.writes[6]; strings.Contains(text, `"mac"`) || strings.Contains(text, "ethernet") {
		t.Error(text)
	}
}

func TestWhatQuiverdSaysOfInterfacesIsReported(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	quiverd, _ := realtest.Start(t, t.TempDir())
	record := web(false)
	record.Netns = "/proc/self/ns/net"
	record.Tun.RxQueues, record.Tun.RxMode, record.Memif.Spec.RxMode = 3, "interrupt", "polling"
	record.Memif.Ports = []annotation.PortRange{{Protocol: "udp", First: 5000, Last: 5000}}
	told := &cluster{annotations: map[string]string{}}
	reporter := New(records(func() []*attachment.Record { return []*attachment.Record{record} }), quiverd, told, slog.New(slog.DiscardHandler))
	if err := quiverd.Apply(t.Context(), dataplane.Objects(record), nil); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	until := func(what string, is func() bool) {
		t.Helper()
		realtest.Eventually(t, what, func() bool {
			now = now.Add(rest)
			reporter.round(t.Context(), now)
			return is()
		})
	}
	says := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			if text := told.writes[len(told.writes)-1]; !strings.Contains(text, part) {
				t.Errorf("%s lacks %s", text, part)
			}
		}
	}
	until("it is told what there is", func() bool { return len(told.writes) > 0 })
	says(`"mode":"ip","rxQueues":3,"txQueues":3,"rxMode":"interrupt"}`, `"mode":"ethernet","rxQueues":2,"txQueues":4,"rxMode":"polling",`, `"ringSize":1024,`, `"connected":false`)

	// The application asks for larger rings, and is given those that there are.
	client := &quiver.Memif{Socket: dataplane.Socket("eth0"), Role: quiver.MemifRole_MEMIF_ROLE_CLIENT, RxQueues: 3, TxQueues: 1, RingSize: 4096}
	application, end := realtest.Start(t, t.TempDir())
	device := &quiver.Interface{Name: "application", Port: &quiver.Interface_Memif{Memif: client}}
	if err := application.Apply(t.Context(), &quiver.Config{Interfaces: []*quiver.Interface{device}}, nil); err != nil {
		t.Fatal(err)
	}
	until("it is told that the application is there", func() bool { return len(told.events) > 0 })
	says(`"rxQueues":1,"txQueues":3,`, `"ringSize":1024,`, `"connected":true`)
	if !strings.HasPrefix(told.events[0], "QuiverMemifConnected memif-eth0: ") {
		t.Errorf("told %q", told.events)
	}
	end()
	until("it is told that it is gone", func() bool { return len(told.events) > 1 })
	says(`"connected":false`)
	if !strings.HasPrefix(told.events[1], "QuiverMemifDisconnected memif-eth0: ") || len(told.events) != 2 {
		t.Errorf("told %q", told.events)
	}

	// (What a pod is told by the event when it is made.)
	if most := record.Memif.Spec.MostRing(); most != 1024 {
		t.Errorf("rings of %d", most)
	}

	// Who says no size is offered all that there can be.
	record.Memif.Spec.RxSize, record.Memif.Spec.TxSize = 0, 0
	if err := quiverd.Apply(t.Context(), dataplane.Objects(record), nil); err != nil {
		t.Fatal(err)
	}
	until("it is told what is offered now", func() bool {
		return strings.Contains(told.writes[len(told.writes)-1], fmt.Sprintf(`"ringSize":%d,`, record.Memif.Spec.MostRing()))
	})
	says(`"ringSize":16384,`)
}

func TestWhatSomebodyElseWritesInItsPlaceDoesNotStay(t *testing.T) {
	record := web(false)
	told, dataplane := &cluster{annotations: map[string]string{}}, &states{dataplane.MemifName(record): {MaxRingSize: 512}}
	reporter := New(records(func() []*attachment.Record { return []*attachment.Record{record} }), dataplane, told, slog.New(slog.DiscardHandler))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds, writes int) {
		t.Helper()
		reporter.round(t.Context(), start.Add(time.Duration(seconds)*time.Second))
		if len(told.writes) != writes {
			t.Fatalf("after %d s: wrote %q", seconds, told.writes)
		}
	}
	at(0, 1)
	told.annotations[Annotation] = "mine"
	// No more often than a pod is written to at all; so long our own write may take to be seen, too.
	at(5, 1)
	at(10, 2)
	at(20, 2)
	delete(told.annotations, Annotation)
	at(25, 3)
	at(40, 3)
	for _, one := range told.writes {
		if one != offered {
			t.Errorf("wrote %s", one)
		}
	}
}
