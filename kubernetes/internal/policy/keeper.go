package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/keeping"
)

// Settings of a keeper.
type Settings struct {
	// Node tells the addresses that this node itself is seen with; false: not known yet.
	Node func() ([]netip.Addr, bool)
	// Kept is the file that says who is guarded, for an agent that can't ask the API server; empty: none.
	Kept string
	// Teller lets owners of policies know.
	Teller interface {
		TellPolicy(policy *core.ObjectReference, reason, message string)
	}
}

// Keeper keeps quiverd at what policies are.
type Keeper struct {
	*keeping.Loop
	settings Settings
	objects  *Objects
	quiverd  *dataplane.Client
	log      *slog.Logger

	// One change at a time: whoever has put something in.
	turn   chan struct{}
	wanted *wanted
	have   *dataplane.FoundACLs
	told   map[types.NamespacedName]string
	// Lists that quiverd refused, and why, until it takes them, or they go: it is asked again only when they change, or everything is compared.
	refused map[string]string
	// What is in the file of who is guarded; nil: not known.
	written []byte
	// Since quiverd came back, whoever was guarded is again, or lets nobody pass.
	secured bool
	// What of shutting was told last: it is tried again and again.
	complained string

	state   sync.Mutex
	figures figures
	// Why it isn't sure that those who were guarded are; nil: it is, or nothing can be done about it.
	unsafe error
	// Why it isn't on disk who is guarded; nil: it is.
	unkept error
	// Pods of this node of which the agent has told since it was last looked.
	heard []presence
}

// presence is what is known of a pod on this node: its addresses; none: it isn't here any more.
type presence struct {
	key       types.NamespacedName
	uid       string
	addresses []netip.Addr
}

// New makes a keeper that has done nothing yet.
func New(settings Settings, objects *Objects, quiverd *dataplane.Client, log *slog.Logger) *Keeper {
	return &Keeper{
		Loop: keeping.New("NetworkPolicies", log), settings: settings, objects: objects, quiverd: quiverd, log: log, wanted: newWanted(),
		turn: make(chan struct{}, 1), unsafe: errNotRestored,
		told: map[types.NamespacedName]string{}, refused: map[string]string{},
	}
}

// take waits for its turn, but not longer than the context lasts: while quiverd doesn't answer somebody, that may be long.
func (k *Keeper) take(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.New("an earlier change isn't in force yet")
	}
}

func (k *Keeper) give() { <-k.turn }

// Here tells the addresses of a pod of this node that is there already; none: it isn't any more. The UID may be unknown. It doesn't wait.
func (k *Keeper) Here(key types.NamespacedName, uid string, addresses []netip.Addr) {
	k.state.Lock()
	k.heard = append(k.heard, presence{key, uid, addresses})
	k.state.Unlock()
	k.objects.wake()
}

// Known is what the API server hasn't told yet of all that it takes to guard a pod; nil: it has.
func (k *Keeper) Known() error {
	if !k.objects.Known() {
		return fmt.Errorf("NetworkPolicies: %w", keeping.ErrUnknown)
	}
	if _, known := k.settings.Node(); !known {
		return fmt.Errorf("addresses of this node, which policies let pass: %w", keeping.ErrUnknown)
	}
	return nil
}

// Cover has a new pod's addresses guarded, before anything can reach them.
func (k *Keeper) Cover(ctx context.Context, key types.NamespacedName, uid string, addresses []netip.Addr) error {
	if !k.objects.Known() {
		return keeping.ErrUnknown
	}
	pod := k.objects.pod(key)
	if pod == nil || uid != "" && pod.UID != uid {
		// The runtime may be ahead of the watch, which brings it soon.
		var err error
		if pod, err = k.objects.ask(ctx, key); err != nil {
			return err
		}
		if uid != "" && pod.UID != uid {
			return fmt.Errorf("the API server has pod %s with another UID", key)
		}
	}
	// The same of its namespace, whose labels policies may speak of.
	namespace := k.objects.namespace(key.Namespace)
	if namespace == nil && k.objects.core != nil {
		var err error
		if namespace, err = k.objects.askNamespace(ctx, key.Namespace); err != nil {
			return err
		}
	}
	if err := k.take(ctx); err != nil {
		return err
	}
	defer k.give()
	k.learn()
	// Both were read before the turn: what has been heard meanwhile is newer, and nothing would bring it back.
	if now := k.objects.pod(key); now != nil && (uid == "" || now.UID == uid) {
		pod = now
	}
	if namespace != nil && k.wanted.groups.namespaces[key.Namespace] == nil {
		k.wanted.setNamespace(key.Namespace, namespace)
	}
	k.wanted.setHere(key, uid, addresses)
	k.wanted.setLabels(pod)
	return k.bring(ctx, false)
}

