package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/durable"
)

// The list by which nobody passes, for pods of which it isn't known any more who may.
const closedList = Ours + "closed"

// So long after it couldn't be written who is guarded it is tried again.
const keepAgain = time.Second

// kept is on disk: who was guarded when it was last known. What policies say isn't, since that may be much; an agent that can't ask the API
// server, with a quiverd that has lost everything, lets nobody pass to and from those pods, rather than all.
type kept struct {
	// Node is how this node itself is seen.
	Node []netip.Addr `json:"node"`
	Pods []guarded    `json:"pods"`
}

// guarded is a pod of this node that policies are for.
type guarded struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	UID       string       `json:"uid,omitempty"`
	Addresses []netip.Addr `json:"addresses"`
	// Ingress and Egress say in which directions.
	Ingress bool `json:"ingress,omitempty"`
	Egress  bool `json:"egress,omitempty"`
	// ToNode says that it always reaches its node, which an administrator may keep it from.
	ToNode bool `json:"toNode,omitempty"`
}

// names are those of a pod's endpoint, and of the list by which it reaches itself.
func names(key types.NamespacedName, uid string) (endpoint, itself string) {
	readable, whose := key.Namespace+"."+key.Name, key.String()+" "+uid
	return name("pod:", readable, whose), name("self:", readable, whose)
}

// toItself is the list by which a pod always reaches itself.
func toItself(name string, addresses []netip.Addr) *quiver.Acl {
	list := &quiver.Acl{Name: name}
	for _, address := range addresses {
		itself := []string{address.String()}
		// By a Service, say.
		list.Rules = append(list.Rules, &quiver.AclRule{Remark: "a pod always reaches itself", Action: quiver.AclAction_ACL_ACTION_REFLECT, Sources: itself, Destinations: itself})
	}
	return list
}

// DamagedError is that the file of who was guarded can't be read: nobody can be shut.
type DamagedError struct {
	File string
	Why  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("who was guarded isn't known, %s is damaged (%v): pods are open until the API server tells what policies say, which writes it anew: see that this node reaches it", e.File, e.Why)
}

func (e *DamagedError) Unwrap() error { return e.Why }

// UnkeptError is that the file of who is guarded can't be written.
type UnkeptError struct {
	File string
	Why  error
}

func (e *UnkeptError) Error() string {
	return fmt.Sprintf("it can't be kept in %s who is guarded (%v): see whether the disk is full", e.File, e.Why)
}

func (e *UnkeptError) Unwrap() error { return e.Why }

// guarded are all pods that policies are for, in a fixed order.
func (w *wanted) guarded() (all []guarded) {
	for _, pods := range w.here {
		for pod := range pods {
			of, _ := names(pod.key, pod.uid)
			made := w.endpoints[of]
			if made == nil {
				continue
			}
			all = append(all, guarded{
				Namespace: pod.key.Namespace, Name: pod.key.Name, UID: pod.uid, Addresses: pod.addresses,
				Ingress: made.IngressAcls != nil, Egress: made.EgressAcls != nil,
				// Behind the list of itself.
				ToNode: len(made.EgressAcls) > 1 && made.EgressAcls[1] == nodeList,
			})
		}
	}
	slices.SortFunc(all, func(a, b guarded) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+a.UID, b.Namespace+"/"+b.Name+"/"+b.UID)
	})
	return all
}

// keep writes down who is guarded now, if that has changed, or couldn't be written the last time.
func (k *Keeper) keep() {
	if k.settings.Kept == "" {
		return
	}
	text, err := json.MarshalIndent(kept{k.wanted.node, k.wanted.guarded()}, "", "  ")
	if err == nil && bytes.Equal(text, k.written) {
		// (Nobody needs what couldn't be written meanwhile.)
		k.setUnkept(nil)
		return
	}
	if err == nil {
		err = durable.WriteFile(k.settings.Kept, text)
	}
	if err != nil {
		k.setUnkept(&UnkeptError{k.settings.Kept, err})
		// Policies needn't change for that: it may be long until they do.
		time.AfterFunc(keepAgain, k.objects.wake)
		return
	}
	k.written = text
	k.setUnkept(nil)
}

func (k *Keeper) setUnkept(why error) {
	k.state.Lock()
	defer k.state.Unlock()
	if why != nil && k.unkept == nil {
		k.log.Error("trying again", "why", why)
	} else if why == nil && k.unkept != nil {
		k.log.Info("it is kept again who is guarded", "file", k.settings.Kept)
	}
	k.unkept = why
}

