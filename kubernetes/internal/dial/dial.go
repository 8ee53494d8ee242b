// Package dial is how programs of a node talk to each other: by gRPC over unix sockets.
package dial

import (
	"context"
	"net"
	"sync/atomic"
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

// Unix prepares to talk to whoever listens, or will listen, at a unix socket: a program of that name. Calls, and what is received
// of streams, fail with an *Error.
func Unix(program, socket string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	other := &other{program: program, socket: socket}
	all := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick), grpc.WithContextDialer(other.dial),
		grpc.WithChainUnaryInterceptor(other.unary), grpc.WithChainStreamInterceptor(other.stream),
	}, options...)
	return grpc.NewClient("unix:"+socket, all...)
}

// other is who is talked to.
type other struct {
	program, socket string
	// Why it couldn't be connected to when that was tried last; nil: it could.
	unreached atomic.Pointer[error]
}

func (o *other) dial(ctx context.Context, _ string) (net.Conn, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "unix", o.socket)
	if err != nil {
		o.unreached.Store(&err)
		return nil, err
	}
	o.unreached.Store(nil)
	return connection, nil
}

func (o *other) unary(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	limit := left(ctx)
	return o.failed(ctx, limit, invoke(ctx, method, request, reply, connection, options...))
}

func (o *other) stream(ctx context.Context, of *grpc.StreamDesc, connection *grpc.ClientConn, method string, begin grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	limit := left(ctx)
	begun, err := begin(ctx, of, connection, method, options...)
	if err != nil {
		return nil, o.failed(ctx, limit, err)
	}
	return &stream{begun, o, ctx, limit}, nil
}

// left is how long a context lasts from now on; 0: without end.
func left(ctx context.Context) time.Duration {
	if deadline, limited := ctx.Deadline(); limited {
		return time.Until(deadline)
	}
	return 0
}

// stream of answers.
type stream struct {
	grpc.ClientStream
	from *other
	// Of who asked. That of the stream itself is over as soon as the stream is, and whoever looks at it has gRPC try nothing once more.
	ctx   context.Context
	limit time.Duration
}

func (s *stream) RecvMsg(message any) error {
	return s.from.failed(s.ctx, s.limit, s.ClientStream.RecvMsg(message))
}
