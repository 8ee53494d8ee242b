package connectivity

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// cluster has two nodes, both families and names.
func cluster() *scene {
	service := serviceOf()
	service.Spec.ClusterIPs = []string{"10.96.0.7", "fd00:96::7"}
	service.Spec.Ports[0].NodePort, service.Spec.Ports[1].NodePort = 30080, 30081
	return &scene{
		namespace: "t", nodes: []node{{"n1", addresses("192.168.7.1", "fd00:7::1")}, {"n2", addresses("192.168.7.2", "fd00:7::2")}},
		pods: map[string][]netip.Addr{
			client: addresses("10.0.1.2", "fd00:1::2"), near: addresses("10.0.1.3", "fd00:1::3"), far: addresses("10.0.2.2", "fd00:2::2"), guarded: addresses("10.0.2.3", "fd00:2::3"),
		},
		service: service, dns: "kube-dns", outside: "[2001:db8::1]:443", patience: 9 * time.Second,
	}
}

func find(t *testing.T, all []check, what, family, protocol string) check {
	t.Helper()
	i := slices.IndexFunc(all, func(one check) bool { return one.Check == what && one.Family == family && one.Protocol == protocol })
	if i < 0 {
		t.Fatalf("there is no check %q by %s %s", what, family, protocol)
	}
	return all[i]
}

func TestEveryWayIsAskedInBothFamilies(t *testing.T) {
	all := cluster().checks()
	for _, one := range []struct{ what, family, protocol, from, words string }{
		{"pod to pod on its node", "IPv4", "tcp", "client", "--for 9s tcp 10.0.1.3:8080"},
		{"pod to pod on another node", "IPv6", "udp", "client", "udp [fd00:2::2]:8080"},
		{"pod to Service", "IPv6", "tcp", "client", "tcp [fd00:96::7]:80"},
		{"pod to node port of its node", "IPv4", "udp", "client", "udp 192.168.7.1:30081"},
		{"pod to node port of another node", "IPv6", "tcp", "client", "tcp [fd00:7::2]:30080"},
		{"host to pod on its node", "IPv4", "tcp", "host n1", "tcp 10.0.1.3:8080"},
		{"host to pod on another node", "IPv4", "tcp", "host n1", "tcp 10.0.2.2:8080"},
		{"host to Service", "IPv4", "tcp", "host n1", "tcp 10.96.0.7:80"},
		{"policy permits", "IPv4", "tcp", "client", "tcp 10.0.2.3:8080"},
		{"policy denies", "IPv6", "tcp", "near", "--for 3s tcp [fd00:2::3]:8080"},
		{"DNS in a pod", "", "", "client", "resolve echo.t.svc"},
		{"pod to outside", "", "tcp", "client", "connect [2001:db8::1]:443"},
	} {
		got := find(t, all, one.what, one.family, one.protocol)
		if words := strings.Join(got.words, " "); got.From != one.from || !strings.HasSuffix(words, one.words) || got.Next == "" {
			t.Errorf("%s: from %s: %s; look at %q", one.what, got.From, words, got.Next)
		}
	}
}

func TestWhatThereIsntIsLeftOut(t *testing.T) {
	small := cluster()
	small.nodes, small.dns, small.outside = small.nodes[:1], "", ""
	delete(small.pods, far)
	for name, pod := range small.pods {
		small.pods[name] = pod[:1]
	}
	all := small.checks()
	var left []string
	for _, one := range all {
		if one.Family == "IPv6" || strings.Contains(strings.Join(one.words, " "), "invalid") {
			t.Errorf("asked: %v", one.words)
		}
		if one.Outcome == LeftOut {
			left = append(left, one.Check)
			if one.Said == "" {
				t.Errorf("%s: nobody says why", one.Check)
			}
		}
	}
	if want := []string{"pod to pod on another node", "DNS in a pod", "pod to outside"}; !slices.Equal(left, want) {
		t.Errorf("left out: %q", left)
	}
}

