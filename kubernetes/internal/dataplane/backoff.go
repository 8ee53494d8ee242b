package dataplane

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// quick: quiverd is on the same machine, and pods wait for it.
var quick = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}
