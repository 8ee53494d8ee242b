package settings

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quiver/kubernetes/internal/annotation"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/host"
)

// worded is all that settings say.
func worded(s Settings) string {
	return fmt.Sprint(s.Outgoing.String(), " ", s.KeepSessions, " ", s.Defaults.MemifDrops, " ", s.Defaults.Sources)
}

func TestSettingsAreReadAndFaultsNameTheirKey(t *testing.T) {
	otherwise := Settings{Outgoing: host.Families{V4: true, V6: true}, KeepSessions: true, Defaults: annotation.Defaults{MemifDrops: true}}
	for _, c := range []struct{ text, want, fault string }{
		{"", "both true true []", ""},
		{"{}", "both true true []", ""},
		{"natOutgoing: ipv4\nkeepSessions: false\nmemifFallback: eth0\nallowedSourcePrefixes: [172.16.0.0/16, \"fd01::7\"]\n", "ipv4 false false [172.16.0.0/16 fd01::7/128]", ""},
		{"natOutgoing: true", "both true true []", ""},
		{"natOutgoing: false\nallowedSourcePrefixes: []", "none true true []", ""},
		{"natOutgoing: v4", "", `natOutgoing: "v4": take ipv4, ipv6, both or none`},
		{"natOutgoing: [ipv4]", "", "natOutgoing: "},
		{"keepSessions: yes please", "", `keepSessions: "yes please": take true or false`},
		{"keepSessions: 1", "", "keepSessions: 1: take true or false"},
		{"keepSessions: null", "", "keepSessions: null: take true or false"},
		{"memifFallback: tun", "", `memifFallback: "tun" is not known: take eth0 or drop`},
		{"memifFallback: 1", "", "memifFallback: 1: take eth0 or drop"},
		{"allowedSourcePrefixes: 10.0.0.1", "", `allowedSourcePrefixes: "10.0.0.1": take a list`},
		{"allowedSourcePrefixes: [10.0.0.1, 10.0.0]", "", `allowedSourcePrefixes: "10.0.0" is neither an address nor a prefix`},
		{"maxSessions: 0", "", "maxSessions: 0: take 1 to 268435456"},
		{"maxSessions: many", "", `maxSessions: "many": take 1 to`},
		{"maxSessions: null", "", "maxSessions: null: take 1 to"},
		{"maxSessionsPerSource: -1", "", "maxSessionsPerSource: -1: take 0 to 16777215"},
		{"countedSources: nodes", "", `countedSources: "nodes": take pods or all`},
		{"countedSources: [all]", "", `countedSources: ["all"]: take pods or all`},
		{"sessionServices: tcp-check", "", `sessionServices: "tcp-check": take a list`},
		{"sessionServices: [tcp-check, nat]", "", `sessionServices: service "nat": take some of tcp-check, session-stats`},
		{"natOutgoin: none", "", "natOutgoin isn't known: take allowedSourcePrefixes, countedSources, keepSessions, maxSessions, maxSessionsPerSource, memifFallback, natOutgoing, sessionServices"},
		{"natOutgoing: none\nnatOutgoing: both", "", `no keys with values: yaml: unmarshal errors:`},
		{"- natOutgoing", "", "no keys with values: "},
		{"{", "", "no keys with values: "},
	} {
		read, err := Parse([]byte(c.text), otherwise)
		if c.fault == "" && (err != nil || worded(read) != c.want) {
			t.Errorf("%q: %s, %v", c.text, worded(read), err)
		}
		if c.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), c.fault)) {
			t.Errorf("%q: told %v", c.text, err)
		}
	}
}

