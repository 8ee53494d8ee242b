package inspect

import (
	"strings"
	"testing"
)

func TestSessionsAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]session{
		"tcp/80": {"tcp", 80, "tcp/80"}, "UDP/53": {"udp", 53, "UDP/53"}, "sctp/65535": {"sctp", 65535, "sctp/65535"}, "tcp": {"tcp", 0, "tcp"},
		"udplite/7": {"udplite", 7, "udplite/7"}, "DCCP/5001": {"dccp", 5001, "DCCP/5001"},
		"icmp": {"icmp", 0, "icmp"}, "icmp/8": {"icmp", 0, "icmp/8"}, "icmpv6/0": {"icmpv6", 0, "icmpv6/0"}, "esp": {"esp", 0, "esp"},
	} {
		if got, err := readSession(text, "10.96.0.1"); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	// A Service by its name may do without, and its ports have names.
	for _, text := range []string{"", "tcp/http", "tcp/80"} {
		if _, err := readSession(text, "svc/web"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, names := range map[string]string{
		"": "10.96.0.1 is asked at which port", "tcp/70000": `"tcp/70000": 70000 is no number from 1 to 65535`, "tcp/0": `"tcp/0"`, "tcp/": `"tcp/"`, "tcp/-1": `"tcp/-1"`,
		"tcp/http": `"tcp/http": http is no number, and only ports of a Service have names (svc/web:http)`, "80": `"80" has no protocol: say tcp/80 or udp/80`,
		"http": `"http"`, "icmp/256": `"icmp/256": 256 is no number from 0 to 255`, "esp/7": `"esp/7"`, "/80": `"/80"`,
	} {
		_, err := readSession(text, "10.96.0.1")
		if err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), "tcp/80") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readSession("tcp/70000", "svc/web"); err == nil {
		t.Error("a Service is asked at port 70000")
	}
}
