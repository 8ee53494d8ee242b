package inspect

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
)

// What a pod's owner, a peer or an operator may have named something.
const misleading = "pod\x1b[2J\nnode-9\tyes\u202e"

// plain fails for text that could mislead whoever reads it in a terminal.
func plain(t *testing.T, text string, lines int) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\t\u202e") || strings.Count(text, "\n") != lines || !strings.Contains(text, `pod\x1b[2J\nnode-9\tyes\u{202e}`) {
		t.Errorf("%q has not %d plain lines", text, lines)
	}
}

func TestTablesStayInTheirCells(t *testing.T) {
	var to bytes.Buffer
	if err := Print(&to, []Status{{Name: misleading, Troubles: []string{misleading}}}); err != nil {
		t.Fatal(err)
	}
	plain(t, to.String(), 3)

	to.Reset()
	address := netip.MustParseAddr("10.0.0.1")
	verdicts := []Verdict{{From: address, To: address, Node: "a", Because: misleading}}
	if _, err := PrintVerdicts(&to, verdicts, false); err != nil {
		t.Fatal(err)
	}
	plain(t, to.String(), 2)

	to.Reset()
	traced := &Traced{Ways: []Way{{Packet: misleading, Hops: []Hop{{Node: misleading, Interface: misleading}}}}}
	if err := PrintTraced(&to, traced, false); err != nil {
		t.Fatal(err)
	}
	plain(t, to.String(), 4)

	to.Reset()
	if _, err := PrintVerdicts(&to, verdicts, true); err != nil {
		t.Fatal(err)
	}
	var back struct{ Verdicts []struct{ Because string } }
	if err := json.Unmarshal(to.Bytes(), &back); err != nil || back.Verdicts[0].Because != misleading || strings.ContainsAny(to.String(), "\x1b\u202e") {
		t.Errorf("%q %v", to.String(), err)
	}
}
