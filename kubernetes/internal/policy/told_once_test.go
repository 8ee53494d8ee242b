package policy

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/realtest"
)

// What quiverd refuses it is asked again whenever everything is compared; whose it is hears of it once.
func TestAPolicyThatIsRefusedIsToldOnce(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, onA))
	settings := Settings{Node: func() ([]netip.Addr, bool) { return []netip.Addr{netip.MustParseAddr("192.168.0.1")}, true }, Teller: a}
	keeper := New(settings, a.objects(t), quiverd, slog.New(slog.DiscardHandler))
	key := types.NamespacedName{Namespace: "x", Name: "p"}
	keeper.Here(types.NamespacedName{Namespace: "x", Name: "a"}, "", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	go keeper.objects.Run(t.Context())
	realtest.Eventually(t, "all is known", keeper.objects.Known)
	expect := func(all bool, tellings int32) {
		t.Helper()
		if err := keeper.bring(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if got := a.tellings.Load(); got != tellings {
			t.Errorf("told %d times, not %d", got, tellings)
		}
	}
	// (Of what policies can say none is known by now that quiverd refuses.)
	list := listName(key, ingress)
	spoil := func() {
		keeper.wanted.setACL(list, &quiver.Acl{Name: list, Rules: []*quiver.AclRule{{Protocol: "nonsense", Action: quiver.AclAction_ACL_ACTION_REFLECT}}})
	}
	heard := func() bool {
		keeper.objects.mutex.Lock()
		defer keeper.objects.mutex.Unlock()
		return keeper.objects.dirty.policies[key]
	}
	expect(true, 0)
	spoil()
	for _, all := range []bool{false, false, true, false, false, true} {
		expect(all, 1)
	}
	if text, _ := a.told.Load("p"); !strings.Contains(fmt.Sprint(text), "its pods are cut off") {
		t.Errorf("told %v", text)
	}
	// What it says now is in force.
	changed := read(t, onA+"  ingress: [{ports: [{port: 80}]}]\n")
	changed.ResourceVersion = "2"
	a.changes["policies"].Modify(changed)
	realtest.Eventually(t, "it is heard of", heard)
	expect(false, 1)
	if len(keeper.refused) != 0 {
		t.Errorf("refused still: %v", keeper.refused)
	}
	spoil()
	expect(false, 2)
	expect(true, 2)
	// It goes.
	a.changes["policies"].Delete(changed)
	realtest.Eventually(t, "it is heard of", heard)
	expect(false, 2)
	if len(keeper.refused) != 0 || len(keeper.told) != 0 {
		t.Errorf("refused still: %v, %v", keeper.refused, keeper.told)
	}
}
