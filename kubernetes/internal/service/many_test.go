package service

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
)

// A thousand ports at a hundred addresses: as many as one Service may have are there, its owner is told of the rest, and the host leads nothing to
// addresses at which nobody is asked.
func TestNobodyIsAskedAtMorePlacesThanAServiceMayHave(t *testing.T) {
	service := serviceOf(t, "spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1]}")
	for i := range 1000 {
		service.Spec.Ports = append(service.Spec.Ports, core.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i)})
	}
	for i := range 100 {
		service.Spec.ExternalIPs = append(service.Spec.ExternalIPs, netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}).String())
	}
	set := Of(service, nil, &here)
	if len(set.VIPs) != mostVIPs || len(set.Addresses) != 101 {
		t.Errorf("%d VIPs at %d addresses", len(set.VIPs), len(set.Addresses))
	}
	want := []string{"it would be asked at 101000 places: nobody is asked at 96904 of them (take 4096 at most, ports times addresses)"}
	if !slices.Equal(set.Problems, want) {
		t.Errorf("told %q", set.Problems)
	}

	service.Spec.Ports, service.Spec.ExternalIPs = service.Spec.Ports[:1], nil
	for i := range mostVIPs {
		service.Spec.ExternalIPs = append(service.Spec.ExternalIPs, netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}).String())
	}
	if set = Of(service, nil, &here); len(set.VIPs) != mostVIPs || len(set.Addresses) != mostVIPs {
		t.Errorf("%d VIPs at %d addresses", len(set.VIPs), len(set.Addresses))
	}
}
