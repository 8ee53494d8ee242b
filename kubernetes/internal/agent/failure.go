package agent

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

// callError is an error for the caller. By itself it reads as what is wrong, without gRPC's words: it is also what is said of the node.
type callError struct{ status *status.Status }

func (e *callError) Error() string { return e.status.Message() }

// GRPCStatus is what the caller is given.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// failure is an error for the caller: what kind, what is wrong, what to do.
func failure(code codes.Code, remedy, reason string, arguments ...any) error {
	text := fmt.Sprintf(reason, arguments...)
	answer, err := status.New(code, text).WithDetails(&agentv1.Failure{Reason: text, Remedy: remedy})
	if err != nil {
		answer = status.New(code, text+"; "+remedy)
	}
	return &callError{answer}
}
