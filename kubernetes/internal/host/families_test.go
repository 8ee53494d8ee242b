package host

import (
	"flag"
	"io"
	"net/netip"
	"testing"
)

func TestFamiliesAreReadFromTheCommandLine(t *testing.T) {
	four, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for word, want := range map[string]string{
		"": "both", "-f": "both", "-f=true": "both", "-f=both": "both", "-f=1": "both", "-f=false": "none", "-f=none": "none", "-f=ipv4": "ipv4", "-f=ipv6": "ipv6",
	} {
		families := Families{V4: true, V6: true}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.Var(&families, "f", "")
		words := []string{word}
		if word == "" {
			words = nil
		}
		if err := flags.Parse(words); err != nil || families.String() != want {
			t.Errorf("%s: %s, %v", word, families.String(), err)
		}
		if families.Any() != (want != "none") || families.Has(four) != (want == "both" || want == "ipv4") || families.Has(six) != (want == "both" || want == "ipv6") {
			t.Errorf("%s: %+v", word, families)
		}
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var(&Families{}, "f", "")
	for _, word := range []string{"-f=ip4", "-f=", "-f=ipv4,ipv6"} {
		if err := flags.Parse([]string{word}); err == nil {
			t.Errorf("%s was taken", word)
		}
	}
}
