package connectivity

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	core "k8s.io/api/core/v1"
	kube "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"quiver/kubernetes/internal/inspect"
)

// build makes everything, and waits until it is there. The policy comes first: nobody is asked before it is in force.
func (t *Test) build(ctx context.Context, namespace string, chosen []inspect.Node) (*scene, error) {
	there := &scene{namespace: namespace, pods: map[string][]netip.Addr{}}
	for _, one := range chosen {
		object, err := t.core.Nodes().Get(ctx, one.Name, meta.GetOptions{})
		if err != nil {
			return nil, err
		}
		there.nodes = append(there.nodes, nodeOf(object))
	}
	if _, err := t.policies.NetworkPolicies(namespace).Create(ctx, policyOf(), meta.CreateOptions{}); err != nil {
		return nil, err
	}
	service, err := t.core.Services(namespace).Create(ctx, serviceOf(), meta.CreateOptions{})
	if err != nil {
		return nil, err
	}
	there.service = service
	image, pull, err := imageOf(chosen[0].Pod)
	if err != nil {
		return nil, err
	}
	first, last := chosen[0].Name, chosen[len(chosen)-1].Name
	wanted := []*core.Pod{podOf(client, first, image, pull), podOf(near, first, image, pull), podOf(guarded, last, image, pull)}
	if first != last {
		wanted = append(wanted, podOf(far, last, image, pull))
	}
	for _, pod := range wanted {
		if err := t.create(ctx, namespace, pod); err != nil {
			return nil, err
		}
	}
	for _, pod := range wanted {
		if there.pods[pod.Name], err = t.running(ctx, namespace, pod.Name); err != nil {
			return nil, err
		}
	}
	there.dns = t.names(ctx)
	return there, nil
}

// names is the Service that answers for names, as most clusters call it; empty: there is none, which is the cluster's business.
func (t *Test) names(ctx context.Context) string {
	found, err := t.core.Services(meta.NamespaceSystem).List(ctx, meta.ListOptions{})
	if err != nil {
		return ""
	}
	for _, service := range found.Items {
		if service.Name == "kube-dns" || service.Labels["k8s-app"] == "kube-dns" {
			return service.Name
		}
	}
	return ""
}

func nodeOf(object *core.Node) node {
	found := node{name: object.Name}
	for _, entry := range object.Status.Addresses {
		if address, err := netip.ParseAddr(entry.Address); err == nil && entry.Type == core.NodeInternalIP {
			found.addresses = append(found.addresses, address)
		}
	}
	return found
}

// imageOf is that of the agent, which is on the nodes already.
func imageOf(quiver *core.Pod) (image string, pull core.PullPolicy, err error) {
	for _, container := range quiver.Spec.Containers {
		if container.Name == agent {
			return container.Image, container.ImagePullPolicy, nil
		}
	}
	return "", "", fmt.Errorf("pod %s/%s has no container %s: Quiver is being uninstalled there", quiver.Namespace, quiver.Name, agent)
}

// create makes a pod: in a new namespace it can't be before the controller manager has made the account of its name.
func (t *Test) create(ctx context.Context, namespace string, pod *core.Pod) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		_, last = t.core.Pods(namespace).Create(ctx, pod, meta.CreateOptions{})
		if kube.IsForbidden(last) && strings.Contains(last.Error(), "service account") {
			return false, nil
		}
		return true, last
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

// running waits until a pod runs, and returns its addresses.
func (t *Test) running(ctx context.Context, namespace, name string) (addresses []netip.Addr, err error) {
	var pod *core.Pod
	err = wait.PollUntilContextTimeout(ctx, look, patience, true, func(ctx context.Context) (bool, error) {
		var failed error
		pod, failed = t.core.Pods(namespace).Get(ctx, name, meta.GetOptions{})
		return failed == nil && inspect.Ready(pod), failed
	})
	if err != nil {
		why := ""
		if pod != nil {
			for _, container := range pod.Status.ContainerStatuses {
				if waiting := container.State.Waiting; waiting != nil {
					why = fmt.Sprintf(": %s %s", waiting.Reason, waiting.Message)
				}
			}
		}
		return nil, fmt.Errorf("pod %s/%s doesn't run%s: %w (with --keep: kubectl -n %s describe pod %s)", namespace, name, why, err, namespace, name)
	}
	for _, entry := range pod.Status.PodIPs {
		if address, err := netip.ParseAddr(entry.IP); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// remove takes the namespace away, also when the context has ended; then without waiting until it has gone.
func (t *Test) remove(ctx context.Context, name string) error {
	ended := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err := t.core.Namespaces().Delete(ctx, name, meta.DeleteOptions{})
	if err == nil && !ended {
		err = wait.PollUntilContextCancel(ctx, look, true, func(ctx context.Context) (bool, error) {
			_, failed := t.core.Namespaces().Get(ctx, name, meta.GetOptions{})
			return kube.IsNotFound(failed), nil
		})
	}
	if err != nil && !kube.IsNotFound(err) {
		return &RemainsError{name, err}
	}
	return nil
}
