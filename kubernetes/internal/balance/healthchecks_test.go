package balance

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/service"
)

func TestLoadBalancersAreToldWhetherANodeHasPods(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	ask := func(port int) string {
		// (In this thread, whose namespace it is.)
		connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return "nobody"
		}
		defer connection.Close()
		fmt.Fprint(connection, "GET /healthz HTTP/1.0\r\n\r\n")
		text, _ := io.ReadAll(connection)
		head, body, _ := strings.Cut(string(text), "\r\n\r\n")
		return strings.Fields(head)[1] + " " + strings.TrimSpace(body)
	}
	web, other := types.NamespacedName{Namespace: "default", Name: "web"}, types.NamespacedName{Namespace: "default", Name: "other"}
	w := newWanted()
	all := &checks{all: map[uint16]*check{}}
	defer all.close()
	expect := func(want string) {
		t.Helper()
		if err := all.bring(w); err != nil {
			t.Error(err)
		}
		if got := ask(30999); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	answer := func(status int, name string, pods int) string {
		return fmt.Sprintf(`%d {"localEndpoints":%d,"service":{"name":%q,"namespace":"default"},"serviceProxyHealthy":true}`, status, pods, name)
	}
	expect("nobody")
	w.sets[web] = service.Set{HealthPort: 30999, Near: 2}
	expect(answer(http.StatusOK, "web", 2))
	w.sets[web] = service.Set{HealthPort: 30999}
	expect(answer(http.StatusServiceUnavailable, "web", 0))
	delete(w.sets, web)
	w.sets[other] = service.Set{HealthPort: 30999, Near: 1}
	expect(answer(http.StatusOK, "other", 1))
	delete(w.sets, other)
	expect("nobody")
}