// read is what was kept; nothing if there is no such file.
func (k *Keeper) read() (was kept, err error) {
	text, err := durable.ReadOwn(k.settings.Kept)
	if errors.Is(err, fs.ErrNotExist) || k.settings.Kept == "" {
		return was, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil {
		return was, &DamagedError{k.settings.Kept, err}
	}
	return was, nil
}

// shut has those who were guarded, and of whom quiverd knows nothing any more, reached by nobody but their node and themselves, and reach
// nobody else, until it is known what policies say. Whom quiverd still guards stays as he is.
func (k *Keeper) shut(ctx context.Context) error {
	was, err := k.read()
	if err != nil || len(was.Pods) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	have, err := k.quiverd.ACLs(ctx, Ours)
	if err != nil {
		return fmt.Errorf("pods that were guarded are not shut yet: %w", err)
	}
	common, pods := was.closed(have)
	if len(pods) == 0 {
		return nil
	}
	k.have = nil
	all := proto.CloneOf(common)
	for _, pod := range pods {
		proto.Merge(all, pod.config)
	}
	done := len(pods)
	err = k.quiverd.Apply(ctx, all, nil)
	var refused *dataplane.RefusedError
	if errors.As(err, &refused) {
		// One pod that can't be must not leave the others open.
		done, err = k.shutEach(ctx, common, pods)
	} else if err != nil {
		err = fmt.Errorf("pods that were guarded are not shut yet: %w", err)
	}
	if done > 0 && err == nil {
		k.log.Warn("pods that were guarded let nobody pass until the API server tells what policies say", "pods", done)
	}
	return err
}

// shutEach does so pod by pod, and counts them.
func (k *Keeper) shutEach(ctx context.Context, common *quiver.Config, pods []closing) (done int, failed error) {
	if err := k.quiverd.Apply(ctx, common, nil); err != nil {
		return 0, fmt.Errorf("pods that were guarded are not shut yet: %w", err)
	}
	for _, pod := range pods {
		err := k.quiverd.Apply(ctx, pod.config, nil)
		var refused *dataplane.RefusedError
		switch {
		case err == nil:
			done++
		case errors.As(err, &refused) && !k.isHere(pod):
			// Its address may be another one's by now.
			k.log.Warn("a pod that was guarded, and isn't here any more, can't be shut", "pod", pod.key, "why", err)
		default:
			failed = errors.Join(failed, fmt.Errorf("pod %s was guarded and is not shut yet: %w", pod.key, err))
		}
	}
	return done, failed
}

// isHere tells whether the agent has told of a pod, looked at or not. One that is made anew by the same name is another one.
func (k *Keeper) isHere(pod closing) (here bool) {
	is := func(key types.NamespacedName, uid string) bool {
		return key == pod.key && (uid == "" || pod.uid == "" || uid == pod.uid)
	}
	for known := range k.wanted.here[pod.key.Namespace] {
		here = here || is(known.key, known.uid)
	}
	k.state.Lock()
	defer k.state.Unlock()
	for _, one := range k.heard {
		if is(one.key, one.uid) {
			here = len(one.addresses) > 0
		}
	}
	return here
}

// closing is what it takes to shut a pod, but for what all of them share.
type closing struct {
	key    types.NamespacedName
	uid    string
	config *quiver.Config
}

// closed is what shuts those of whom a quiverd knows nothing, and what all of them share.
func (was kept) closed(have *dataplane.FoundACLs) (common *quiver.Config, pods []closing) {
	common = &quiver.Config{Acls: []*quiver.Acl{{Name: closedList, DefaultAction: quiver.AclDefault_ACL_DEFAULT_DENY}}}
	toNode := []string{nodeList}
	if have.ACLs[nodeList] == nil {
		node := newWanted()
		node.setNode(was.Node)
		if list := node.acls[nodeList]; list != nil {
			common.Acls = append(common.Acls, list)
		} else {
			// How the node is seen wasn't kept.
			toNode = nil
		}
	}
	// An address that quiverd guards for another pod is that one's by now.
	guarded := map[string]bool{}
	for _, endpoint := range have.Endpoints {
		for _, address := range endpoint.Addresses {
			guarded[address] = true
		}
	}
	for _, pod := range was.Pods {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		of, itself := names(key, pod.UID)
		if have.Endpoints[of] != nil {
			continue
		}
		made := &quiver.Endpoint{Name: of}
		for _, address := range pod.Addresses {
			if !guarded[address.String()] {
				made.Addresses = append(made.Addresses, address.String())
			}
		}
		if len(made.Addresses) == 0 {
			continue
		}
		if pod.Ingress {
			made.IngressAcls = slices.Concat([]string{itself}, toNode, []string{closedList})
		}
		if pod.Egress && pod.ToNode {
			made.EgressAcls = slices.Concat([]string{itself}, toNode, []string{closedList})
		} else if pod.Egress {
			made.EgressAcls = []string{itself, closedList}
		}
		pods = append(pods, closing{key, pod.UID, &quiver.Config{Acls: []*quiver.Acl{toItself(itself, pod.Addresses)}, Endpoints: []*quiver.Endpoint{made}}})
	}
	return common, pods
}
