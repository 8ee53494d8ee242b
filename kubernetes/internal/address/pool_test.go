package address

import (
	"errors"
	"net/netip"
	"testing"
)

func TestEachAddressOnceRoundBeforeAnyAgain(t *testing.T) {
	// RFC 1878: a /29 has eight addresses; without network, gateway and broadcast there are five for pods.
	pool, err := NewPool(netip.MustParsePrefix("10.1.0.8/29"), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	used := map[netip.Addr]bool{}
	inUse := func(address netip.Addr) bool { return used[address] }
	for _, want := range []string{"10.1.0.10", "10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"} {
		got, err := pool.Take(inUse)
		if err != nil || got.String() != want {
			t.Fatalf("got %v, %v; want %s", got, err, want)
		}
		used[got] = true
		if want == "10.1.0.11" {
			// Given back, it rests until the others had their turn.
			delete(used, got)
		}
	}
	if got, err := pool.Take(inUse); err != nil || got.String() != "10.1.0.11" {
		t.Fatalf("got %v, %v", got, err)
	}
	used[netip.MustParseAddr("10.1.0.11")] = true
	var exhausted *ErrExhausted
	if got, err := pool.Take(inUse); !errors.As(err, &exhausted) {
		t.Fatalf("got %v, %v from a range that is full", got, err)
	}
	delete(used, netip.MustParseAddr("10.1.0.14"))
	if got, err := pool.Take(inUse); err != nil || got.String() != "10.1.0.14" {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestRangesOfBothFamilies(t *testing.T) {
	for _, c := range []struct{ prefix, last, gateway, first string }{
		{"10.244.1.0/24", "", "10.244.1.1", "10.244.1.2"},
		{"10.244.1.0/24", "10.244.1.254", "10.244.1.1", "10.244.1.2"},
		{"10.244.1.0/24", "10.244.1.77", "10.244.1.1", "10.244.1.78"},
		{"10.244.1.0/24", "10.244.2.77", "10.244.1.1", "10.244.1.2"},
		{"10.0.0.0/30", "", "10.0.0.1", "10.0.0.2"},
		{"fd00:10:244:1::/64", "", "fd00:10:244:1::1", "fd00:10:244:1::2"},
		// IPv6 has no broadcast address.
		{"fd00::/126", "fd00::2", "fd00::1", "fd00::3"},
	} {
		last, _ := netip.ParseAddr(c.last)
		pool, err := NewPool(netip.MustParsePrefix(c.prefix), last)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pool.Take(func(netip.Addr) bool { return false })
		if err != nil || got.String() != c.first || pool.Gateway().String() != c.gateway {
			t.Errorf("%s behind %q: got %v, %v, gateway %v; want %s, %s", c.prefix, c.last, got, err, pool.Gateway(), c.first, c.gateway)
		}
	}
}

func TestRangesThatCannotBe(t *testing.T) {
	for _, prefix := range []string{"10.0.0.0/31", "10.0.0.0/32", "fd00::/127", "10.0.0.1/24"} {
		if _, err := NewPool(netip.MustParsePrefix(prefix), netip.Addr{}); err == nil {
			t.Errorf("%s was taken", prefix)
		}
	}
}

func TestAReservedAddressIsTheHighestFreeOneAndNoPodsEver(t *testing.T) {
	for _, c := range []struct{ prefix, used, want string }{
		{"10.1.0.8/29", "", "10.1.0.14"},
		{"10.1.0.8/29", "10.1.0.14", "10.1.0.13"},
		{"10.1.0.8/29", "10.1.0.13", "10.1.0.14"},
		{"10.1.0.8/30", "", "invalid IP"},
		{"10.1.0.0/20", "", "10.1.15.254"},
		{"fd00:1::/64", "", "fd00:1::ffff:ffff:ffff:ffff"},
		{"fd00:1::/125", "fd00:1::7", "fd00:1::6"},
	} {
		pool, err := NewPool(netip.MustParsePrefix(c.prefix), netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		used := map[netip.Addr]bool{}
		if c.used != "" {
			used[netip.MustParseAddr(c.used)] = true
		}
		inUse := func(address netip.Addr) bool { return used[address] }
		reserved := pool.Reserve(inUse)
		if reserved.String() != c.want || pool.Reserved() != reserved {
			t.Errorf("%s, %q in use: %s, not %s", c.prefix, c.used, reserved, c.want)
		}
		for range 20 {
			address, err := pool.Take(inUse)
			if err != nil {
				break
			}
			if address == reserved || used[address] {
				t.Errorf("%s is a pod's", address)
			}
			used[address] = true
		}
		// All others are pods'.
		if pool.prefix.Bits() == 29 && len(used) != 4 || pool.prefix.Bits() == 125 && len(used) != 5 {
			t.Errorf("%s: pods have %v", c.prefix, used)
		}
	}
}
