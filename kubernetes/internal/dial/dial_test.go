package dial

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// slow is an agent that refuses what is added, and has no answer to how it is before the test ends.
type slow struct {
	agentv1.UnimplementedPodNetworkServer
	ended <-chan struct{}
}

func (s *slow) Add(context.Context, *agentv1.AddRequest) (*agentv1.AddResponse, error) {
	refused, err := status.New(codes.InvalidArgument, "no port").WithDetails(&agentv1.Failure{Reason: "no port", Remedy: "name one"})
	if err != nil {
		return nil, err
	}
	return nil, refused.Err()
}

func (s *slow) Status(ctx context.Context, _ *agentv1.StatusRequest) (*agentv1.StatusResponse, error) {
	select {
	case <-s.ended:
	case <-ctx.Done():
	}
	return nil, ctx.Err()
}

// broken is a quiverd that tells one object, and then that there is no more memory.
type broken struct {
	quiver.UnimplementedQuiverServer
}

func (broken) Get(_ *quiver.GetRequest, answers grpc.ServerStreamingServer[quiver.GetResponse]) error {
	if err := answers.Send(&quiver.GetResponse{}); err != nil {
		return err
	}
	return status.Error(codes.ResourceExhausted, "no memory")
}

// What somebody else doesn't answer in time, or has given up, is no word of our own time.
func (broken) Runtime(context.Context, *quiver.RuntimeRequest) (*quiver.RuntimeResponse, error) {
	return nil, status.Error(codes.DeadlineExceeded, "the workers don't answer")
}

func (broken) Capture(*quiver.CaptureRequest, grpc.ServerStreamingServer[quiver.CaptureResponse]) error {
	return status.Error(codes.Canceled, "another capture was begun")
}

