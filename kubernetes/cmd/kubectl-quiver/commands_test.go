package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"quiver/kubernetes/internal/connectivity"
	"quiver/kubernetes/internal/inspect"
)

// With this in its environment the test is kubectl-quiver itself.
const itself = "QUIVER_TEST_IS_KUBECTL"

func TestMain(m *testing.M) {
	if os.Getenv(itself) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// without runs it where no cluster is known.
func without(t *testing.T, words ...string) (out, failures string, status int) {
	t.Helper()
	var said, failed bytes.Buffer
	process := exec.Command(os.Args[0], words...)
	process.Env = []string{itself + "=1", "HOME=" + t.TempDir()}
	process.Stdout, process.Stderr = &said, &failed
	var ended *exec.ExitError
	if err := process.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return said.String(), failed.String(), process.ProcessState.ExitCode()
}

func TestHelpNeedsNoCluster(t *testing.T) {
	for words, has := range map[string]string{
		"--help": "kubectl quiver [FLAGS] sysdump FILE", "-h": "kubectl quiver [FLAGS] sysdump FILE", "--namespace q trace --help": "\n  --count int", "trace -h": "how long to wait", "trace client --to web --help": "\n  -o string",
		"explain --help": "198.51.100.9 svc/shop/web:http", "pcap --help": "quiver pcap start", "pcap client --help": "quiver pcap start", "connectivity-test --help": "\n  --keep", "status --help": "doesn't forward",
		"drops --help": "dropped", "sessions --help": "every node", "sysdump --help": ".tar.gz", "on --help": "on n1 trace --help",
	} {
		out, failures, status := without(t, strings.Fields(words)...)
		if status != 0 || failures != "" || !strings.Contains(out, has) || !strings.Contains(out, "\n  --kubeconfig string") {
			t.Errorf("%s: status %d, %q\n%s", words, status, failures, out)
		}
	}
	// What is asked on a node is asked there.
	if out, failures, status := without(t, "on", "n1", "trace", "--help"); status != 1 || out != "" || !strings.Contains(failures, "kubectl-quiver: ") {
		t.Errorf("status %d, %q, %q", status, out, failures)
	}
}

func TestWhatCannotBeMeantIsToldInALineWithTheRemedy(t *testing.T) {
	for words, want := range map[string]string{
		"":                                    "what shall be looked at isn't said; see kubectl quiver --help",
		"--conext x status":                   "there is no flag --conext; see kubectl quiver --help",
		"look":                                `there is no command "look"; see kubectl quiver --help`,
		"trace client --potr 80":              "trace: there is no flag --potr; see kubectl quiver trace --help",
		"trace client --count many":           `trace: invalid value "many" for flag --count: parse error; see kubectl quiver trace --help`,
		"trace client --count":                "trace: flag needs an argument: --count; see kubectl quiver trace --help",
		"trace":                               "trace: it takes POD [--to TO] [--proto PROTOCOL] [--port PORT] [--count NUMBER] [--timeout TIME] [--output json]; see kubectl quiver trace --help",
		"trace a b":                           `trace: "b" is too much; see kubectl quiver trace --help`,
		"trace a -- --help":                   `trace: "--help" is too much; see kubectl quiver trace --help`,
		"trace --count 2 -- a --count":        `trace: "--count" is too much; see kubectl quiver trace --help`,
		"connectivity-test n1":                `connectivity-test: "n1" is too much; see kubectl quiver connectivity-test --help`,
		"pcap":                                "pcap: it takes POD [WORD...]; see kubectl quiver pcap --help",
		"status --all":                        "status: there is no flag --all; see kubectl quiver status --help",
		"trace a --count 0":                   "trace: --count 0: take 1 to 100; see kubectl quiver trace --help",
		"trace a --port 70000":                "trace: --port 70000: take 1 to 65535; see kubectl quiver trace --help",
		"trace a --proto gre":                 "trace: --proto gre: take tcp, udp, sctp or icmp; see kubectl quiver trace --help",
		"trace a --timeout 0s":                "trace: --timeout 0s: take more than that; see kubectl quiver trace --help",
		"connectivity-test --timeout 0s":      "connectivity-test: --timeout 0s: take 1s or more; see kubectl quiver connectivity-test --help",
		"connectivity-test --nodes a,a":       "connectivity-test: --nodes a,a: take one or two different ones; see kubectl quiver connectivity-test --help",
		"connectivity-test --nodes a,":        "connectivity-test: --nodes a,: take one or two different ones; see kubectl quiver connectivity-test --help",
		"connectivity-test --outside x":       "connectivity-test: --outside x: take ADDRESS:PORT; see kubectl quiver connectivity-test --help",
		"connectivity-test --outside x:70000": "connectivity-test: --outside x:70000: take ADDRESS:PORT; see kubectl quiver connectivity-test --help",
		"explain a b tcp/80 -o yaml":          "explain: --output yaml: take table or json; see kubectl quiver explain --help",
		"explain a 10.96.0.1":                 "explain: 10.96.0.1 is asked at which port? Say it behind, as tcp/80 (only a Service by its name, svc/web, may do without); see kubectl quiver explain --help",
		"explain --output json a b 1":         `explain: PROTOCOL/PORT "1" has no protocol: say tcp/1 or udp/1; take tcp/80, udp/53, sctp/7, udplite/7, dccp/7 (a port is a number from 1 to 65535), icmp, icmp/8, icmpv6, esp or ah; see kubectl quiver explain --help`,
		"explain a b -o":                      "explain: flag needs an argument: -o; see kubectl quiver explain --help",
		"explain a b --output":                "explain: flag needs an argument: --output; see kubectl quiver explain --help",
		"explain a 127.0.0.1 tcp/80":          "explain: 127.0.0.1 is an address of a host's loopback, which is nobody's in the cluster: give a pod, a node's address, or one that is routed; see kubectl quiver explain --help",
		"explain 10.0.0.5 10.0.0.6 icmpv6":    "explain: 10.0.0.5 and 10.0.0.6: icmpv6 is of the other family; say icmp; see kubectl quiver explain --help",
		"explain a 10.244.0.3:8080":           "explain: 10.244.0.3:8080: the port stands behind: say 10.244.0.3 tcp/8080; see kubectl quiver explain --help",
		"explain a [fd00::3]:53 udp/53":       "explain: [fd00::3]:53: the port stands behind: say fd00::3 udp/53; see kubectl quiver explain --help",
		"explain a shop/web-0:8080":           "explain: shop/web-0:8080: the port stands behind: say shop/web-0 tcp/8080; see kubectl quiver explain --help",
		"help look":                           `there is no command "look"; see kubectl quiver --help`,
		"version all":                         `version: "all" is too much; see kubectl quiver version --help`,
	} {
		out, failures, status := without(t, strings.Fields(words)...)
		if status != misuse || out != "" || failures != "kubectl-quiver: "+want+"\n" {
			t.Errorf("%s: status %d, %q\n%s", words, status, out, failures)
		}
	}
}

func TestWhoIsInterruptedEndsSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{errInterrupted, &inspect.NothingError{From: "client", Node: "n1"}, context.Canceled} {
		if got := status(ctx, err); got != interrupted {
			t.Errorf("%v: exit status %d", err, got)
		}
	}
	// What there wasn't, and what remains, is told.
	remains := &connectivity.RemainsError{Namespace: "n", Why: fmt.Errorf("forbidden: %w", context.Canceled)}
	for _, one := range []struct {
		err  error
		want string
	}{
		{context.Canceled, ""},
		{errors.Join(errInterrupted, fmt.Errorf("get: %w", context.Canceled)), ""},
		{errors.Join(context.Canceled, remains), "namespace n of the test is still there: kubectl delete namespace n: forbidden: context canceled"},
		{errors.Join(errors.Join(connectivity.ErrInterrupted, remains), errors.New("x")), "not all was asked; " + remains.Error() + "; x"},
		{fmt.Errorf("node n1: %w", errors.New("no route")), "node n1: no route"},
	} {
		if got := strings.Join(besides(one.err), "; "); got != one.want {
			t.Errorf("%v: %q", one.err, got)
		}
	}
	// What is told already, or is a command line, is what it was.
	for err, want := range map[error]int{errUnwell: 1, usageError("x"): misuse, nil: 0} {
		if got := status(ctx, err); got != want {
			t.Errorf("%v: exit status %d, not %d", err, got, want)
		}
	}
	if got := status(t.Context(), errors.New("no route")); got != 1 {
		t.Errorf("exit status %d", got)
	}
}

