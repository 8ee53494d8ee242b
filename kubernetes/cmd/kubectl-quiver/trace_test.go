package main

import (
	"strings"
	"testing"
	"time"

	"quiver/kubernetes/internal/inspect"
)

func TestOrdersOfTracesAreRead(t *testing.T) {
	got, asJSON, err := order(strings.Fields("shop/a --to svc/web --proto tcp --port 80 --count 2 --timeout 3s --output json"))
	if want := (inspect.Order{From: "shop/a", To: "svc/web", Protocol: "tcp", Port: 80, Count: 2, Timeout: 3 * time.Second}); err != nil || !asJSON || got != want {
		t.Errorf("%+v, %t, %v", got, asJSON, err)
	}
	if got, asJSON, err = order([]string{"a"}); err != nil || asJSON || got.Count != 5 || got.Timeout != 15*time.Second {
		t.Errorf("%+v, %t, %v", got, asJSON, err)
	}
	for words, names := range map[string]string{
		"--proto gre": "gre", "--port 65616": "65616", "--count 0": "--count", "--count 101": "101", "--timeout 0s": "--timeout", "--output toml": "toml",
	} {
		if _, _, err := order(strings.Fields(words + " a")); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%s: %v", words, err)
		}
	}
}