func TestAnswersAreJudged(t *testing.T) {
	all := cluster().checks()
	failed := errors.New("10.0.2.2:8080: i/o timeout")
	far4, service, denies, dns := find(t, all, "pod to pod on another node", "IPv4", "tcp"), find(t, all, "pod to Service", "IPv4", "tcp"), find(t, all, "policy denies", "IPv4", "tcp"), find(t, all, "DNS in a pod", "", "")
	for _, one := range []struct {
		check   check
		said    string
		failed  error
		asked   bool
		outcome Outcome
		says    string
	}{
		{far4, "far 10.0.1.2\n", nil, true, Passed, "far 10.0.1.2"},
		// By another address than the client's own.
		{far4, "far 192.168.7.1\n", nil, true, Failed, `"far 192.168.7.1", not "far 10.0.1.2"`},
		{far4, "", failed, true, Failed, "i/o timeout"},
		{service, "near 10.0.1.2", nil, true, Passed, ""},
		{service, "far 10.0.1.254", nil, true, Passed, ""},
		{service, "guarded 10.0.1.2", nil, true, Failed, `not "near" or "far"`},
		{denies, "", failed, true, Passed, "nobody answered"},
		{denies, "guarded 10.0.1.3", nil, true, Failed, "was answered: guarded"},
		// That nobody could ask is no denial.
		{denies, "", errors.New("can't ask"), false, Failed, "can't ask"},
		{dns, "10.96.0.7 fd00:96::7", nil, true, Passed, ""},
		{dns, "10.96.0.8", nil, true, Failed, "10.96.0.8"},
	} {
		got := one.check.judge(one.said, one.failed, one.asked)
		if got.Outcome != one.outcome || !strings.Contains(got.Said, one.says) || (got.Next != "") != (one.outcome == Failed) {
			t.Errorf("%s, %q, %v: %+v", one.check.Check, one.said, one.failed, got)
		}
	}
}

func TestResultsAreToldInOrderUntilTheEnd(t *testing.T) {
	all := cluster().checks()
	var told []string
	outcomes := map[string]Outcome{}
	run(t.Context(), all, func(_ context.Context, from place, words []string) (string, bool, error) {
		// Who asks first answers last.
		if from.pod == client {
			time.Sleep(time.Millisecond)
		}
		return "", true, errors.New("nobody answers")
	}, func(result Result) {
		told = append(told, result.Check+result.Family+result.Protocol+result.From)
		outcomes[told[len(told)-1]] = result.Outcome
	})
	if outcome := outcomes["policy deniesIPv4tcpnear"]; outcome != LeftOut {
		t.Errorf("a denial where nobody answers anyway: %s", outcome)
	}
	if len(told) != len(all) {
		t.Fatalf("%d of %d", len(told), len(all))
	}
	for i, one := range all {
		if want := one.Check + one.Family + one.Protocol + one.From; told[i] != want {
			t.Errorf("%s comes where %s should", told[i], want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	run(ctx, cluster().checks(), func(context.Context, place, []string) (string, bool, error) {
		cancel()
		return "", true, ctx.Err()
	}, func(result Result) { t.Errorf("told after the end: %+v", result) })
}

func TestResultsAreWritten(t *testing.T) {
	report := &Report{Namespace: "t", Nodes: []string{"n1"}, Checks: []Result{
		{Check: "pod to pod on its node", Family: "IPv4", Protocol: "tcp", From: "client", To: "near 10.0.1.3:8080", Outcome: Passed, Said: "near 10.0.1.2"},
		{Check: "host to pod on another node", Family: "IPv6", Protocol: "tcp", From: "host n1", To: "far [fd00::1]:8080", Outcome: Failed, Said: "i/o timeout", Next: "kubectl quiver status"},
		{Check: "pod to outside", From: "client", Outcome: LeftOut, Said: "name somebody"},
	}, Failed: 1}
	var out strings.Builder
	for _, one := range report.Checks {
		Line(&out, one)
	}
	if err := Sum(&out, report, false); err != nil {
		t.Fatal(err)
	}
	want := `ok    pod to pod on its node            IPv4  tcp  client > near 10.0.1.3:8080: near 10.0.1.2
FAIL  host to pod on another node       IPv6  tcp  host n1 > far [fd00::1]:8080: i/o timeout
      look at: kubectl quiver status
-     pod to outside: name somebody
1 passed, 1 failed, 1 left out
the pods are gone: run it with --keep to look at what stands there
`
	if out.String() != want {
		t.Errorf("\n%s", out.String())
	}
	out.Reset()
	if err := Sum(&out, report, true); err != nil || !strings.Contains(out.String(), `"from": "host n1"`) || strings.Contains(out.String(), "\\u003e") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// Pods of a namespace that takes restricted ones only are taken, too.
func TestPodsAskForNothing(t *testing.T) {
	pod := podOf(near, "n1", "image", core.PullIfNotPresent)
	security := pod.Spec.Containers[0].SecurityContext
	if pod.Spec.HostNetwork || *security.AllowPrivilegeEscalation || !slices.Equal(security.Capabilities.Drop, []core.Capability{"ALL"}) || !*pod.Spec.SecurityContext.RunAsNonRoot ||
		*pod.Spec.AutomountServiceAccountToken || pod.Labels[label] != echo {
		t.Errorf("%+v", pod)
	}
}
