package policy

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metautil "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// accepted is the condition that tells what becomes of a policy. It is the same on all nodes: what is wrong with one is wrong everywhere.
	accepted = "Accepted"
	// All agents would write the same thing at the same time; after that long most see that another one has.
	writeSpread = 3 * time.Second
	// One that couldn't be written is tried again.
	writeAgain = 30 * time.Second
	writer     = "quiver-agent"
)

// condition is what a policy's status should say.
func condition(policy *clusterwide) meta.Condition {
	said := meta.Condition{
		Type: accepted, Status: meta.ConditionTrue, Reason: "Accepted", Message: "all of it is in force", ObservedGeneration: policy.generation,
	}
	if problems := checked(policy); problems != "" {
		said.Status, said.Reason, said.Message = meta.ConditionFalse, "NotAsWritten", problems
	}
	return said
}

// missing is the condition to be written; nil: the policy says it already.
func missing(policy *clusterwide, now time.Time) *meta.Condition {
	said := condition(policy)
	there := metautil.FindStatusCondition(policy.conditions, accepted)
	if there != nil && there.Status == said.Status {
		if there.Reason == said.Reason && there.Message == said.Message && there.ObservedGeneration == said.ObservedGeneration {
			return nil
		}
		now = there.LastTransitionTime.Time
	}
	said.LastTransitionTime = meta.NewTime(now)
	return &said
}

// Report keeps the status of administrators' policies at what becomes of them, until the context ends.
func (o *Objects) Report(ctx context.Context, log *slog.Logger) {
	told := map[types.NamespacedName]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.unreported:
		case <-time.After(writeAgain):
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(writeSpread)):
		}
		for _, policy := range o.allClusterwide() {
			said := missing(policy, time.Now())
			if said == nil {
				continue
			}
			err := o.write(ctx, policy, said)
			if err != nil && ctx.Err() == nil && !errors.IsNotFound(err) && told[policy.key()] != err.Error() {
				told[policy.key()] = err.Error()
				log.Warn("a policy's status can't be written", "policy", policy.key().Name, "why", err)
			}
		}
	}
}

// write applies a condition: others' stay as they are.
func (o *Objects) write(ctx context.Context, policy *clusterwide, said *meta.Condition) error {
	resource := resources[policy.kind]
	body, err := json.Marshal(map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": policy.kind, "metadata": map[string]any{"name": policy.name},
		"status": map[string]any{"conditions": []*meta.Condition{said}},
	})
	if err != nil {
		return err
	}
	return o.admins[policy.kind].Patch(types.ApplyPatchType).Resource(resource.Resource).Name(policy.name).SubResource("status").
		Param("fieldManager", writer).Param("force", "true").Body(body).Do(ctx).Error()
}
