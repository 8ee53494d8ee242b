package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// How gRPC begins to say that there is no connection, and that there is none any more.
const unconnected, cut = "connection error: ", "error reading from server: "

// The other one is told until when it is waited for, and may be so much ahead of us in saying that this is over.
const ahead = 100 * time.Millisecond

// Error is a call that failed, in plain words. It has the status that gRPC gave it, too: its code is as it was.
type Error struct {
	// Program that was asked, at which Socket.
	Program, Socket string
	// Reason is what became of it: it follows these two.
	Reason string
	status *status.Status
}

func (e *Error) Error() string { return e.Program + " at " + e.Socket + e.Reason }

// GRPCStatus is what packages of gRPC ask an error for.
func (e *Error) GRPCStatus() *status.Status { return e.status }

// failed puts an error of a call into words, for which there was this much time (0: any).
func (o *other) failed(ctx context.Context, limit time.Duration, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	failure := status.Convert(err)
	return &Error{o.program, o.socket, o.reason(ctx, limit, failure), failure}
}

func (o *other) reason(ctx context.Context, limit time.Duration, failure *status.Status) string {
	deadline, limited := ctx.Deadline()
	late := limited && time.Until(deadline) < ahead
	switch code := failure.Code(); {
	case code == codes.DeadlineExceeded && late && limit > 0:
		return fmt.Sprintf(" doesn't answer within %s%s", rounded(limit), o.nobody())
	case code == codes.DeadlineExceeded && late:
		return " wasn't asked: the time for it was over"
	case code == codes.Unavailable && strings.HasPrefix(failure.Message(), unconnected):
		return " doesn't answer" + o.nobody()
	case code == codes.Unavailable && strings.HasPrefix(failure.Message(), cut):
		return " ended while it was asked"
	case code == codes.Canceled && ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			return " wasn't asked to the end: " + cause.Error()
		}
		return " wasn't asked to the end: who asked has given up"
	}
	return ": " + failure.Message()
}

// nobody says why nobody could be reached, if that is so.
func (o *other) nobody() string {
	unreached := o.unreached.Load()
	if unreached == nil {
		return ""
	}
	var number syscall.Errno
	switch {
	case !errors.As(*unreached, &number):
		return ": " + (*unreached).Error()
	case number == syscall.ENOENT || number == syscall.ECONNREFUSED:
		return ": nobody listens there"
	}
	return ": " + number.Error()
}

// rounded is a time as somebody would say it.
func rounded(limit time.Duration) time.Duration {
	if limit < time.Second {
		return max(limit.Round(10*time.Millisecond), time.Millisecond)
	}
	return limit.Round(100 * time.Millisecond)
}
