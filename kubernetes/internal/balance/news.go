package balance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/pods"
)

// news is what is amiss with Services and pods, and what of that their owners were told. It is told of in one place, from all that is known: of two
// that each told what they know, each would take what the other one said last for something else than it has to say, and say it again.
type news struct {
	// What they themselves, or others of them, are the reason of, and for what quiverd refuses them.
	problems, refused map[types.NamespacedName][]string
	told              map[types.NamespacedName]string
	// Whose problems may be others than those that were told.
	fresh map[types.NamespacedName]bool
}

func newNews() news {
	return news{
		problems: map[types.NamespacedName][]string{}, refused: map[types.NamespacedName][]string{}, told: map[types.NamespacedName]string{},
		fresh: map[types.NamespacedName]bool{},
	}
}

// put notes problems; none: all is well.
func (n *news) put(key types.NamespacedName, problems []string) {
	n.fresh[key] = true
	if n.problems[key] = problems; len(problems) == 0 {
		delete(n.problems, key)
	}
}

// forget is of somebody who is gone.
func (n *news) forget(key types.NamespacedName) {
	delete(n.problems, key)
	delete(n.refused, key)
	delete(n.told, key)
	delete(n.fresh, key)
}

// next is what there is to say that wasn't said already, by whose it is.
func (n *news) next(refused map[types.NamespacedName][]string) (texts map[types.NamespacedName]string) {
	for _, some := range []map[types.NamespacedName][]string{n.refused, refused} {
		for key := range some {
			n.fresh[key] = true
		}
	}
	n.refused, texts = refused, map[types.NamespacedName]string{}
	for key := range n.fresh {
		slices.Sort(refused[key])
		text := strings.Join(slices.Concat(refused[key], n.problems[key]), "; ")
		if text != "" && text != n.told[key] {
			texts[key] = text
		}
		if n.told[key] = text; text == "" {
			delete(n.told, key)
		}
	}
	clear(n.fresh)
	return texts
}

// aside is a VIP that quiverd has refused, and why.
type aside struct {
	vip *quiver.Vip
	why string
}

// refused is for what quiverd refuses whom. What has changed since, or isn't wanted any more, isn't refused.
func (k *Keeper) refused() map[types.NamespacedName][]string {
	all := map[types.NamespacedName][]string{}
	for name, one := range k.aside {
		place, wanted := k.wanted.places[name]
		if !wanted || !proto.Equal(k.wanted.vips[name], one.vip) {
			delete(k.aside, name)
			continue
		}
		whose := k.wanted.first(place).of
		all[whose] = append(all[whose], fmt.Sprintf("%s: %s", place, one.why))
	}
	return all
}

// tell lets owners know what is amiss where that is something else than they were told.
func (k *Keeper) tell() {
	texts := k.news.next(k.refused())
	for _, key := range slices.SortedFunc(maps.Keys(texts), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		text := texts[key]
		if pod, is := k.pods[key]; is {
			k.log.Warn("not all ports of the node lead to a pod that asks for them", "pod", pod.Name, "why", text)
			if k.settings.Teller != nil {
				k.settings.Teller.Tell(pods.ID{Namespace: pod.Name.Namespace, Name: pod.Name.Name, UID: pod.UID}, false, "QuiverHostPort", text)
			}
			continue
		}
		owner, _ := k.objects.Get(key)
		if owner == nil {
			continue
		}
		k.log.Warn("a Service can't be served as it says", "service", key, "why", text)
		if k.settings.Teller != nil {
			k.settings.Teller.TellService(key, owner.UID, "QuiverService", text)
		}
	}
}
