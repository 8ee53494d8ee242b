package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// After Quiver was taken away and came again, pods run on that were made before, and nothing leads to them.
func TestPodsWithoutAnInterfaceAreTold(t *testing.T) {
	running := func(name string, addresses ...string) core.Pod {
		pod := podAt(name, "n1", addresses...)
		pod.UID, pod.Status.Phase = types.UID(name), core.PodRunning
		return pod
	}
	made, ending, host, done := running("made"), running("ending", "10.244.7.9"), running("host", "192.168.7.1"), running("done", "10.244.7.9")
	ending.DeletionTimestamp, host.Spec.HostNetwork, done.Status.Phase = &meta.Time{Time: meta.Now().Time}, true, core.PodSucceeded
	// (Two that have what routesOfPod leads to, one by memif and tun; one with a prefix of more than itself.)
	pods := []core.Pod{made, ending, host, done, running("client", "10.244.7.2"), running("other", "10.244.7.3", "fd00::3"), running("bare", "10.244.7.4"), running("alone", "10.244.7.0")}
	// Another one's network, as of Multus, is none of ours.
	pods = append(pods, running("elsewhere", "198.51.100.7"))
	ranges := []netip.Prefix{netip.MustParsePrefix("10.244.7.0/24"), netip.MustParsePrefix("fd00::/64")}
	cluster := apiOf(t, nil, nil, pods)
	found, err := cluster.networked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bare := unattached(found["n1"], ranges, func(words ...string) ([]byte, error) { return []byte(routesOfPod), nil })
	if len(bare) != 2 {
		t.Errorf("%+v", bare)
	}
	all := []Status{{Name: "n1", Forwards: true}, {Name: "n2", Forwards: true}}
	// One has gone meanwhile.
	gone := running("gone", "10.244.7.5")
	err = cluster.tellUnattached(t.Context(), all, [][]core.Pod{append(bare, gone), nil})
	want := "[2 pods have no interface of Quiver's: shop/alone, shop/bare; delete them, so that they are made anew]"
	if got := fmt.Sprint(all[0].Troubles); err != nil || got != want || all[1].Troubles != nil {
		t.Errorf("%v, %s, %v", err, got, all[1].Troubles)
	}
	if got, want := withoutNetwork([]string{"shop/bare"}), "1 pod has no interface of Quiver's: shop/bare; delete it, so that it is made anew"; got != want {
		t.Error(got)
	}
	if got, want := withoutNetwork([]string{"a/9", "a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7", "a/8"}), "9 pods have no interface of Quiver's: a/1, a/2, a/3, a/4, a/5, a/6, a/7, a/8, …; delete them, so that they are made anew"; got != want {
		t.Error(got)
	}
	// Of who can't be asked nothing is said.
	if bare := unattached(found["n1"], ranges, func(...string) ([]byte, error) { return nil, errors.New("no answer") }); bare != nil {
		t.Errorf("%+v", bare)
	}
	if found, err := apiOf(t, nil, nil, nil).networked(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", err, found)
	}
}
