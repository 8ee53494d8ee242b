package realtest

import (
	"context"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
)

// Applied is what a client has had a quiverd apply: every batch, whatever became of it.
type Applied struct {
	mutex   sync.Mutex
	batches []*quiver.ApplyRequest
}

// Recorded gives another client of the quiverd of a directory, and what is applied by it.
func Recorded(t testing.TB, directory string) (*dataplane.Client, *Applied) {
	t.Helper()
	applied := &Applied{}
	client, err := dataplane.Dial(Socket(directory), grpc.WithUnaryInterceptor(applied.note))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, applied
}

func (a *Applied) note(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if batch, is := request.(*quiver.ApplyRequest); is {
		a.mutex.Lock()
		// Whoever has made it may go on with it.
		a.batches = append(a.batches, proto.CloneOf(batch))
		a.mutex.Unlock()
	}
	return invoke(ctx, method, request, reply, connection, options...)
}

// Take is all of it since it was taken last, as if it were one batch.
func (a *Applied) Take() *quiver.ApplyRequest {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	all := &quiver.ApplyRequest{Upserts: &quiver.Config{}}
	for _, batch := range a.batches {
		proto.Merge(all, batch)
	}
	a.batches = nil
	return all
}
