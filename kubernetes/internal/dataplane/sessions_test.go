package dataplane

import (
	"slices"
	"strings"
	"testing"
)

// Of its own accord nobody is bounded: by one address kubelet probes and its node's programs ask, and by one all clients come in that another node leads on.
func TestSourcesHaveAllSessionsUnlessSomethingElseIsSaid(t *testing.T) {
	for _, c := range []struct {
		sessions         Sessions
		max, of, address uint32
	}{
		{Sessions{}, 1_000_000, 0, 0},
		{Sessions{Max: MostSessions}, MostSessions, 0, 0},
		{Sessions{MaxOfSource: 7}, 1_000_000, 7, 128},
		{Sessions{Max: 2000, MaxOfSource: MostSessionsOfSource}, 2000, MostSessionsOfSource, 128},
	} {
		got := Tenant([]string{"pod:host"}, true, false, false, c.sessions).Tenants[0]
		if got.MaxSessions != c.max || got.MaxSessionsPerSource != c.of || got.SourceIpv6PrefixLength != c.address {
			t.Errorf("%+v: %v", c.sessions, got)
		}
	}
}

func TestSessionsPassServicesThatAreAskedFor(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "tcp-check": {"tcp-check"}, " session-stats, tcp-check,": {"session-stats", "tcp-check"},
	} {
		sessions := Sessions{Services: []string{"those before"}}
		if err := sessions.SetServices(strings.Split(text, ",")); err != nil || !slices.Equal(sessions.Services, want) {
			t.Errorf("%q: %q, %v", text, sessions.Services, err)
		}
		tenant := Tenant(nil, true, true, false, sessions).Tenants[0]
		all := append([]string{"l4-lifecycle", "balance", "acl"}, want...)
		if !slices.Equal(tenant.ForwardServices, all) || !slices.Equal(tenant.ReverseServices, all) {
			t.Errorf("%q: %v", text, tenant)
		}
	}
	for text, why := range map[string]string{
		"tcp-check,ids": `service "ids": take some of tcp-check, session-stats`, "nat": `service "nat": take`, "redirect": `"redirect"`, "tcp-check,tcp-check": `service "tcp-check": is there twice`,
	} {
		sessions := Sessions{}
		if err := sessions.SetServices(strings.Split(text, ",")); err == nil || !strings.Contains(err.Error(), why) || sessions.Services != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
