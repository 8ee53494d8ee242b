package probe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quiver/kubernetes/internal/nstest"
)

func TestWhoAsksIsToldWhoAnswersAndAsWhomItIsSeen(t *testing.T) {
	// A port that is free now.
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error)
	go func() { ended <- Serve(ctx, port, "echo") }()
	for _, address := range []string{"127.0.0.1", "::1"} {
		for _, how := range []string{"tcp", "udp"} {
			got, err := Ask(ctx, how, netip.AddrPortFrom(netip.MustParseAddr(address), port).String())
			if err != nil || got != "echo "+address {
				t.Errorf("%s %s: %q, %v", how, address, got, err)
			}
		}
	}
	if got, err := Ask(ctx, "connect", netip.AddrPortFrom(netip.IPv6Loopback(), port).String()); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestNobodyAnswersAndThatIsSaid(t *testing.T) {
	// Nobody listens there.
	nstest.Alone(t, "link set lo up")
	for _, how := range []string{"tcp", "connect"} {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := Ask(ctx, how, "203.0.113.1:9")
		cancel()
		if err == nil || !strings.Contains(err.Error(), "203.0.113.1:9") {
			t.Errorf("%s: %v", how, err)
		}
	}
	if _, err := Ask(t.Context(), "icmp", "127.0.0.1:9"); err == nil || !strings.Contains(err.Error(), "tcp, udp or connect") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Resolve(ctx, "nobody.invalid"); err == nil || !strings.Contains(err.Error(), "nobody.invalid") {
		t.Error(err)
	}
}

func TestWhatIsSaidByHTTPIsWrittenWhateverItsStatus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		http.Error(answer, "not forwarding: "+request.URL.Path, http.StatusServiceUnavailable)
	}))
	place := strings.TrimPrefix(server.URL, "http://")
	var out strings.Builder
	if err := Get(t.Context(), place+"/readyz", &out); err != nil || out.String() != "not forwarding: /readyz\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	server.Close()
	// Connected to, but nobody takes it.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Get(ctx, mute.Addr().String()+"/readyz", &out); err == nil || err.Error() != mute.Addr().String()+"/readyz doesn't answer in time" {
		t.Error(err)
	}
	if err := Get(t.Context(), place+"/readyz", &out); err == nil || !strings.Contains(err.Error(), place) {
		t.Error(err)
	}
}
