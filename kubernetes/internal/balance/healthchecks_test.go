package balance

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/agent"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/health"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// healthAt is what is said at a port for health checks of this thread's namespace: status and body.
func healthAt(port int) string {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "nobody"
	}
	defer connection.Close()
	fmt.Fprint(connection, "GET /healthz HTTP/1.0\r\n\r\n")
	text, _ := io.ReadAll(connection)
	head, body, _ := strings.Cut(string(text), "\r\n\r\n")
	if head == "" {
		return "nothing"
	}
	return strings.Fields(head)[1] + " " + strings.TrimSpace(body)
}

func healthOf(status int, name string, pods int, healthy bool) string {
	return fmt.Sprintf(`%d {"localEndpoints":%d,"service":{"name":%q,"namespace":"default"},"serviceProxyHealthy":%v}`, status, pods, name, healthy)
}

func TestLoadBalancersAreToldWhetherANodeHasPods(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	web, other := types.NamespacedName{Namespace: "default", Name: "web"}, types.NamespacedName{Namespace: "default", Name: "other"}
	w := newWanted()
	all := &checks{all: map[uint16]*check{}}
	defer all.close()
	expect := func(want string) {
		t.Helper()
		if err := all.bring(w); err != nil {
			t.Error(err)
		}
		if got := healthAt(30999); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	answer := func(status int, name string, pods int) string {
		return healthOf(status, name, pods, true)
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

// Pods are of no use behind a quiverd that is gone, or hangs.
func TestLoadBalancersAreToldWhetherANodeForwards(t *testing.T) {
	nstest.Alone(t, "link set lo up")
	directory := t.TempDir()
	quiverd, end, process := realtest.StartProcess(t, directory)
	store, err := attachment.Open(filepath.Join(directory, "attachments"))
	if err != nil {
		t.Fatal(err)
	}
	node := agent.New(agent.Settings{}, store, quiverd, pods.Standalone{}, slog.New(slog.DiscardHandler))
	if err := node.SetRanges([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}); err != nil {
		t.Fatal(err)
	}
	if _, err := node.SetPaths(dataplane.Paths{MTU: 1400}); err != nil {
		t.Fatal(err)
	}
	if err := node.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	go node.Run(t.Context())
	w := newWanted()
	w.sets[types.NamespacedName{Namespace: "default", Name: "web"}] = service.Set{HealthPort: 30999, Near: 2}
	all := &checks{all: map[uint16]*check{}, healthy: health.Share(node.Serves)}
	defer all.close()
	if err := all.bring(w); err != nil {
		t.Fatal(err)
	}
	becomes := func(what, want string) {
		t.Helper()
		realtest.Eventually(t, fmt.Sprintf("%s: %s", what, want), func() bool { return healthAt(30999) == want })
	}
	well, ill := healthOf(http.StatusOK, "web", 2, true), healthOf(http.StatusServiceUnavailable, "web", 2, false)
	becomes("it forwards", well)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// (One that stands still couldn't be ended.)
	t.Cleanup(func() { _ = process.Signal(syscall.SIGCONT) })
	becomes("quiverd hangs", ill)
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	becomes("it goes on", well)
	end()
	becomes("quiverd has ended", ill)
	realtest.Start(t, directory)
	becomes("there is another one", well)
}
