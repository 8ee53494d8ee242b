package main

import (
	"strings"
	"testing"

	"quiver/kubernetes/internal/host"
	"quiver/kubernetes/internal/overlay"
)

func TestAPortOnTheUplinkIsRefusedWhereItCannotBe(t *testing.T) {
	tunnels := overlay.Settings{Mode: overlay.CrossSubnet}
	for want, o := range map[string]options{
		"":                        {carrier: host.ByPort, uplink: "eth1", device: "quiver0"},
		"--uplink-interface eth1": {carrier: host.ByKernel, uplink: "eth1", device: "quiver0"},
		"--uplink af_packet with --overlay cross-": {carrier: host.ByPort, overlay: tunnels, device: "quiver0"},
		"--host-device": {carrier: host.ByPort},
	} {
		err := checkUplink(o)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	var carrier host.Carrier
	if err := carrier.Set("af_xdp"); err == nil || !strings.Contains(err.Error(), "take kernel or af_packet") {
		t.Error(err)
	}
	if err := carrier.Set("af_packet"); err != nil || carrier != host.ByPort {
		t.Error(err)
	}
}
