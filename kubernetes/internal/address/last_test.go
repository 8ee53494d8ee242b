package address

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatWasGivenLastIsKnownInTheNextLife(t *testing.T) {
	last := Last(filepath.Join(t.TempDir(), "last.json"))
	if given, err := last.Read(); err != nil || len(given) != 0 {
		t.Fatalf("%v, %v, before anything was given", given, err)
	}
	var pools []*Pool
	for _, text := range []string{"10.1.0.0/24", "fd00:1::/64", "10.2.0.0/24"} {
		pool, err := NewPool(netip.MustParsePrefix(text), netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		pools = append(pools, pool)
	}
	nobody := func(netip.Addr) bool { return false }
	want := map[netip.Prefix]netip.Addr{}
	for range 2 {
		for _, pool := range pools[:2] {
			address, err := pool.Take(nobody)
			if err != nil {
				t.Fatal(err)
			}
			want[pool.Prefix()] = address
		}
		if err := last.Write(pools); err != nil {
			t.Fatal(err)
		}
		if given, err := last.Read(); err != nil || !maps.Equal(given, want) {
			t.Errorf("%v, %v; not %v", given, err, want)
		}
	}
	// A loss of power has left nothing of it.
	if err := os.WriteFile(string(last), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if given, err := last.Read(); err == nil || !strings.Contains(err.Error(), string(last)) || len(given) != 0 {
		t.Errorf("%v, %v", given, err)
	}
	if err := Last("").Write(pools); err != nil {
		t.Error(err)
	}
	if given, err := Last("").Read(); err != nil || given != nil {
		t.Errorf("%v, %v", given, err)
	}
}
