package service

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestHostPortsAreAskedAtWhatHostIPNames(t *testing.T) {
	node := Here{Name: "n1"}
	for _, text := range []string{"192.168.7.1", "192.168.8.1", "203.0.113.7", "fd00:7::1"} {
		node.Addresses = append(node.Addresses, netip.MustParseAddr(text))
	}
	// The node object tells of one that the kernel hasn't, and that has others.
	for _, text := range []string{"10.244.1.1", "169.254.7.7", "192.168.7.1", "192.168.8.1", "fd00:7::1"} {
		node.Kernel = append(node.Kernel, netip.MustParseAddr(text))
	}
	addresses := []netip.Addr{netip.MustParseAddr("10.244.1.7"), netip.MustParseAddr("fd00:1::7")}
	for _, c := range []struct {
		hostIP  string
		host    []string
		fromPod []string
		told    string
	}{
		{"", []string{"0.0.0.0:8080 UDP 10.244.1.7:53", "[::]:8080 UDP [fd00:1::7]:53"}, []string{
			"192.168.7.1:8080 UDP: 10.244.1.7:53", "192.168.8.1:8080 UDP: 10.244.1.7:53",
			"203.0.113.7:8080 UDP: 10.244.1.7:53", "[fd00:7::1]:8080 UDP: [fd00:1::7]:53",
		}, ""},
		{"0.0.0.0", []string{"0.0.0.0:8080 UDP 10.244.1.7:53"}, []string{
			"192.168.7.1:8080 UDP: 10.244.1.7:53", "192.168.8.1:8080 UDP: 10.244.1.7:53", "203.0.113.7:8080 UDP: 10.244.1.7:53",
		}, ""},
		{"::", []string{"[::]:8080 UDP [fd00:1::7]:53"}, []string{"[fd00:7::1]:8080 UDP: [fd00:1::7]:53"}, ""},
		{"192.168.8.1", []string{"192.168.8.1:8080 UDP 10.244.1.7:53"}, []string{"192.168.8.1:8080 UDP: 10.244.1.7:53"}, ""},
		// Only the host itself asks there, and an address that the node hasn't got yet may come.
		{"127.0.0.1", []string{"127.0.0.1:8080 UDP 10.244.1.7:53"}, nil, ""},
		{"10.244.1.1", []string{"10.244.1.1:8080 UDP 10.244.1.7:53"}, nil, ""},
		{"169.254.7.7", []string{"169.254.7.7:8080 UDP 10.244.1.7:53"}, nil, ""},
		{"169.254.7.8", []string{"169.254.7.8:8080 UDP 10.244.1.7:53"}, nil, "host port 8080: hostIP 169.254.7.8 is no address of this node's kernel: nobody is led to the pod there as long as it isn't"},
		{"203.0.113.7", []string{"203.0.113.7:8080 UDP 10.244.1.7:53"}, []string{"203.0.113.7:8080 UDP: 10.244.1.7:53"},
			"host port 8080: hostIP 203.0.113.7 is no address of this node's kernel: only pods of this node are led to the pod there as long as it isn't"},
		{"192.168.9.1", []string{"192.168.9.1:8080 UDP 10.244.1.7:53"}, nil, "host port 8080: hostIP 192.168.9.1 is no address of this node's kernel: nobody is led to the pod there as long as it isn't"},
	} {
		port := PodPort{Protocol: core.ProtocolUDP, Port: 8080, Target: 53}
		if c.hostIP != "" {
			port.Node = netip.MustParseAddr(c.hostIP)
		}
		set := OfPod(&Pod{Attachment: "1", Name: types.NamespacedName{Namespace: "default", Name: "dns"}, Addresses: addresses, Ports: []PodPort{port}}, &node)
		var host []string
		for _, one := range set.HostPorts {
			host = append(host, fmt.Sprint(one.Place, " ", one.To))
		}
		if got := worded(set); !slices.Equal(host, c.host) || !slices.Equal(got, c.fromPod) || strings.Join(set.Problems, "; ") != c.told || len(set.Addresses)+len(set.NodePorts) > 0 {
			t.Errorf("%q: the host leads %q; %q; %q", c.hostIP, host, got, set.Problems)
		}
	}
}
