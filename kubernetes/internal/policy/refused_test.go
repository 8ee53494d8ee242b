package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/realtest"
)

// Whoever writes policies can write many that quiverd refuses: those of others are in force nevertheless.
func TestHoweverManyListsAreRefusedOthersAreInForce(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	keeper := New(Settings{}, nil, quiverd, slog.New(slog.DiscardHandler))
	have, err := quiverd.ACLs(t.Context(), Ours)
	if err != nil {
		t.Fatal(err)
	}
	keeper.have = have
	const many = 250
	all := &quiver.Config{}
	for i := range many {
		name := fmt.Sprintf("np:in:x.bad%d", i)
		bad := &quiver.Acl{Name: name, Rules: []*quiver.AclRule{{Name: "ingress-0.0", Protocol: "nonsense", Action: quiver.AclAction_ACL_ACTION_REFLECT}}}
		keeper.wanted.acls[name], all.Acls = bad, append(all.Acls, bad)
	}
	// One answer names them all.
	var why *dataplane.RefusedError
	if err := quiverd.Apply(t.Context(), all, nil); !errors.As(err, &why) || len(why.All()) != many {
		t.Fatalf("%v", err)
	}
	good := &quiver.Acl{Name: "np:in:x.good", Rules: []*quiver.AclRule{{Name: "ingress-0.0", Protocol: "tcp", Action: quiver.AclAction_ACL_ACTION_REFLECT}}}
	keeper.wanted.acls[good.Name] = good
	keeper.wanted.everything(have)
	refused, err := keeper.program(t.Context())
	if err != nil || len(refused) != many || !strings.Contains(refused["np:in:x.bad7"], "nonsense") {
		t.Fatalf("%d refused, %v: %q", len(refused), err, refused["np:in:x.bad7"])
	}
	have, err = quiverd.ACLs(t.Context(), Ours)
	if err != nil || len(have.ACLs) != many+1 || len(have.ACLs[good.Name].GetRules()) != 1 {
		t.Fatalf("%d lists, %v", len(have.ACLs), err)
	}
	// Who is refused lets nobody pass.
	if bad := have.ACLs["np:in:x.bad7"]; len(bad.GetRules()) != 0 || bad.GetDefaultAction() != quiver.AclDefault_ACL_DEFAULT_DENY {
		t.Errorf("%v", bad)
	}
}

// A rule with more peers than one of quiverd's can have is several.
func TestAPolicyMayHaveMorePeersThanARuleHasSets(t *testing.T) {
	directory := t.TempDir()
	quiverd, _ := realtest.Start(t, directory)
	passes := judge(t, directory, quiverd)
	a := small()
	policy := read(t, onA+"  policyTypes: [Ingress, Egress]\n  ingress: [{ports: [{port: 80}]}]\n  egress: [{ports: [{port: 81}]}]\n")
	for i := range 2*mostSets + 10 {
		name := fmt.Sprintf("other-%d", i)
		switch i {
		case 0:
			name = "b"
		case 2 * mostSets:
			name = "c"
		}
		peer := networking.NetworkPolicyPeer{PodSelector: &meta.LabelSelector{MatchLabels: map[string]string{"pod": name}}}
		policy.Spec.Ingress[0].From, policy.Spec.Egress[0].To = append(policy.Spec.Ingress[0].From, peer), append(policy.Spec.Egress[0].To, peer)
	}
	a.policies.Items = append(a.policies.Items, *policy)
	keeper := guarding(t, a, quiverd)
	realtest.Eventually(t, "all is there", func() bool { return keeper.Ready() == nil })
	if said, is := a.told.Load("p"); is {
		t.Errorf("told %q", said)
	}
	for i, passed := range []bool{true, true, false} {
		other := fmt.Sprintf("10.0.0.%d", i+2)
		for _, port := range []uint32{80, 81} {
			if in := passes(other, "10.0.0.1", port); in != (passed && port == 80) {
				t.Errorf("from %s to port %d: %v", other, port, in)
			}
			if out := passes("10.0.0.1", other, port); out != (passed && port == 81) {
				t.Errorf("to %s port %d: %v", other, port, out)
			}
		}
	}
}
