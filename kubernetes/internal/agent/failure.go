package agent

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

// failure is an error for the caller: what kind, what is wrong, what to do.
func failure(code codes.Code, remedy, reason string, arguments ...any) error {
	text := fmt.Sprintf(reason, arguments...)
	answer, err := status.New(code, text).WithDetails(&agentv1.Failure{Reason: text, Remedy: remedy})
	if err != nil {
		return status.Error(code, text+"; "+remedy)
	}
	return answer.Err()
}
