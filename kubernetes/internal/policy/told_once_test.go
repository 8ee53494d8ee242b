package policy

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/realtest"
)

// What quiverd refuses it is asked again whenever everything is compared; whose it is hears of it once.
func TestAPolicyThatIsRefusedIsToldOnce(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	// The API server would refuse it, too: what it lets pass, quiverd knows.
	strange := onA + "  ingress:\n  - from: [{ipBlock: {cidr: 10.0.0.0/8, except: [fd00::/8]}}]\n"
	a := small()
	a.policies.Items = append(a.policies.Items, *read(t, strange))
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
	// (An object is known before it is told that it has changed.)
	heard := func() bool {
		keeper.objects.mutex.Lock()
		defer keeper.objects.mutex.Unlock()
		return keeper.objects.dirty.policies[key]
	}
	version := 1
	changes := func(text string) {
		t.Helper()
		version++
		policy := read(t, text)
		policy.ResourceVersion = strconv.Itoa(version)
		a.changes["policies"].Modify(policy)
		realtest.Eventually(t, "it is heard of", heard)
	}
	for _, all := range []bool{true, false, true, false, false, true} {
		expect(all, 1)
	}
	if text, _ := a.told.Load("p"); !strings.Contains(fmt.Sprint(text), "its pods are cut off") {
		t.Errorf("told %v", text)
	}
	// What it says now is in force; then it is refused again.
	changes(onA)
	expect(false, 1)
	if len(keeper.refused) != 0 {
		t.Errorf("refused still: %v", keeper.refused)
	}
	changes(strange)
	expect(false, 2)
	expect(true, 2)
	// It goes.
	a.changes["policies"].Delete(read(t, strange))
	realtest.Eventually(t, "it is heard of", heard)
	expect(false, 2)
	if len(keeper.refused) != 0 || len(keeper.told) != 0 {
		t.Errorf("refused still: %v, %v", keeper.refused, keeper.told)
	}
}