func TestVersionAndHelpNeedNoCluster(t *testing.T) {
	for _, words := range [][]string{{"version"}, {"--version"}} {
		out, failures, status := without(t, words...)
		if status != 0 || failures != "" || !strings.HasPrefix(out, "kubectl-quiver "+version) || strings.Count(out, "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q", words, status, out, failures)
		}
	}
	for words, has := range map[string]string{"help": "kubectl quiver [FLAGS] sysdump FILE", "help trace": "how long to wait", "help help": "[COMMAND]"} {
		if out, failures, status := without(t, strings.Fields(words)...); status != 0 || failures != "" || !strings.Contains(out, has) {
			t.Errorf("%s: status %d, %q\n%s", words, status, failures, out)
		}
	}
	// It is that of the whole.
	whole, err := os.ReadFile("../../../Cargo.toml")
	if err != nil || !strings.Contains(string(whole), "\nversion = \""+version+"\"\n") {
		t.Errorf("%v: it isn't %s", err, version)
	}
}

func TestWithoutAKubeconfigItIsToldHowToNameOne(t *testing.T) {
	want := "kubectl-quiver: nothing says how to reach the API server: name a file that does by --kubeconfig or KUBECONFIG, or have ~/.kube/config\n"
	if out, failures, status := without(t, "status"); status != 1 || out != "" || failures != want {
		t.Errorf("status %d, %q, %q", status, out, failures)
	}
}
