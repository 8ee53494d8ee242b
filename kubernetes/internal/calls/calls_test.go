package calls

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/pods"
)

// told is what was said.
type told struct{ all []string }

func (t *told) Tell(pod pods.ID, well bool, reason, message string) {
	kind := "Warning"
	if well {
		kind = "Normal"
	}
	t.all = append(t.all, strings.Join([]string{pod.Namespace, pod.Name, pod.UID, kind, reason, message}, " "))
}

func TestOwnersHearOfAMemifAndOfWhatTheyAskedWrongly(t *testing.T) {
	registry, said := prometheus.NewRegistry(), &told{}
	calls, err := Watch(registry, said)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := status.New(codes.InvalidArgument, "x").WithDetails(&agentv1.Failure{Reason: "annotation a, position 8: no", Remedy: "write b"})
	if err != nil {
		t.Fatal(err)
	}
	add := func(response *agentv1.AddResponse, err error) {
		request := &agentv1.AddRequest{Attachment: &agentv1.Attachment{Interface: "eth0"}, PodNamespace: "n", PodName: "p", PodUid: "u"}
		handle := func(context.Context, any) (any, error) { return response, err }
		if _, got := calls.Unary(t.Context(), request, &grpc.UnaryServerInfo{FullMethod: "/quiver.agent.v1.PodNetwork/Add"}, handle); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	add(&agentv1.AddResponse{}, nil)
	add(&agentv1.AddResponse{Memif: &agentv1.Memif{Socket: "@s", RxQueues: 1, TxQueues: 4, RingSize: 512}}, nil)
	add(&agentv1.AddResponse{Memif: &agentv1.Memif{Socket: "@s", L3: true, RxQueues: 2, TxQueues: 1, RingSize: 16384}}, nil)
	add(nil, refused.Err())
	// That quiverd is away is nobody's fault who owns pods.
	add(nil, status.Error(codes.Unavailable, "quiverd doesn't answer"))
	want := []string{
		"n p u Normal QuiverMemif eth0 has a memif beside it: socket @s in the pod's network namespace, id 0; at most 1 queue to receive from, 4 to send to, rings of 512, mode ethernet",
		"n p u Normal QuiverMemif eth0 has a memif beside it: socket @s in the pod's network namespace, id 0; at most 2 queues to receive from, 1 to send to, rings of 16384, mode ip",
		"n p u Warning QuiverRefused annotation a, position 8: no; write b",
	}
	if !slices.Equal(said.all, want) {
		t.Errorf("told %q", said.all)
	}
	counted := map[string]uint64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, metric := range families[0].Metric {
		counted[metric.Label[0].GetValue()+" "+metric.Label[1].GetValue()] = metric.Histogram.GetSampleCount()
	}
	if counted["OK add"] != 3 || counted["InvalidArgument add"] != 1 || counted["Unavailable add"] != 1 {
		t.Errorf("counted %v", counted)
	}
}
