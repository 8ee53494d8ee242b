package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
)

func TestAddressesRestWhateverBecomesOfTheAgent(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24", "fd00:9::/64")
	expect := func(pod string, number int) *agentv1.AddRequest {
		t.Helper()
		request := p.asked(t, pod)
		want := []string{"10.9.0." + strconv.Itoa(number) + "/32", "fd00:9::" + strconv.Itoa(number) + "/128"}
		if got := p.add(t, request); !slices.Equal(got, want) {
			t.Errorf("%s has %v, not %v", pod, got, want)
		}
		return request
	}
	for number, pod := range []string{"a", "b"} {
		request := expect(pod, number+2)
		if pod == "b" {
			if _, err := p.Del(t.Context(), &agentv1.DelRequest{Attachment: request.Attachment}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// (b had the highest address of all.)
	p.begin(t, "10.9.0.0/24", "fd00:9::/64")
	expect("c", 4)
	// Nobody knows any more: it goes on behind the highest that is in use.
	if err := os.WriteFile(filepath.Join(p.directory, "last.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.begin(t, "10.9.0.0/24", "fd00:9::/64")
	expect("d", 5)
}
