package memif

import "testing"

func TestWhatAPeerSendsIsHarmlessToPrint(t *testing.T) {
	for _, hidden := range "\u202e\u2066\u2069\u2028\u2029\u200b\u200f\ufeff\u061c\u0085\U000e0041\x1b\n" {
		field := make([]byte, 32)
		copy(field, "a"+string(hidden)+"b")
		if text := readText(field); text != "a\ufffdb" {
			t.Errorf("%U: %q", hidden, text)
		}
	}
	for _, plain := range []string{"eth0", "Ω→日本", "DPDK 22.11.11"} {
		field := make([]byte, 32)
		copy(field, plain)
		if text := readText(field); text != plain {
			t.Errorf("%q became %q", plain, text)
		}
	}
}
