package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// interruptible runs it where an API server has a node of Quiver's. Of a connectivity test it makes the namespace and nothing in it, of which it tells and
// lets wait, and what becomes of removing it is up to `removes`.
func interruptible(t *testing.T, making func(*os.Process), removes func(*os.Process, http.ResponseWriter), words ...string) (failures string, ended *os.ProcessState) {
	t.Helper()
	var process *exec.Cmd
	over := make(chan struct{})
	ready := core.PodStatus{Conditions: []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}}}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		var answer any
		switch request.Method + " " + request.URL.Path {
		case "GET /api/v1/nodes":
			answer = core.NodeList{Items: []core.Node{{ObjectMeta: meta.ObjectMeta{Name: "n1"}}}}
		case "GET /api/v1/namespaces/quiver/pods":
			answer = core.PodList{Items: []core.Pod{{Spec: core.PodSpec{NodeName: "n1"}, Status: ready}}}
		case "POST /api/v1/namespaces":
			answer = core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "quiver-connectivity-x"}}
		case "DELETE /api/v1/namespaces/quiver-connectivity-x":
			removes(process.Process, out)
			return
		default:
			making(process.Process)
			<-over
			return
		}
		_ = json.NewEncoder(out).Encode(answer)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	config, kubeconfig := clientcmdapi.NewConfig(), filepath.Join(t.TempDir(), "config")
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["c"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "c"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var failed bytes.Buffer
	process = exec.CommandContext(t.Context(), os.Args[0], append([]string{"--kubeconfig", kubeconfig}, words...)...)
	process.Env, process.Stderr = []string{itself + "=1", "HOME=" + t.TempDir()}, &failed
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	return failed.String(), process.ProcessState
}

// interrupt is a Ctrl-C.
func interrupt(process *os.Process) { _ = process.Signal(syscall.SIGINT) }

func TestAnInterruptedTestTellsOfWhatRemains(t *testing.T) {
	forbidden := func(_ *os.Process, out http.ResponseWriter) {
		out.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(out).Encode(meta.Status{TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure, Message: "may not", Reason: meta.StatusReasonForbidden, Code: http.StatusForbidden})
	}
	removed := func(_ *os.Process, out http.ResponseWriter) { _, _ = out.Write([]byte("{}")) }
	for _, one := range []struct {
		words   string
		removes func(*os.Process, http.ResponseWriter)
		want    string
	}{
		{"connectivity-test", removed, "not all was asked"},
		{"connectivity-test", forbidden, "not all was asked; namespace quiver-connectivity-x of the test is still there: kubectl delete namespace quiver-connectivity-x: may not"},
		{"connectivity-test --keep", removed, "not all was asked; namespace quiver-connectivity-x is kept: kubectl delete namespace quiver-connectivity-x"},
	} {
		failures, ended := interruptible(t, interrupt, one.removes, strings.Fields(one.words)...)
		if failures != "kubectl-quiver: interrupted: "+one.want+"\n" || ended.ExitCode() != interrupted {
			t.Errorf("%s: %s: %s", one.words, ended, failures)
		}
	}
}

func TestWhoIsInterruptedTwiceEndsAtOnce(t *testing.T) {
	// (What isn't ended by the second waits until the API server has removed the namespace, and it doesn't until it has ended.)
	hangs := make(chan struct{})
	failures, ended := interruptible(t, interrupt, func(process *os.Process, _ http.ResponseWriter) {
		// (More than once: what the first one does may not have come to its end.)
		for {
			interrupt(process)
			select {
			case <-hangs:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}, "connectivity-test")
	close(hangs)
	if status := ended.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT || failures != "" {
		t.Errorf("%s: %s", ended, failures)
	}
}