func TestLimitsOfSessionsAreRead(t *testing.T) {
	otherwise := Settings{Sessions: dataplane.Sessions{Max: 4000, MaxOfSource: 9, Services: []string{"tcp-check"}}}
	for text, want := range map[string]string{
		"":                        "4000, of one pod 9, by [tcp-check]",
		"maxSessions: 268435456":  "268435456, of one pod 9, by [tcp-check]",
		"maxSessionsPerSource: 0": "4000, of one pod 0, by [tcp-check]",
		"maxSessionsPerSource: 16777215\nsessionServices: [session-stats, tcp-check]": "4000, of one pod 16777215, by [session-stats tcp-check]",
		"countedSources: all":  "4000, of one source 9, by [tcp-check]",
		"countedSources: pods": "4000, of one pod 9, by [tcp-check]",
		"sessionServices: []":  "4000, of one pod 9, by []",
	} {
		if read, err := Parse([]byte(text), otherwise); err != nil || read.Sessions.String() != want {
			t.Errorf("%q: %s, %v", text, read.Sessions, err)
		}
	}
	if otherwise.Sessions.MaxOfSource != 9 {
		t.Error("what is otherwise has changed")
	}
	if read, err := Parse([]byte("maxSessions: 2000"), Settings{}); err != nil || read.Sessions.String() != "2000, of one pod 0, by []" {
		t.Errorf("%s, %v", read.Sessions, err)
	}
}

func TestSettingsThatArentUnderstoodLeaveThoseThatThereWere(t *testing.T) {
	directory := t.TempDir()
	var log bytes.Buffer
	begun := func() *Follower {
		return &Follower{
			File: filepath.Join(directory, "agent.yaml"), Kept: filepath.Join(directory, "kept.yaml"), Otherwise: Settings{Outgoing: host.Families{V4: true}},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(directory, "agent.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Never understood: nobody knows what is wanted.
	if _, err := begun().Begin(); err == nil || !strings.Contains(err.Error(), "agent.yaml") {
		t.Errorf("without a file: %v", err)
	}
	write("natOutgoing: v4")
	if _, err := begun().Begin(); err == nil || !strings.Contains(err.Error(), "agent.yaml: natOutgoing: ") {
		t.Errorf("with one that says nothing: %v", err)
	}
	write("natOutgoing: none")
	follower := begun()
	if now, err := follower.Begin(); err != nil || worded(now) != "none false false []" {
		t.Errorf("%s, %v", worded(now), err)
	}
	for _, c := range []struct {
		what    string
		do      func()
		changed bool
		want    string
		told    []string
	}{
		{"the same", func() { write("natOutgoing: none") }, false, "none false false []", nil},
		{"another one", func() { write("natOutgoing: none\nkeepSessions: true") }, true, "none true false []", []string{"keepSessions=true"}},
		{"the same in other words", func() { write("{keepSessions: true, natOutgoing: false}") }, false, "none true false []", nil},
		{"a fault", func() { write("keepSessions: no doubt") }, false, "none true false []", []string{"settings stay as they were", "keepSessions: "}},
		{"another fault", func() { write("memifFallback: tun\nkeepSessions: false") }, false, "none true false []", []string{"memifFallback: "}},
		{"gone", func() { os.Remove(filepath.Join(directory, "agent.yaml")) }, false, "none true false []", []string{"no such file"}},
		{"still gone", func() {}, false, "none true false []", nil},
		{"there again", func() { write("memifFallback: drop") }, true, "ipv4 false true []", []string{"understood again", "natOutgoing=ipv4"}},
	} {
		log.Reset()
		c.do()
		if changed := follower.look(); changed != c.changed || worded(follower.now) != c.want {
			t.Errorf("%s: changed %t, %s", c.what, changed, worded(follower.now))
		}
		for _, words := range c.told {
			if !strings.Contains(log.String(), words) {
				t.Errorf("%s: told %s, not %q", c.what, log.String(), words)
			}
		}
		if c.told == nil && log.Len() > 0 {
			t.Errorf("%s: told %s", c.what, log.String())
		}
	}
	// An agent that is started while the file isn't understood goes on as the one before.
	write("memifFallback: tun")
	again := begun()
	if now, err := again.Begin(); err != nil || worded(now) != "ipv4 false true []" {
		t.Errorf("%s, %v", worded(now), err)
	}
	write("{}")
	if !again.look() || worded(again.now) != "ipv4 false false []" {
		t.Errorf("afterwards: %s", worded(again.now))
	}
	// Without a file all is as it is said otherwise.
	if now, err := (&Follower{Otherwise: Settings{KeepSessions: true}}).Begin(); err != nil || !now.KeepSessions {
		t.Errorf("%s, %v", worded(now), err)
	}
}
