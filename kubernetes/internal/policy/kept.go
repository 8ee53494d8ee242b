package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/durable"
)

// The list by which nobody passes, for pods of which it isn't known any more who may.
const closedList = Ours + "closed"

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
		prefix := []string{netip.PrefixFrom(address, address.BitLen()).String()}
		// By a Service, say.
		list.Rules = append(list.Rules, &quiver.AclRule{Remark: "a pod always reaches itself", Action: quiver.AclAction_ACL_ACTION_REFLECT, Sources: prefix, Destinations: prefix})
	}
	return list
}

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

// keep writes down who is guarded now, if that has changed.
func (k *Keeper) keep() {
	if k.settings.Kept == "" {
		return
	}
	text, err := json.MarshalIndent(kept{k.wanted.node, k.wanted.guarded()}, "", "  ")
	if err != nil || bytes.Equal(text, k.written) {
		return
	}
	if err := durable.WriteFile(k.settings.Kept, text); err != nil {
		k.log.Error("it can't be kept who is guarded: see whether the disk is full", "file", k.settings.Kept, "why", err)
		return
	}
	k.written = text
}

// read is what was kept; nothing if there is no such file.
func (k *Keeper) read() (was kept, err error) {
	text, err := os.ReadFile(k.settings.Kept)
	if errors.Is(err, fs.ErrNotExist) || k.settings.Kept == "" {
		return was, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &was)
	}
	if err != nil {
		return was, fmt.Errorf("who was guarded isn't known, %s is damaged (%w): remove it when all pods are guarded again", k.settings.Kept, err)
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
	have, err := k.quiverd.ACLs(ctx, Ours)
	if err != nil {
		return err
	}
	node := newWanted()
	node.setNode(was.Node)
	config := &quiver.Config{Acls: []*quiver.Acl{{Name: closedList, DefaultAction: quiver.AclDefault_ACL_DEFAULT_DENY}}}
	if have.ACLs[nodeList] == nil {
		config.Acls = append(config.Acls, node.acls[nodeList])
	}
	for _, pod := range was.Pods {
		of, itself := names(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod.UID)
		if have.Endpoints[of] != nil {
			continue
		}
		made := &quiver.Endpoint{Name: of}
		for _, address := range pod.Addresses {
			made.Addresses = append(made.Addresses, address.String())
		}
		if pod.Ingress {
			made.IngressAcls = []string{itself, nodeList, closedList}
		}
		if pod.Egress && pod.ToNode {
			made.EgressAcls = []string{itself, nodeList, closedList}
		} else if pod.Egress {
			made.EgressAcls = []string{itself, closedList}
		}
		config.Acls = append(config.Acls, toItself(itself, pod.Addresses))
		config.Endpoints = append(config.Endpoints, made)
	}
	if len(config.Endpoints) == 0 {
		return nil
	}
	k.have = nil
	if err := k.quiverd.Apply(ctx, config, nil); err != nil {
		return err
	}
	k.log.Warn("pods that were guarded let nobody pass until the API server tells what policies say", "pods", len(config.Endpoints))
	return nil
}
