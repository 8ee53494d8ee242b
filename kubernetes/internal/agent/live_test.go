package agent

import (
	"testing"

	"quiver/kubernetes/internal/annotation"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/dial"
	"quiver/kubernetes/internal/realtest"
)

func TestSettingsThatChangeCountFromThenOn(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.guarded(&watchful{})
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	connection, err := dial.Unix("quiverd", realtest.Socket(p.directory))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	client := quiver.NewQuiverClient(connection)
	keeps := func(want bool) {
		t.Helper()
		stream, err := client.Get(t.Context(), &quiver.GetRequest{Kind: quiver.Kind_KIND_TENANT})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Objects) != 1 || answer.Objects[0].GetTenant().GetKeepSessions() != want {
			t.Errorf("quiverd has %v", answer.Objects)
		}
	}
	asks := func(name string, annotations map[string]string) *agentv1.AddRequest {
		request := p.asked(t, name)
		request.Annotations = annotations
		return request
	}
	sources := map[string]string{"quiver.io/allowedSourcePrefixes": `["172.16.0.1"]`}
	memif := map[string]string{"quiver.io/extraMemifPorts": "tcp:80"}
	keeps(false)
	p.add(t, asks("first", memif))
	if _, err := p.Add(t.Context(), asks("refused", sources)); err == nil {
		t.Error("a pod may send from what isn't allowed")
	}
	allowed, err := annotation.ParseSources("172.16.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	p.Set(t.Context(), true, dataplane.Sessions{}, annotation.Defaults{MemifDrops: true, Sources: allowed})
	keeps(true)
	p.add(t, asks("second", memif))
	p.add(t, asks("allowed", sources))
	drops := map[string]bool{}
	for _, record := range p.Attachments() {
		if record.Memif != nil {
			drops[record.PodName] = record.Memif.Drops
		}
	}
	// What a pod has got it keeps.
	if len(drops) != 2 || drops["first"] == drops["second"] {
		t.Errorf("memifs drop: %v", drops)
	}
	p.Set(t.Context(), false, dataplane.Sessions{}, annotation.Defaults{})
	keeps(false)
}
