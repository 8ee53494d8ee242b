package host

import (
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"quiver/kubernetes/internal/nstest"
)

func TestWhatANodeNeedsIsFoundOut(t *testing.T) {
	inNode(t)
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("# nameserver 192.0.2.1\nsearch example.org\nnameserver 192.168.7.53\n  nameserver fd00:7::53 # ours\nnameserver nonsense\nnameserver\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	needed := &Needed{Server: "198.51.100.6", Resolvers: file, Log: slog.New(slog.DiscardHandler)}
	if _, _, known := needed.Addresses(); known {
		t.Error("known before anything was looked at")
	}
	expect := func(want, wantResolvers string) {
		t.Helper()
		needed.look(t.Context())
		needed.settled(0)
		all, resolvers, known := needed.Addresses()
		var words []string
		for _, address := range slices.SortedFunc(maps.Keys(all), netip.Addr.Compare) {
			words = append(words, fmt.Sprint(address, ": ", all[address]))
		}
		if got := fmt.Sprint(words); !known || got != want {
			t.Errorf("%s, %v", got, known)
		}
		if got := fmt.Sprint(slices.SortedFunc(maps.Keys(resolvers), netip.Addr.Compare)); got != wantResolvers {
			t.Errorf("resolvers: %s", got)
		}
	}
	const server, resolvers = "198.51.100.6: an address of the API server", "[192.168.7.53 fd00:7::53]"
	expect("["+server+"]", resolvers)
	nstest.IP(t, "route", "add", "default", "nexthop", "via", "192.168.7.9", "nexthop", "via", "192.168.7.10")
	nstest.IP(t, "route", "add", "default", "via", "fd00:7::9")
	nstest.IP(t, "route", "add", "203.0.113.0/24", "via", "192.168.7.11")
	const routers = "192.168.7.9: a router of this node 192.168.7.10: a router of this node "
	expect("["+routers+server+" fd00:7::9: a router of this node]", resolvers)
	// Routers and resolvers are those of now, and the API server has been somewhere else before.
	nstest.IP(t, "route", "del", "default")
	nstest.IP(t, "-6", "route", "del", "default")
	needed.Server = "198.51.100.7"
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect("["+server+" 198.51.100.7: an address of the API server]", "[]")
	// Nobody to ask for a name: what was known stays.
	needed.Server = "nobody.invalid"
	expect("["+server+" 198.51.100.7: an address of the API server]", "[]")
}

// Until the API server's name is known nobody may take its addresses, but for a name that nobody knows Services don't wait for ever.
func TestWhatANodeNeedsIsntKnownBeforeAllOfItWasReadOnce(t *testing.T) {
	inNode(t)
	for _, late := range []bool{false, true} {
		needed := &Needed{Server: "nobody.invalid", Resolvers: filepath.Join(t.TempDir(), "resolv.conf"), Log: slog.New(slog.DiscardHandler)}
		known := func() bool {
			_, _, known := needed.Addresses()
			return known
		}
		needed.look(t.Context())
		if needed.settled(needsPatience-1) || known() {
			t.Error("known without the API server")
		}
		if late {
			if !needed.settled(needsPatience) || !known() {
				t.Error("it waits for ever")
			}
			continue
		}
		needed.Server = "198.51.100.6"
		needed.look(t.Context())
		if !needed.settled(0) || !known() {
			t.Error("not known, though all was read")
		}
	}
}
