package health

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

func TestSilentConnectionsKeepNobodyFromProbes(t *testing.T) {
	listener, err := Listen("tcp", "127.0.0.1:0", Limits{Connections: 8, OfOne: 4})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler(&said{}, nil), ReadHeaderTimeout: HeadTime}
	defer server.Close()
	go func() { _ = server.Serve(listener) }()
	address := listener.Addr().String()
	// From one address and from many.
	for i := range 64 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%30))}}
		silent, err := dialer.DialContext(context.Background(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	answer, err := http.Get("http://" + address + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); string(text) != "alive\n" || err != nil {
		t.Errorf("%q %v", text, err)
	}
}

func TestTheClientWithTheMostMakesRoom(t *testing.T) {
	f := &fair{limits: Limits{Connections: 4, OfOne: 3}}
	named := map[*connection]string{}
	add := func(address string, spoke bool) string {
		client := netip.MustParseAddr(address)
		made := &connection{from: f, client: client.String(), group: group(client).String(), spoke: spoke}
		named[made] = fmt.Sprint(len(named), " ", address)
		victim := f.add(made)
		if victim == nil {
			return ""
		}
		return named[victim]
	}
	for _, one := range []struct {
		address string
		spoke   bool
		victim  string
	}{
		{"10.0.0.1", true, ""},
		{"10.0.0.1", false, ""},
		{"10.0.0.1", true, ""},
		{"10.0.0.1", true, "1 10.0.0.1"}, // its own silent one
		{"10.0.1.1", true, ""},
		{"10.0.2.1", true, "0 10.0.0.1"},
		{"10.0.0.9", true, "2 10.0.0.1"}, // of the same /24
		{"10.0.3.1", true, "3 10.0.0.1"}, // the group has two
		{"fd00::1", true, "4 10.0.1.1"},  // one each: the oldest
	} {
		if victim := add(one.address, one.spoke); victim != one.victim {
			t.Errorf("%s: %q closed, want %q", one.address, victim, one.victim)
		}
	}
	if len(f.all) != 4 {
		t.Errorf("%d connections", len(f.all))
	}
}

func TestTheProcessAtAUnixSocketIsTheClient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := Listen("unix", path, Limits{Connections: 8, OfOne: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for range 3 {
		made, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		if _, err := listener.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	all := listener.(*fair).all
	if want := fmt.Sprintf("process %d", os.Getpid()); len(all) != 2 || all[0].client != want || all[0].group != fmt.Sprintf("user %d", os.Getuid()) {
		t.Errorf("%d connections, of %q", len(all), all[0].client)
	}
}

func TestAddressesOfOneOwnerAreAGroup(t *testing.T) {
	for _, same := range [][2]string{{"127.0.0.1", "127.9.9.9"}, {"10.0.0.1", "10.0.0.200"}, {"fd00::1", "fd00::ffff:0:1"}} {
		if group(netip.MustParseAddr(same[0])) != group(netip.MustParseAddr(same[1])) {
			t.Errorf("%v", same)
		}
	}
	for _, other := range [][2]string{{"10.0.0.1", "10.0.1.1"}, {"fd00::1", "fd00:0:0:1::1"}} {
		if group(netip.MustParseAddr(other[0])) == group(netip.MustParseAddr(other[1])) {
			t.Errorf("%v", other)
		}
	}
}
