package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"google.golang.org/grpc/codes"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
)

// Del takes the interfaces of an attachment away, also while quiverd is down: then they go when it is back.
func (a *Agent) Del(ctx context.Context, request *agentv1.DelRequest) (*agentv1.DelResponse, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return &agentv1.DelResponse{}, a.remove(ctx, idOf(request.Attachment))
}

func (a *Agent) remove(ctx context.Context, id attachment.ID) error {
	if one, is := a.store.Disputed(id); is {
		// Nothing of it is in the dataplane but what it may have had before: that goes with the next look.
		a.log.Info("deleted", "pod", one.Record.Pod(), "interface", id.Interface, "was left out", one.String())
		return a.forget(ctx, id)
	}
	record := a.store.Get(id)
	if record == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	a.withdraw(ctx, record)
	if err := a.forget(ctx, id); err != nil {
		return failure(codes.Unavailable, "see what ails the disk", "%s: %v", record.Pod(), err)
	}
	a.log.Info("deleted", "pod", record.Pod(), "interface", id.Interface, "addresses", record.Addresses)
	return nil
}

// forget has the disk forget an attachment, and tells everybody else. Who was left out because of it is there with the next look.
func (a *Agent) forget(ctx context.Context, id attachment.ID) error {
	record, disputes := a.store.Get(id), a.store.Disputes()
	if err := a.store.Delete(id); err != nil {
		return err
	}
	if record != nil {
		a.uncover(record)
		a.ported(record)
	}
	for _, one := range disputes {
		if next := a.store.Get(one.Record.ID); next != nil {
			a.log.Info("a pod has its address again", "pod", next.Pod(), "interface", next.Interface, "addresses", next.Addresses)
			if err := a.cover(ctx, next); err != nil {
				a.log.Warn("it may not be guarded yet", "pod", next.Pod(), "why", err)
				a.uncover(next)
			}
			a.ported(next)
		}
	}
	return nil
}

// Gc takes away every attachment of a network that the runtime doesn't know. Of which network those are that an agent before this one has made isn't
// known: they are any one's.
func (a *Agent) Gc(ctx context.Context, request *agentv1.GcRequest) (*agentv1.GcResponse, error) {
	valid := map[attachment.ID]bool{}
	for _, named := range request.Valid {
		valid[idOf(named)] = true
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	all := a.store.All()
	for _, one := range a.store.Disputes() {
		all = append(all, one.Record)
	}
	for _, record := range all {
		if its := record.Network == "" || record.Network == request.Network; its && !valid[record.ID] {
			if err := a.remove(ctx, record.ID); err != nil {
				return nil, err
			}
		}
	}
	return &agentv1.GcResponse{}, nil
}

// Status tells whether Add can work.
func (a *Agent) Status(ctx context.Context, _ *agentv1.StatusRequest) (*agentv1.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	if !a.mutex.TryLock() {
		// A change is under way, which waits for quiverd where that hangs: this is told in time then.
		if err := a.waitForQuiverd(ctx); err != nil {
			return nil, err
		}
		if err := a.mutex.LockUntil(ctx); err != nil {
			return nil, errBusy
		}
	}
	err := a.prepared()
	a.mutex.Unlock()
	if err != nil {
		return nil, err
	}
	if err := a.waitForQuiverd(ctx); err != nil {
		return nil, err
	}
	return &agentv1.StatusResponse{}, nil
}

// Check tells whether an attachment is as it shall be: known here, in force in quiverd, and in the pod.
func (a *Agent) Check(ctx context.Context, request *agentv1.CheckRequest) (*agentv1.CheckResponse, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if one, is := a.store.Disputed(idOf(request.Attachment)); is {
		return nil, failure(codes.NotFound, "let the runtime make the pod anew", "%s: %s", one.Record.Pod(), one)
	}
	record := a.store.Get(idOf(request.Attachment))
	if record == nil {
		return nil, failure(codes.NotFound, "let the runtime make the pod anew", "%s is not known", idOf(request.Attachment))
	}
	for _, address := range record.Addresses {
		if !slices.Contains(request.Addresses, address.String()) {
			return nil, failure(codes.NotFound, "let the runtime make the pod anew", "%s has address %s, of which the runtime doesn't know: it knows %s", record.Pod(), address, strings.Join(request.Addresses, ", "))
		}
	}
	there, err := a.quiverd.Objects(ctx)
	if err != nil {
		return nil, failure(codes.Unavailable, "see why quiverd doesn't run on this node", "%v", err)
	}
	if missing := dataplane.Without(dataplane.Refs(dataplane.Objects(record)), there.Pods); len(missing) > 0 {
		return nil, failure(codes.NotFound, "wait: the agent brings it back", "%s: quiverd has no %s", record.Pod(), missing[0].Name)
	}
	if err := inPod(request.Netns, record, request.Routes); err != nil {
		return nil, failure(codes.NotFound, "let the runtime make the pod anew", "%s: %v", record.Pod(), err)
	}
	return &agentv1.CheckResponse{}, nil
}

// inPod tells whether the pod's namespace has the device with its addresses, and with the default routes that the runtime believes in.
func inPod(path string, record *attachment.Record, believed []string) error {
	namespace, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", path, err)
	}
	defer namespace.Close()
	handle, err := netlink.NewHandleAt(namespace)
	if err != nil {
		return err
	}
	defer handle.Close()
	device, err := handle.LinkByName(record.Interface)
	if err != nil {
		return fmt.Errorf("interface %s: %w", record.Interface, err)
	}
	addresses, err := handle.AddrList(device, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", record.Interface, err)
	}
	has := map[netip.Addr]bool{}
	for _, address := range addresses {
		if plain, ok := netip.AddrFromSlice(address.IP); ok {
			has[plain.Unmap()] = true
		}
	}
	for _, address := range record.Addresses {
		if !has[address] {
			return fmt.Errorf("interface %s lacks address %s", record.Interface, address)
		}
		if err := leadsOut(handle, device, address, believed); err != nil {
			return err
		}
	}
	return nil
}

// leadsOut tells whether the default route of an address's family leaves by the device, unless a plugin behind us has taken it away.
func leadsOut(handle *netlink.Handle, device netlink.Link, address netip.Addr, believed []string) error {
	family, everything := netlink.FAMILY_V4, netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if address.Is6() {
		family, everything = netlink.FAMILY_V6, netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	if !slices.Contains(believed, everything.String()) {
		return nil
	}
	routes, err := handle.RouteList(device, family)
	if err != nil {
		return fmt.Errorf("routes by %s: %w", device.Attrs().Name, err)
	}
	if !slices.ContainsFunc(routes, func(route netlink.Route) bool { return route.Dst == nil || route.Dst.String() == everything.String() }) {
		return fmt.Errorf("interface %s lacks the route to %s", device.Attrs().Name, everything)
	}
	return nil
}
