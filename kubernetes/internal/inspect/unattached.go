package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// As many pods are named in a sentence.
const mostNamed = 8

// networked are the pods of each node that run, stay, and have addresses of their own. Who may not list those of all namespaces is told of none.
func (c *Cluster) networked(ctx context.Context) (map[string][]core.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := c.client.Pods(core.NamespaceAll).List(ctx, meta.ListOptions{})
	if api.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := map[string][]core.Pod{}
	for _, pod := range found.Items {
		// (One that is just being made has no address yet.)
		if pod.Status.Phase == core.PodRunning && pod.DeletionTimestamp == nil && !pod.Spec.HostNetwork && len(pod.Status.PodIPs) > 0 {
			all[pod.Spec.NodeName] = append(all[pod.Spec.NodeName], pod)
		}
	}
	return all, nil
}

// unattached are those of a node's pods with addresses in its ranges to none of which its quiverd has a route: what others give pods is
// none of ours. One that can't be asked tells of none.
func unattached(pods []core.Pod, ranges []netip.Prefix, quiver func(words ...string) ([]byte, error)) (bare []core.Pod) {
	if len(pods) == 0 {
		return nil
	}
	routes, err := routesOf(quiver)
	if err != nil {
		return nil
	}
	for _, pod := range pods {
		ours, has := false, false
		for _, ip := range pod.Status.PodIPs {
			if address, err := netip.ParseAddr(ip.IP); err == nil {
				ours = ours || within(ranges, address)
				has = has || len(routes[address]) > 0
			}
		}
		if ours && !has {
			bare = append(bare, pod)
		}
	}
	return bare
}

// tellUnattached has nodes tell of their pods without an interface, but for those that have gone while nodes were asked.
func (c *Cluster) tellUnattached(ctx context.Context, all []Status, bare [][]core.Pod) error {
	if !slices.ContainsFunc(bare, func(pods []core.Pod) bool { return len(pods) > 0 }) {
		return nil
	}
	now, err := c.networked(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		var names []string
		for _, pod := range bare[i] {
			if slices.ContainsFunc(now[all[i].Name], func(one core.Pod) bool {
				return one.UID == pod.UID && slices.Equal(one.Status.PodIPs, pod.Status.PodIPs)
			}) {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		}
		if names != nil {
			all[i].Troubles = append(all[i].Troubles, withoutNetwork(names))
		}
	}
	return nil
}

// withoutNetwork says what is amiss with such pods.
func withoutNetwork(names []string) string {
	slices.Sort(names)
	if len(names) == 1 {
		return fmt.Sprintf("1 pod has no interface of Quiver's: %s; delete it, so that it is made anew", names[0])
	}
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if len(names) > mostNamed {
		text += ", …"
	}
	return fmt.Sprintf("%d pods have no interface of Quiver's: %s; delete them, so that they are made anew", len(names), text)
}
