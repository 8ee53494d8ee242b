package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestOrdersOfConnectivityTestsAreRead(t *testing.T) {
	got, asJSON, err := testOrder(strings.Fields("--nodes n1,n2 --outside [2001:db8::1]:443 --timeout 3s --keep -o json"))
	if err != nil || !asJSON || !slices.Equal(got.Nodes, []string{"n1", "n2"}) || got.Outside != "[2001:db8::1]:443" || got.Timeout != 3*time.Second || !got.Keep {
		t.Errorf("%+v, %t, %v", got, asJSON, err)
	}
	if got, asJSON, err = testOrder(nil); err != nil || asJSON || got.Nodes != nil || got.Outside != "" || got.Timeout != 10*time.Second || got.Keep {
		t.Errorf("%+v, %t, %v", got, asJSON, err)
	}
	for words, names := range map[string]string{
		"--nodes n1,n1": "n1,n1", "--nodes a,b,c": "a,b,c", "--outside example.org": "ADDRESS:PORT", "--timeout 0s": "--timeout", "--output toml": "toml",
	} {
		if _, _, err := testOrder(strings.Fields(words)); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%s: %v", words, err)
		}
	}
}