// errNotRestored is what Safe says before Restore has been called.
var errNotRestored = errors.New("quiverd hasn't been told yet who is guarded")

// ErrShut is the outcome of Restore when it isn't known, or can't be, what policies say: nobody is open who was guarded.
var ErrShut = errors.New("pods that were guarded still are, or let nobody pass")

// Restore has quiverd, which has come back and may have lost everything, know all of it again. As long as that isn't known here either, those who
// were guarded let nobody pass: ErrShut. A DamagedError is that nobody knows who they are. Whatever else it is, Run tries it again.
func (k *Keeper) Restore(ctx context.Context) error {
	if err := k.take(ctx); err != nil {
		return err
	}
	defer k.give()
	// What it had may be what another one had, which has gone.
	k.have, k.secured = nil, false
	k.setUnsafe(errNotRestored)
	err := k.secure(ctx, true)
	if err != nil && k.secured {
		return errors.Join(err, ErrShut)
	}
	return err
}

// Safe tells whether those who were guarded are, or let nobody pass, in the quiverd that was there with the last Restore; nil: pods may be reached.
func (k *Keeper) Safe() error {
	k.state.Lock()
	defer k.state.Unlock()
	return k.unsafe
}

func (k *Keeper) setUnsafe(why error) {
	k.state.Lock()
	defer k.state.Unlock()
	k.unsafe = why
}

// Ready is nil when all was as it shall be when it was last looked at, on disk, too.
func (k *Keeper) Ready() error {
	k.state.Lock()
	unkept := k.unkept
	k.state.Unlock()
	return errors.Join(k.Loop.Ready(), unkept)
}

// Run does it until the context ends. It leaves things as they are then: who is guarded stays so.
func (k *Keeper) Run(ctx context.Context) {
	go k.objects.Run(ctx)
	k.Turn(ctx, k.objects.changed, func(ctx context.Context, all bool) error {
		if err := k.take(ctx); err != nil {
			return err
		}
		defer k.give()
		return k.secure(ctx, all)
	})
}

// secure does what there is to do. If it can't, those who were guarded are shut, until that has been done once since quiverd came back: a
// failure by the way must not leave them open.
func (k *Keeper) secure(ctx context.Context, all bool) error {
	err := k.bring(ctx, all)
	if err == nil {
		k.secured = true
		k.setUnsafe(nil)
		return nil
	}
	if k.secured {
		return err
	}
	shut := k.shut(ctx)
	if k.secured = shut == nil; k.secured {
		k.complained = ""
	}
	var damaged *DamagedError
	if errors.As(shut, &damaged) {
		// Nobody knows whom to shut. Without a network for all others nothing would be better.
		k.setUnsafe(nil)
	} else {
		k.setUnsafe(shut)
	}
	if shut != nil && ctx.Err() == nil && k.complained != shut.Error() {
		k.log.Error("not all pods that were guarded are shut; trying again", "why", shut)
		k.complained = shut.Error()
	}
	return errors.Join(err, shut)
}

