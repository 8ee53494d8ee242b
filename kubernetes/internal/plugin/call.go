package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/dial"
)

// Errors of our own, as CNI leaves the numbers from 100 to plugins.
const (
	// The pod asks for what can't be.
	errPod uint = 100
	// No address is left.
	errExhausted uint = 101
	// Check found something amiss.
	errAmiss uint = 102
)

// call asks the agent, waiting for one that is about to come if patient.
func call(config *Config, patient bool, ask func(context.Context, agentv1.PodNetworkClient) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), config.timeout())
	defer cancel()
	connection, err := dial.Unix("quiver-agent", config.AgentSocket, grpc.WithDefaultCallOptions(grpc.WaitForReady(patient)))
	if err != nil {
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("agentSocket %q: %v", config.AgentSocket, err), "give the path of a unix socket")
	}
	defer connection.Close()
	return ask(ctx, agentv1.NewPodNetworkClient(connection))
}

// unreachable tells whether the agent wasn't there to answer; what it says itself comes with a Failure.
func unreachable(err error) bool {
	code := status.Code(err)
	return (code == codes.Unavailable || code == codes.DeadlineExceeded) && failureOf(err) == nil
}

// worded is an error of a call as CNI wants it.
func worded(err error) error {
	if err == nil {
		return nil
	}
	var already *types.Error
	if errors.As(err, &already) {
		return already
	}
	if unreachable(err) {
		return types.NewError(types.ErrTryAgainLater, err.Error(), "see whether the pod of Quiver on this node runs, and the log of its container quiver-agent")
	}
	code := types.ErrInternal
	switch status.Code(err) {
	case codes.InvalidArgument:
		code = errPod
	case codes.ResourceExhausted:
		code = errExhausted
	case codes.NotFound:
		code = errAmiss
	case codes.Unavailable, codes.FailedPrecondition:
		code = types.ErrTryAgainLater
	}
	remedy := "see the log of quiver-agent on this node"
	if failure := failureOf(err); failure != nil {
		remedy = failure.Remedy
	}
	return types.NewError(code, status.Convert(err).Message(), remedy)
}

func failureOf(err error) *agentv1.Failure {
	for _, detail := range status.Convert(err).Details() {
		if failure, is := detail.(*agentv1.Failure); is {
			return failure
		}
	}
	return nil
}
