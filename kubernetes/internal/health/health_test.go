package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"quiver/kubernetes/internal/nstest"
)

// alone goes on in a namespace with a device behind which nobody is.
func alone(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add silent type veth peer name end", "link set end up", "address add 192.0.2.2/24 dev silent", "link set silent up")
}

func TestWhoAnswersForwards(t *testing.T) {
	alone(t)
	silent := netip.MustParseAddr("192.0.2.1")
	// The kernel answers for itself.
	for _, here := range []string{"127.0.0.1", "::1"} {
		if err := Echo(t.Context(), netip.MustParseAddr(here)); err != nil {
			t.Error(err)
		}
	}
	if err := Forwards(t.Context(), []netip.Addr{silent, netip.MustParseAddr("127.0.0.1")}); err != nil {
		t.Error(err)
	}
	if err := Forwards(t.Context(), []netip.Addr{silent}); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Error(err)
	}
}

// said is what a node says of itself.
type said struct{ fault, warning error }

func (s *said) Ready(context.Context) error { return s.fault }
func (s *said) Warning() error              { return s.warning }

func TestReadinessIsWhatIsSaidNowAndLifeIsNot(t *testing.T) {
	node := &said{}
	paths := handler(node, nil)
	ask := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		paths.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	for _, fault := range []error{nil, errors.New("quiverd doesn't answer"), nil} {
		node.fault = fault
		status, body := ask("/readyz")
		if fault == nil && status != http.StatusOK || fault != nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, fault.Error())) {
			t.Errorf("%v: %d %s", fault, status, body)
		}
		if status, _ := ask("/livez"); status != http.StatusOK {
			t.Errorf("%v: not alive", fault)
		}
	}
	node.warning = errors.New("the firewall drops")
	if status, body := ask("/readyz"); status != http.StatusOK || body != "forwarding\nthe firewall drops\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := ask("/else"); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
}
