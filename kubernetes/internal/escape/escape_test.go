package escape

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The same as in crates/api/src/escape.rs.
var cases = [][2]string{
	{"\x1b[2J\x1b]0;title\x07", `\x1b[2J\x1b]0;title\x07`},
	{"a\nb\r\tc\x00", `a\nb\r\tc\x00`},
	{"\x7f\u0080\u009b31m\u009f", `\x7f\u{80}\u{9b}31m\u{9f}`},
	{"\u202a\u202e\u2066\u2069", `\u{202a}\u{202e}\u{2066}\u{2069}`},
	{"\u061c\u200e\u200f", `\u{61c}\u{200e}\u{200f}`},
	{"\u200b\u200d\u2060\ufeff\u00ad", `\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}`},
	{"\u2028\u2029\u0085", `\u{2028}\u{2029}\u{85}`},
	{"\U000e0041\ufff9\ufdd0\ue000", `\u{e0041}\u{fff9}\u{fdd0}\u{e000}`},
	{"a\u0300\ufe0f", `a\u{300}\u{fe0f}`},
	{`pod-a /run/höhe → 日本 "x" 'y' \z`, `pod-a /run/höhe → 日本 "x" 'y' \z`},
	{"\u00a0\u3000", `\u{a0}\u{3000}`},
	{"a\xff\xc3b\ufffd", "a\\xff\\xc3b\ufffd"},
	{"", ""},
}

func TestWhatMisleadsIsEscapedAndWhatIsEscapedStays(t *testing.T) {
	for _, one := range cases {
		for _, text := range one {
			if got := Text(text); got != one[1] {
				t.Errorf("%q: %s, want %s", text, got, one[1])
			}
		}
	}
	if got := Lines("a\nb\x1b\r\n"); got != "a\nb\\x1b\\r\n" {
		t.Errorf("%q", got)
	}
}

func TestArgumentsAreEscapedAndNumbersStay(t *testing.T) {
	var to bytes.Buffer
	type word string
	Fprintf(&to, "%s|%-4s|%d|%v|%v|%v|%x|%v\n", "a\tb", "\n", 7, word("\x1b"), time.Second, netip.MustParseAddr("10.0.0.1"), []byte{0xab}, nil)
	Fprintln(&to, errors.New("x\ny"), []string{"\u202e"})
	want := "a\\tb|\\n  |7|\\x1b|1s|10.0.0.1|ab|<nil>\nx\\ny [\\u{202e}]\n"
	if to.String() != want {
		t.Errorf("%q, want %q", to.String(), want)
	}
}

func TestJoinedErrorsAreLines(t *testing.T) {
	one, other := errors.New("one\nforged"), fmt.Errorf("other: %w", io.EOF)
	if got := Error(errors.Join(one, other)); got != "one\\nforged\nother: EOF" {
		t.Errorf("%q", got)
	}
	if got := Error(fmt.Errorf("both: %w", errors.Join(one, other))); got != `both: one\nforged\nother: EOF` {
		t.Errorf("%q", got)
	}
	if got := Error(fmt.Errorf("both: %w, %w", one, other)); got != `both: one\nforged, other: EOF` {
		t.Errorf("%q", got)
	}
}

func TestJSONStaysTheSameDocument(t *testing.T) {
	for _, one := range cases[:len(cases)-2] {
		var to bytes.Buffer
		if err := JSON(&to, []string{one[0]}); err != nil {
			t.Fatal(err)
		}
		var back []string
		if err := json.Unmarshal(to.Bytes(), &back); err != nil || back[0] != one[0] {
			t.Errorf("%q: %q %v", one[0], back, err)
		}
		if Lines(to.String()) != to.String() {
			t.Errorf("%q isn't plain", to.String())
		}
	}
}

// The agent's log: it quotes by itself.
func TestALogLineStaysOneWithItsFields(t *testing.T) {
	var to bytes.Buffer
	words := "gone user=admin\nlevel=INFO msg=\"all is well\" \x1b[2J\u202e"
	slog.New(slog.NewTextHandler(&to, nil)).Warn(words, "said", words, "error", errors.New(words))
	line := strings.TrimSuffix(to.String(), "\n")
	quoted := `"gone user=admin\nlevel=INFO msg=\"all is well\" \x1b[2J\u202e"`
	if Text(line) != line || !strings.HasSuffix(line, "msg="+quoted+" said="+quoted+" error="+quoted) {
		t.Errorf("%q", line)
	}
}
