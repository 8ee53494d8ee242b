// Package nstest gives tests network namespaces of their own.
package nstest

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
)

// Alone goes on in a network namespace of the test's own, set up by commands of ip(8), until the test ends. Without root the test is skipped.
func Alone(t *testing.T, commands ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	own, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Set(home); err != nil {
			t.Error(err)
		}
		own.Close()
		home.Close()
		runtime.UnlockOSThread()
	})
	for _, words := range commands {
		IP(t, strings.Fields(words)...)
	}
}

// IP runs ip(8) there, and returns what it prints.
func IP(t *testing.T, words ...string) string {
	t.Helper()
	out, err := exec.Command("ip", words...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// AwaitLocal waits until the kernel takes packets to an address for its own. With IPv6 that comes some time after ip(8) has added it, though it isn't tested
// for being somebody else's: what is sent to it before goes out by its prefix.
func AwaitLocal(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.HasPrefix(IP(t, "route", "get", address), "local "); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is not the host's own:\n%s", address, IP(t, "address", "show"))
		}
	}
}
