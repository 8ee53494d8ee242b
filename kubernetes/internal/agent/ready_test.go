package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/pods"
)

// faulty is a quiverd of which one worker may stand still.
type faulty struct {
	quiver.UnimplementedQuiverServer
	stuck atomic.Bool
}

func (*faulty) Version(context.Context, *quiver.VersionRequest) (*quiver.VersionResponse, error) {
	return &quiver.VersionResponse{}, nil
}

func (f *faulty) Runtime(context.Context, *quiver.RuntimeRequest) (*quiver.RuntimeResponse, error) {
	workers := []*quiver.WorkerRuntime{{Index: 0, Core: 2, StuckTimes: 1}, {Index: 1, Core: 3}}
	if f.stuck.Load() {
		workers[1].StuckSeconds, workers[1].Standstill = 3.1, "stands still for 3.1 s, in acl: it runs, and its round has no end"
	}
	return &quiver.RuntimeResponse{Workers: workers}, nil
}

// bare is an agent of its own without anything, and where it looks for a quiverd.
func bare(t *testing.T) (a *Agent, socket string) {
	t.Helper()
	directory := t.TempDir()
	socket = filepath.Join(directory, "quiver.sock")
	quiverd, err := dataplane.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = quiverd.Close() })
	store, err := attachment.Open(filepath.Join(directory, "attachments"))
	if err != nil {
		t.Fatal(err)
	}
	return New(Settings{}, store, quiverd, pods.Standalone{}, slog.New(slog.DiscardHandler)), socket
}

// The ping of the host may be answered by a worker that goes on.
func TestNotReadyWhileAWorkerStandsStill(t *testing.T) {
	a, socket := bare(t)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, fake := grpc.NewServer(), &faulty{}
	quiver.RegisterQuiverServer(server, fake)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	if err := a.SetRanges([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SetPaths(dataplane.Paths{MTU: 1400}); err != nil {
		t.Fatal(err)
	}
	a.compared = nil
	if err := a.Ready(t.Context()); err != nil {
		t.Errorf("it goes on: %v", err)
	}
	fake.stuck.Store(true)
	err = a.Ready(t.Context())
	var still *dataplane.StandstillError
	if !errors.As(err, &still) || still.Worker != 1 || !strings.Contains(err.Error(), "worker 1 of quiverd, on core 3, stands still for 3.1 s, in acl") {
		t.Errorf("told %v", err)
	}
	fake.stuck.Store(false)
	if err := a.Ready(t.Context()); err != nil {
		t.Errorf("it goes on again: %v", err)
	}
}

// What kubelet and `kubectl quiver status` show of a node whose quiverd is away.
func TestWhyItIsNotReadyIsToldInPlainWords(t *testing.T) {
	a, socket := bare(t)
	if err := a.Ready(t.Context()); err == nil || err.Error() != "there are no addresses for pods yet" {
		t.Errorf("told %v", err)
	}
	if err := a.SetRanges([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SetPaths(dataplane.Paths{MTU: 1400}); err != nil {
		t.Fatal(err)
	}
	if err := a.Ready(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "quiverd at "+socket+" doesn't answer within ") || !strings.HasSuffix(err.Error(), "s: nobody listens there") {
		t.Errorf("told %v", err)
	}
}

// An ADD that waits for a quiverd which hangs holds up the next change, and not who asks whether the node is ready.
func TestWhyItIsNotReadyIsToldWhileAChangeWaits(t *testing.T) {
	a, socket := bare(t)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	a.mutex.Lock()
	if err := a.Ready(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "quiverd at "+socket+" doesn't answer within ") {
		t.Errorf("told %v", err)
	}
	// It goes on, and the change still takes its time.
	server := grpc.NewServer()
	quiver.RegisterQuiverServer(server, &faulty{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	for end := time.Now().Add(time.Minute); ; {
		if err = a.Ready(t.Context()); errors.Is(err, errBusy) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("told %v", err)
		}
	}
	a.mutex.Unlock()
	if err := a.Ready(t.Context()); err == nil || err.Error() != "there are no addresses for pods yet" {
		t.Errorf("told %v", err)
	}
}