// learn hears what has changed.
func (k *Keeper) learn() {
	k.state.Lock()
	heard := k.heard
	k.heard = nil
	k.state.Unlock()
	for _, one := range heard {
		k.wanted.setHere(one.key, one.uid, one.addresses)
	}
	dirty := k.objects.take()
	for name := range dirty.namespaces {
		k.wanted.setNamespace(name, k.objects.namespace(name))
	}
	for name := range dirty.nodes {
		k.wanted.setPod(types.NamespacedName{Namespace: nodesNamespace, Name: name}, k.objects.nodeNamed(name))
	}
	for key := range dirty.pods {
		k.wanted.setPod(key, k.objects.pod(key))
	}
	for key := range dirty.policies {
		if isClusterwide(key) {
			k.wanted.setClusterwide(key, k.objects.administrators(key))
		} else {
			k.wanted.setPolicy(key, k.objects.policy(key))
		}
	}
}

// bring does what has changed, or, with all, whatever is to do.
func (k *Keeper) bring(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, bringTime)
	defer cancel()
	node, known := k.settings.Node()
	if !known || !k.objects.Known() {
		return keeping.ErrUnknown
	}
	k.learn()
	k.wanted.setNode(node)
	k.wanted.settle()
	k.state.Lock()
	k.figures = figures{len(k.wanted.acls), len(k.wanted.groups.inUse), len(k.wanted.endpoints)}
	k.state.Unlock()
	if all || k.have == nil {
		have, err := k.quiverd.ACLs(ctx, Ours)
		if err != nil {
			return err
		}
		k.have = have
		k.wanted.everything(have)
		maps.DeleteFunc(k.refused, func(list string, _ string) bool { return !k.wanted.changedACLs[list] })
	}
	asked := slices.Collect(maps.Keys(k.wanted.changedACLs))
	refused, err := k.program(ctx)
	for _, list := range asked {
		// (Of what wasn't done nothing new is known.)
		if !k.wanted.changedACLs[list] {
			delete(k.refused, list)
		}
	}
	maps.Copy(k.refused, refused)
	if err != nil {
		// Part of it may have been done.
		k.have = nil
	} else {
		k.keep()
	}
	k.tell()
	for name, why := range refused {
		if name == nodeList || name == Rest || strings.HasPrefix(name, Ours+"self:") {
			err = errors.Join(err, fmt.Errorf("quiverd refuses %s: %s", name, why))
		}
	}
	return err
}

// tell lets owners of policies know what is wrong with them, once.
func (k *Keeper) tell() {
	if len(k.refused)+len(k.wanted.problems)+len(k.told) == 0 {
		return
	}
	texts := map[types.NamespacedName]string{}
	for key, problems := range k.wanted.problems {
		texts[key] = strings.Join(problems, "; ")
	}
	cutOff := func(key types.NamespacedName, list string) {
		if why := k.refused[list]; why != "" {
			texts[key] = strings.Trim(texts[key]+"; "+why+": its pods are cut off", "; ")
		}
	}
	for namespace, policies := range k.wanted.policies {
		for name := range policies {
			key := types.NamespacedName{Namespace: namespace, Name: name}
			for _, of := range []direction{ingress, egress} {
				cutOff(key, listName(key, of))
			}
		}
	}
	for key := range k.wanted.tiers.policies {
		for _, list := range k.wanted.chainsOf(key) {
			cutOff(key, list)
		}
	}
	for key, text := range texts {
		if k.told[key] == text {
			continue
		}
		k.log.Warn("a policy can't be as it says", "policy", key, "why", text)
		if policy := k.reference(key); policy != nil && k.settings.Teller != nil {
			k.settings.Teller.TellPolicy(policy, "QuiverPolicy", text)
		}
	}
	k.told = texts
}

// reference says to whom an event of a policy belongs; nil: the policy is gone.
func (k *Keeper) reference(key types.NamespacedName) *core.ObjectReference {
	if !isClusterwide(key) {
		if policy := k.objects.policy(key); policy != nil {
			return &core.ObjectReference{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy", Namespace: key.Namespace, Name: key.Name, UID: policy.UID}
		}
	} else if policy := k.objects.administrators(key); policy != nil {
		return &core.ObjectReference{APIVersion: resources[policy.kind].GroupVersion().String(), Kind: policy.kind, Name: policy.name, UID: policy.uid}
	}
	return nil
}
