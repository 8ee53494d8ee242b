package plugin

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

// late is a socket at which nobody answers the first few times.
type late struct {
	net.Listener
	times int
}

func (l *late) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil || l.times == 0 {
			return connection, err
		}
		l.times--
		connection.Close()
	}
}

// An agent that comes after a while is found soon: who asks tries often enough for that. With the patience that is gRPC's own, which doubles each
// time, it would have asked half as often until its time was over.
func TestAnAgentThatComesIsFoundSoon(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	agentv1.RegisterPodNetworkServer(server, agentv1.UnimplementedPodNetworkServer{})
	go func() { _ = server.Serve(&late{listener, 14}) }()
	defer server.Stop()
	config := &Config{AgentSocket: socket, TimeoutSeconds: 30}
	err = call(config, true, func(ctx context.Context, agent agentv1.PodNetworkClient) error {
		_, err := agent.Add(ctx, &agentv1.AddRequest{})
		return err
	})
	if err == nil || unreachable(err) {
		t.Errorf("it wasn't found: %v", err)
	}
}