func serve(t *testing.T) (socket string) {
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server, ended := grpc.NewServer(), make(chan struct{})
	agentv1.RegisterPodNetworkServer(server, &slow{ended: ended})
	quiver.RegisterQuiverServer(server, broken{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	t.Cleanup(func() { close(ended) })
	return socket
}

func connected(t *testing.T, program, socket string) *grpc.ClientConn {
	connection, err := Unix(program, socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// judge compares an error with what shall be said: a socket stands for @, and some time for TIME.
func judge(t *testing.T, err error, socket string, code codes.Code, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %s", want)
	}
	said := regexp.MustCompile(`within [0-9.]+m?s`).ReplaceAllString(strings.ReplaceAll(err.Error(), socket, "@"), "within TIME")
	if said != want || status.Code(err) != code {
		t.Errorf("%s: %s; want %s: %s", status.Code(err), said, code, want)
	}
}

func TestWhatFailsIsToldInPlainWords(t *testing.T) {
	asked := func(ctx context.Context, socket string, options ...grpc.CallOption) error {
		_, err := agentv1.NewPodNetworkClient(connected(t, "quiver-agent", socket)).Status(ctx, &agentv1.StatusRequest{}, options...)
		return err
	}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	there, missing := serve(t), filepath.Join(t.TempDir(), "missing")
	judge(t, asked(short(), missing, grpc.WaitForReady(true)), missing, codes.DeadlineExceeded, "quiver-agent at @ doesn't answer within TIME: nobody listens there")
	judge(t, asked(t.Context(), missing), missing, codes.Unavailable, "quiver-agent at @ doesn't answer: nobody listens there")
	within := filepath.Join(there, "s")
	judge(t, asked(t.Context(), within), within, codes.Unavailable, "quiver-agent at @ doesn't answer: not a directory")
	judge(t, asked(short(), there), there, codes.DeadlineExceeded, "quiver-agent at @ doesn't answer within TIME")
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	judge(t, asked(over, there), there, codes.DeadlineExceeded, "quiver-agent at @ wasn't asked: the time for it was over")
	left, leave := context.WithCancelCause(t.Context())
	leave(nil)
	judge(t, asked(left, there), there, codes.Canceled, "quiver-agent at @ wasn't asked to the end: who asked has given up")
	left, leave = context.WithCancelCause(t.Context())
	leave(errors.New("quiverd went"))
	judge(t, asked(left, there), there, codes.Canceled, "quiver-agent at @ wasn't asked to the end: quiverd went")
}

func TestWhatTheOtherSaysIsKept(t *testing.T) {
	socket := serve(t)
	connection := connected(t, "quiverd", socket)
	_, err := agentv1.NewPodNetworkClient(connection).Add(t.Context(), &agentv1.AddRequest{})
	judge(t, err, socket, codes.InvalidArgument, "quiverd at @: no port")
	if details := status.Convert(err).Details(); len(details) != 1 || details[0].(*agentv1.Failure).Remedy != "name one" {
		t.Errorf("%v", details)
	}
	answers, err := quiver.NewQuiverClient(connection).Get(t.Context(), &quiver.GetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answers.Recv(); err != nil {
		t.Fatal(err)
	}
	_, err = answers.Recv()
	judge(t, err, socket, codes.ResourceExhausted, "quiverd at @: no memory")
	if errors.Is(err, io.EOF) {
		t.Error("taken for the end")
	}
}

// What its workers are late with, or it has given up itself, isn't our own time or will, though a stream's context is over when it ends.
func TestReasonsOfTheOtherAreNotTakenForOurs(t *testing.T) {
	socket := serve(t)
	client := quiver.NewQuiverClient(connected(t, "quiverd", socket))
	limited, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), limited} {
		_, err := client.Runtime(ctx, &quiver.RuntimeRequest{})
		judge(t, err, socket, codes.DeadlineExceeded, "quiverd at @: the workers don't answer")
		answers, err := client.Capture(ctx, &quiver.CaptureRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = answers.Recv()
		judge(t, err, socket, codes.Canceled, "quiverd at @: another capture was begun")
	}
}

// byHand serves one connection, by what is written for each stream that begins.
func byHand(t *testing.T, begun func(answer *http2.Framer, stream uint32) (goOn bool)) (socket string) {
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		frames := http2.NewFramer(connection, connection)
		if _, err := io.ReadFull(connection, make([]byte, len(http2.ClientPreface))); err != nil || frames.WriteSettings() != nil {
			return
		}
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				return
			}
			if headers, is := frame.(*http2.HeadersFrame); is && !begun(frames, headers.StreamID) {
				return
			}
		}
	}()
	return socket
}

func TestOneThatEndsMeanwhileIsToldSo(t *testing.T) {
	socket := byHand(t, func(*http2.Framer, uint32) bool { return false })
	_, err := quiver.NewQuiverClient(connected(t, "quiverd", socket)).Runtime(t.Context(), &quiver.RuntimeRequest{})
	judge(t, err, socket, codes.Unavailable, "quiverd at @ ended while it was asked")
}

// A quiverd that is about to go refuses what it hasn't begun with: gRPC asks once more, which nothing of ours may keep it from.
func TestAStreamThatWasNotBegunWithIsAskedForOnceMore(t *testing.T) {
	var asked atomic.Int32
	socket := byHand(t, func(answer *http2.Framer, stream uint32) bool {
		if asked.Add(1) == 1 {
			return answer.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
		}
		var block bytes.Buffer
		fields := hpack.NewEncoder(&block)
		for _, field := range []hpack.HeaderField{{Name: ":status", Value: "200"}, {Name: "content-type", Value: "application/grpc"}, {Name: "grpc-status", Value: "0"}} {
			if err := fields.WriteField(field); err != nil {
				return false
			}
		}
		return answer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}) == nil
	})
	answers, err := quiver.NewQuiverClient(connected(t, "quiverd", socket)).Get(t.Context(), &quiver.GetRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := answers.Recv(); !errors.Is(err, io.EOF) || asked.Load() != 2 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}
