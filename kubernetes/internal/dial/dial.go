// Package dial is how programs of a node talk to each other: by gRPC over unix sockets.
package dial

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// quick: the other one is on the same machine, and pods wait for it. gRPC's own patience, for servers far away, would have them wait for many seconds
// after it has come.
var quick = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}

// Unix prepares to talk to whoever listens, or will listen, at a unix socket.
func Unix(socket string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	all := append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick)}, options...)
	return grpc.NewClient("unix:"+socket, all...)
}
