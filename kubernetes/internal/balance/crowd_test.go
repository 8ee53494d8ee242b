package balance

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// Whoever joins, changes or leaves, the first is who would be found among all.
func TestTheFirstOfACrowdIsWhoComesBeforeAllOthers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := crowds[int]{}
	for round := range 20_000 {
		key := types.NamespacedName{Namespace: fmt.Sprint("n", random.IntN(3)), Name: fmt.Sprint("s", random.IntN(4))}
		if random.IntN(3) == 0 {
			all.leave(7, key)
		} else {
			one := &claim{of: key, created: random.Int64N(3), assigned: random.IntN(4) == 0}
			if random.IntN(2) == 0 {
				one.vip = &quiver.Vip{}
			}
			if all.join(7, one); all.of(7, key) != one {
				t.Fatalf("round %d: it isn't there", round)
			}
		}
		if all[7] == nil {
			continue
		}
		if len(all[7].all) == 0 {
			t.Fatalf("round %d: an empty one is there", round)
		}
		for _, one := range all[7].all {
			if one != all.first(7) && one.compare(all.first(7)) <= 0 {
				t.Fatalf("round %d: %+v comes before %+v", round, one, all.first(7))
			}
		}
	}
}

// Two thousand Services with the same hundred endpoints outside of the cluster: each change of one costs what it has itself.
func BenchmarkAChangeWhereManyListen(b *testing.B) {
	w := newWanted()
	sets := make([]party, 2000)
	for i := range sets {
		sets[i] = party{name: fmt.Sprint("s", i), created: int64(i), asked: []string{fmt.Sprintf("=10.96.%d.%d:80", i/250, i%250+1)}}
		for j := range 100 {
			sets[i].listens = append(sets[i].listens, fmt.Sprintf("203.0.113.%d:443", j))
		}
		w.put(sets[i].key(), sets[i].created, sets[i].set(), &here)
	}
	b.ResetTimer()
	for i := range b.N {
		one := &sets[i%len(sets)]
		w.put(one.key(), one.created, one.set(), &here)
	}
}
