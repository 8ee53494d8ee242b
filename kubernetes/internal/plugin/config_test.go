package plugin

import (
	"fmt"
	"strings"
	"testing"
)

// As the conventions have it (CNI, "CONVENTIONS.md": portMappings), and as containerd writes them.
func TestHostPortsAreThoseThatTheRuntimeTells(t *testing.T) {
	config, err := readConfig([]byte(`{"cniVersion": "1.0.0", "name": "quiver", "type": "quiver-cni", "runtimeConfig": {"portMappings": [
		{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""},
		{"hostPort": 5353, "containerPort": 53, "protocol": "UDP", "hostIP": "192.168.7.1"},
		{"hostPort": 0, "containerPort": 81, "protocol": "tcp"},
		{"hostPort": 3868, "containerPort": 3868}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, port := range config.hostPorts() {
		got = append(got, fmt.Sprintf("%s %s:%d→%d", port.Protocol, port.Address, port.Port, port.PodPort))
	}
	if text := strings.Join(got, ", "); text != "tcp :8080→80, udp 192.168.7.1:5353→53, tcp :3868→3868" {
		t.Error(text)
	}
}
