package policy

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metautil "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"quiver/kubernetes/internal/realtest"
)

func TestAConditionIsWrittenOnceAndKeepsTheTimeOfItsChange(t *testing.T) {
	policy := administrators(t, head("p", "Admin", "1")+subjectX+"  egress: [{action: Accept, to: [{domainNames: [a.example.org]}]}]\n")[0]
	policy.generation = 3
	then := time.Unix(1_000_000, 0)
	first := missing(policy, then)
	if first == nil || first.Status != meta.ConditionFalse || first.ObservedGeneration != 3 || !strings.Contains(first.Message, "domainNames aren't supported") {
		t.Fatalf("%+v", first)
	}
	metautil.SetStatusCondition(&policy.conditions, meta.Condition{Type: "Other", Status: meta.ConditionTrue})
	policy.conditions = append(policy.conditions, *first)
	if again := missing(policy, then.Add(time.Hour)); again != nil {
		t.Errorf("%+v", again)
	}
	// Another text, and still refused.
	policy.generation, policy.spec.Egress[0].To[0].DomainNames = 4, nil
	second := missing(policy, then.Add(time.Hour))
	if second == nil || second.Message == first.Message || !second.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Fatalf("%+v", second)
	}
	// All well.
	policy.generation, policy.spec.Egress[0].To[0].Networks = 5, []v1alpha2.CIDR{"10.0.0.0/8"}
	third := missing(policy, then.Add(time.Hour))
	if third == nil || third.Status != meta.ConditionTrue || !third.LastTransitionTime.Time.Equal(then.Add(time.Hour)) {
		t.Fatalf("%+v", third)
	}
}

// server is an API server that has the API of version v1alpha2, or not.
type server struct {
	mutex   sync.Mutex
	served  bool
	objects v1alpha2.ClusterNetworkPolicyList
	patches []string
}

func (s *server) ServeHTTP(to http.ResponseWriter, request *http.Request) {
	const path = "/apis/policy.networking.k8s.io/v1alpha2/clusternetworkpolicies"
	s.mutex.Lock()
	defer s.mutex.Unlock()
	to.Header().Set("Content-Type", "application/json")
	switch {
	case !s.served || !strings.HasPrefix(request.URL.Path, path):
		to.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(to).Encode(meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: meta.StatusReasonNotFound, Code: 404})
	case request.Method == http.MethodPatch:
		body, _ := io.ReadAll(request.Body)
		s.patches = append(s.patches, request.URL.Path+"?"+request.URL.RawQuery+" "+request.Header.Get("Content-Type")+" "+string(body))
		_ = json.NewEncoder(to).Encode(s.objects.Items[0])
	case request.URL.Query().Get("watch") != "":
		// (Nothing changes but that it isn't served any more: then it ends.)
	default:
		_ = json.NewEncoder(to).Encode(s.objects)
	}
}

func (s *server) serve(is bool) {
	s.mutex.Lock()
	s.served = is
	s.mutex.Unlock()
}

// The agent begins in a cluster without the API, which comes and goes.
func TestPoliciesOfAdministratorsMayBeUnknownToTheCluster(t *testing.T) {
	api := &server{}
	api.objects = v1alpha2.ClusterNetworkPolicyList{
		TypeMeta: meta.TypeMeta{Kind: "ClusterNetworkPolicyList", APIVersion: v1alpha2.GroupVersion.String()}, ListMeta: meta.ListMeta{ResourceVersion: "7"},
		Items: []v1alpha2.ClusterNetworkPolicy{{
			TypeMeta:   meta.TypeMeta{Kind: clusterKind, APIVersion: v1alpha2.GroupVersion.String()},
			ObjectMeta: meta.ObjectMeta{Name: "p", ResourceVersion: "6", Generation: 2}, Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier},
		}},
	}
	listening := httptest.NewServer(api)
	defer listening.Close()
	admins, from := map[string]rest.Interface{}, small().sources()
	for kind, resource := range resources {
		client, err := reach(&rest.Config{Host: listening.URL}, resource.GroupVersion())
		if err != nil {
			t.Fatal(err)
		}
		admins[kind], from.clusterwide[kind] = client, whereServed(client, resource.Resource, time.Millisecond)
	}
	objects, err := newObjects(from)
	if err != nil {
		t.Fatal(err)
	}
	objects.admins = admins
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go objects.Run(ctx)
	go objects.Report(ctx, slog.New(slog.DiscardHandler))
	realtest.Eventually(t, "all is known: there are none", objects.Known)
	if found := objects.allClusterwide(); len(found) != 0 {
		t.Fatal(found)
	}
	api.serve(true)
	key := clusterKey(clusterKind, "p")
	realtest.Eventually(t, "the policy is found", func() bool { return objects.administrators(key) != nil })
	written := func() (all []string) {
		api.mutex.Lock()
		defer api.mutex.Unlock()
		return api.patches
	}
	realtest.Eventually(t, "its status is written", func() bool { return len(written()) > 0 })
	for _, part := range []string{"/clusternetworkpolicies/p/status?", "fieldManager=quiver-agent", "application/apply-patch+yaml", `"type":"Accepted"`, `"status":"False"`, `"observedGeneration":2`, "subject: neither namespaces nor pods"} {
		if !strings.Contains(written()[0], part) {
			t.Errorf("%s isn't in %s", part, written()[0])
		}
	}
	api.serve(false)
	realtest.Eventually(t, "the policy is gone with the API", func() bool { return objects.administrators(key) == nil })
}
