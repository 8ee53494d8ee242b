package agent

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/attachment"
)

// noted is who keeps Services, as far as the agent sees it.
type noted struct{ woken int }

func (*noted) Ready() error { return nil }
func (*noted) Compare()     {}
func (n *noted) Wake()      { n.woken++ }

func tcp(port uint32, address string) *agentv1.HostPort {
	return &agentv1.HostPort{Protocol: "tcp", Port: port, PodPort: 80, Address: address}
}

// As the scheduler sees conflicts (Kubernetes, scheduling framework: NodePorts): an address may be another pod's, "0.0.0.0" and none stand for all.
func TestAHostPortIsOnePods(t *testing.T) {
	for _, c := range []struct {
		there, asked *agentv1.HostPort
		conflict     bool
	}{
		{tcp(8080, ""), tcp(8080, ""), true},
		{tcp(8080, ""), tcp(8081, ""), false},
		{tcp(8080, ""), &agentv1.HostPort{Protocol: "udp", Port: 8080, PodPort: 80}, false},
		{tcp(8080, ""), tcp(8080, "127.0.0.1"), true},
		{tcp(8080, "192.168.7.1"), tcp(8080, "0.0.0.0"), true},
		{tcp(8080, "192.168.7.1"), tcp(8080, "::"), false},
		{tcp(8080, "192.168.7.1"), tcp(8080, "192.168.7.2"), false},
		{tcp(8080, "192.168.7.1"), tcp(8080, "127.0.0.1"), false},
		{tcp(8080, "fd00:7::1"), tcp(8080, "::"), true},
		{tcp(8080, "::"), tcp(8080, "0.0.0.0"), false},
	} {
		directory := t.TempDir()
		store, err := attachment.Open(directory)
		if err != nil {
			t.Fatal(err)
		}
		a := New(Settings{}, store, nil, nil, slog.New(slog.DiscardHandler))
		services := &noted{}
		a.Keeping(services)
		first := &attachment.Record{ID: attachment.ID{Container: "1", Interface: "eth0"}, PodNamespace: "default", PodName: "first"}
		if err := a.claim(first, []*agentv1.HostPort{c.there}); err != nil {
			t.Fatal(err)
		}
		if err := store.Put(first); err != nil {
			t.Fatal(err)
		}
		// Another agent comes in between.
		if a.store, err = attachment.Open(directory); err != nil {
			t.Fatal(err)
		}
		second := &attachment.Record{ID: attachment.ID{Container: "2", Interface: "eth0"}, PodName: "second"}
		err = a.claim(second, []*agentv1.HostPort{c.asked})
		if (err != nil) != c.conflict {
			t.Errorf("%v beside %v: %v", c.asked, c.there, err)
		}
		if err != nil && (status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "is that of pod default/first") || second.HostPorts != nil) {
			t.Errorf("told %v", err)
		}
		if err := a.store.Delete(first.ID); err != nil {
			t.Fatal(err)
		}
		if err := a.claim(second, []*agentv1.HostPort{c.asked}); err != nil {
			t.Errorf("the other one is gone: %v", err)
		}
		a.ported(second)
		a.ported(&attachment.Record{})
		if services.woken != 1 {
			t.Errorf("woken %d times", services.woken)
		}
	}
}

func TestHostPortsThatCannotBeAreRefused(t *testing.T) {
	store, err := attachment.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := New(Settings{}, store, nil, nil, slog.New(slog.DiscardHandler))
	record := &attachment.Record{PodNamespace: "default", PodName: "web"}
	refused := func(words string, ports ...*agentv1.HostPort) {
		t.Helper()
		if err := a.claim(record, ports); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "default/web") {
			t.Errorf("%v: %v", ports, err)
		}
	}
	refused("serves no Services", tcp(8080, ""))
	a.Keeping(&noted{})
	refused(`"icmp" is no protocol`, &agentv1.HostPort{Protocol: "icmp", Port: 1, PodPort: 1})
	refused("ports are from 1 to 65535", tcp(65536, ""))
	refused(`"x" is no IP address`, tcp(80, "x"))
	refused("8080/tcp twice", tcp(8080, "192.168.7.1"), tcp(8080, ""))
	if err := a.claim(record, []*agentv1.HostPort{tcp(8080, "::ffff:192.168.7.1"), tcp(8081, "")}); err != nil {
		t.Fatal(err)
	}
	if err := store.Put(record); err != nil {
		t.Fatal(err)
	}
	all := a.HostPorts()
	if len(all) != 1 || all[0].Name.Name != "web" || len(all[0].Ports) != 2 || all[0].Ports[0].Node.String() != "192.168.7.1" || !slices.Equal([]uint16{all[0].Ports[1].Port, all[0].Ports[1].Target}, []uint16{8081, 80}) {
		t.Errorf("%+v", all)
	}
}
