package health

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// asked answers for addresses as they are named: those with a 1 at the end at once, those with a 2 after half a second, others never.
func asked(ctx context.Context, address netip.Addr) error {
	var after <-chan time.Time
	switch text := address.String(); text[len(text)-1] {
	case '1':
		return ctx.Err()
	case '2':
		after = time.After(500 * time.Millisecond)
	}
	select {
	case <-after:
		return nil
	case <-ctx.Done():
		return errors.New(address.String() + " is silent")
	}
}

func familiesOf(text string) (all []family) {
	for words := range strings.SplitSeq(text, "|") {
		one := family{ask: asked}
		for word := range strings.FieldsSeq(words) {
			one.addresses = append(one.addresses, netip.MustParseAddr(word))
		}
		one.name = familyName(one.addresses[0].Is4())
		all = append(all, one)
	}
	return all
}

// In a second (by a clock of the test's own), however many are silent.
func TestFamiliesAreAskedSideBySideAndAddressesShareTheTime(t *testing.T) {
	for addresses, want := range map[string]string{
		"10.0.0.1 | fd00::1":                   "",
		"10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.1":  "",
		"10.0.0.3 10.0.0.2 | fd00::3 fd00::1":  "",
		"10.0.0.3 | fd00::2":                   "IPv4: 10.0.0.3 is silent",
		"10.0.0.2 | fd00::3 fd00::4":           "IPv6: fd00::3 is silent\nfd00::4 is silent",
		"10.0.0.3 10.0.0.4 | fd00::3":          "IPv4: 10.0.0.3 is silent\n10.0.0.4 is silent\nIPv6: fd00::3 is silent",
		"10.0.0.3 10.0.0.4 10.0.0.2 | fd00::1": "IPv4: 10.0.0.3 is silent\n10.0.0.4 is silent\n10.0.0.2 is silent",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Millisecond)
			defer cancel()
			said := ""
			if err := allOf(ctx, familiesOf(addresses)); err != nil {
				said = err.Error()
			}
			if said != want {
				t.Errorf("%s: %q, want %q", addresses, said, want)
			}
		})
	}
}
