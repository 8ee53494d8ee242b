// Package realtest gives tests a quiverd of their own, and objects as an API server has them.
package realtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"quiver/kubernetes/internal/dataplane"
)

// Socket is where the quiverd of a directory answers.
func Socket(directory string) string { return filepath.Join(directory, "quiver.sock") }

// Start starts the quiverd that was built, with nothing to move, and gives a client of it and what ends it. Its socket and state are in the
// directory. Without root, or the program, the test is skipped.
func Start(t testing.TB, directory string) (*dataplane.Client, func()) {
	t.Helper()
	client, end, _ := StartProcess(t, directory)
	return client, end
}

// StartProcess does the same, and gives the process as well, for what else may happen to it.
func StartProcess(t testing.TB, directory string) (*dataplane.Client, func(), *os.Process) {
	t.Helper()
	program := built(t, "quiverd")
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	settings, socket := filepath.Join(directory, "quiverd.toml"), Socket(directory)
	text := fmt.Sprintf("[api]\nsocket = %q\n[state]\ndirectory = %q\n[metrics]\nlisten = \"off\"\n", socket, filepath.Join(directory, "state"))
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.Command(program, "--config", settings)
	log := &strings.Builder{}
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = process.Process.Signal(os.Interrupt)
		_ = process.Wait()
	})
	t.Cleanup(end)
	client, err := dataplane.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := client.Wait(ctx); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return client, end, process.Process
}

// built is the path of a program of ours; without it, the test is skipped.
func built(t testing.TB, name string) string {
	t.Helper()
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = "../../../target"
	}
	program := filepath.Join(target, "release", name)
	if _, err := os.Stat(program); err != nil {
		t.Skipf("needs %s in target/release", name)
	}
	return program
}

// Source is a list of objects as an API server has it, which tells of changes by a watch of their own.
func Source(list runtime.Object) (cache.ListerWatcher, *watch.FakeWatcher) {
	changes := watch.NewFakeWithChanSize(1000, false)
	return plain{&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, meta.ListOptions) (runtime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, meta.ListOptions) (watch.Interface, error) { return changes, nil },
	}}, changes
}

// plain is a server without lists by watch.
type plain struct{ *cache.ListWatch }

func (plain) IsWatchListSemanticsUnSupported() bool { return true }

// Eventually waits for something to be so.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
