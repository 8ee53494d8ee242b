package dataplane

import (
	"slices"
	"strings"
	"testing"
)

// Of its own accord nobody is bounded. By one address kubelet probes and its node's programs ask, and by one all clients come in that another node leads on: these are only if that is said, too.
func TestSourcesHaveAllSessionsUnlessSomethingElseIsSaid(t *testing.T) {
	interfaces := []string{"pod:to-n2", "pod:shop.web-0:c0ffee00:memif0", "pod:host", "pod:uplink", "pod:shop.web-0:c0ffee00:eth0"}
	beside := []string{"pod:host", "pod:to-n2", "pod:uplink"}
	for _, c := range []struct {
		sessions         Sessions
		max, of, address uint32
		exempt           []string
	}{
		{Sessions{}, 1_000_000, 0, 0, nil},
		{Sessions{Max: MostSessions}, MostSessions, 0, 0, nil},
		{Sessions{MaxOfSource: 7}, 1_000_000, 7, 128, beside},
		{Sessions{Max: 2000, MaxOfSource: MostSessionsOfSource}, 2000, MostSessionsOfSource, 128, beside},
		{Sessions{MaxOfSource: 7, AllSources: true}, 1_000_000, 7, 128, nil},
		{Sessions{AllSources: true}, 1_000_000, 0, 0, nil},
	} {
		got := Tenant(slices.Clone(interfaces), true, false, false, c.sessions).Tenants[0]
		if got.MaxSessions != c.max || got.MaxSessionsPerSource != c.of || got.SourceIpv6PrefixLength != c.address || !slices.Equal(got.SourceExemptInterfaces, c.exempt) {
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
