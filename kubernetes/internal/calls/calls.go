// Package calls looks at what quiver-cni asks and is answered: it counts, and tells the pod's owner.
package calls

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quiver/kubernetes/internal/annotation"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/pods"
)

// Teller tells the owner of a pod something about it, where owners look.
type Teller interface {
	// Tell says that something is well, or needs somebody's attention; the reason is one word.
	Tell(pod pods.ID, well bool, reason, message string)
}

// Calls are watched.
type Calls struct {
	teller  Teller
	seconds *prometheus.HistogramVec
}

// Watch prepares to count in a registry, and to tell somebody (nil: nobody).
func Watch(registry prometheus.Registerer, teller Teller) (*Calls, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "quiver_agent_cni_seconds",
		Help:    "How long calls of quiver-cni took, by operation and by what became of them (a gRPC code).",
		Buckets: prometheus.ExponentialBuckets(0.002, 4, 8),
	}, []string{"operation", "code"})
	return &Calls{teller, seconds}, registry.Register(seconds)
}

// Unary is a server's interceptor.
func (c *Calls) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	begun := time.Now()
	response, err := handle(ctx, request)
	operation := strings.ToLower(info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:])
	c.seconds.WithLabelValues(operation, status.Code(err).String()).Observe(time.Since(begun).Seconds())
	if added, is := request.(*agentv1.AddRequest); is && c.teller != nil && added.PodName != "" {
		c.tell(added, response, err)
	}
	return response, err
}

func (c *Calls) tell(request *agentv1.AddRequest, response any, err error) {
	pod := pods.ID{Namespace: request.PodNamespace, Name: request.PodName, UID: request.PodUid}
	if answer, is := response.(*agentv1.AddResponse); err == nil && is {
		if memif := answer.GetMemif(); memif != nil {
			mode := "ethernet"
			if memif.L3 {
				mode = "ip"
			}
			c.teller.Tell(pod, true, "QuiverMemif", fmt.Sprintf("%s has a memif beside it: socket %s in the pod's network namespace, id 0; at most %s, rings of %d, mode %s",
				request.Attachment.GetInterface(), memif.Socket, annotation.Queues(int(memif.RxQueues), int(memif.TxQueues)), memif.RingSize, mode))
		}
		return
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.ResourceExhausted, codes.FailedPrecondition:
		c.teller.Tell(pod, false, "QuiverRefused", worded(err))
	}
	// All else may pass, and kubelet tells it.
}

// worded is an error with what to do about it.
func worded(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if failure, is := detail.(*agentv1.Failure); is {
			return failure.Reason + "; " + failure.Remedy
		}
	}
	return status.Convert(err).Message()
}
