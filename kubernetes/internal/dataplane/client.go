package dataplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"google.golang.org/grpc"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dial"
)

// Client talks to quiverd.
type Client struct {
	connection *grpc.ClientConn
	quiver     quiver.QuiverClient
}

// RefusedError is a batch that quiverd didn't accept, or didn't bring into force at once.
type RefusedError struct {
	// Object at fault: its kind and name.
	Object string
	// Name alone.
	Name string
	// Reason and Remedy in quiverd's words.
	Reason, Remedy string
	// Others of the batch that are at fault as well.
	Others []*RefusedError
}

func (e *RefusedError) Error() string { return fmt.Sprintf("quiverd: %s: %s", e.Object, e.Reason) }

// All are this one and the others. Without them, others yet may turn out to be at fault.
func (e *RefusedError) All() []*RefusedError { return append([]*RefusedError{e}, e.Others...) }

// Dial prepares to talk to the quiverd at a unix socket, which needn't be there yet.
func Dial(socket string, options ...grpc.DialOption) (*Client, error) {
	connection, err := dial.Unix("quiverd", socket, append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
	if err != nil {
		return nil, err
	}
	return &Client{connection, quiver.NewQuiverClient(connection)}, nil
}

// Close ends it.
func (c *Client) Close() error { return c.connection.Close() }

// Wait waits until quiverd answers.
func (c *Client) Wait(ctx context.Context) error {
	_, err := c.quiver.Version(ctx, &quiver.VersionRequest{}, grpc.WaitForReady(true))
	return err
}

// Apply creates or replaces objects and deletes others, as one batch. All must be in force afterwards; else a RefusedError names all that quiverd has
// found at fault.
func (c *Client) Apply(ctx context.Context, upserts *quiver.Config, deletes []*quiver.ObjectRef) error {
	answer, err := c.quiver.Apply(ctx, &quiver.ApplyRequest{Upserts: upserts, Deletes: deletes, Terse: true})
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, ref := range Refs(upserts) {
		asked[refName(ref)] = true
	}
	var refusals, waiting []*RefusedError
	for _, result := range answer.Results {
		name := refName(result.Object)
		if refused := result.GetRefused(); refused != nil {
			refusals = append(refusals, &RefusedError{
				Object: name, Name: result.Object.GetName(), Reason: strings.TrimPrefix(refused.Field+": "+refused.Reason, ": "), Remedy: refused.Remedy,
			})
		}
		// A tenant is in force for all interfaces but those that it waits for, and these are waited for themselves.
		if pending := result.GetPending(); pending != nil && asked[name] && result.Object.Kind != quiver.Kind_KIND_TENANT {
			var reasons []string
			for _, wait := range pending.WaitsFor {
				reasons = append(reasons, wait.Reason)
			}
			waiting = append(waiting, &RefusedError{
				Object: name, Name: result.Object.GetName(), Reason: "waits: " + strings.Join(reasons, "; "), Remedy: "see quiver get",
			})
		}
	}
	// Of a batch that isn't in force, what would wait says nothing.
	if len(refusals) == 0 {
		refusals = waiting
	}
	if len(refusals) > 0 {
		refusals[0].Others = refusals[1:]
		return refusals[0]
	}
	if !answer.Committed {
		return errors.New("quiverd did not commit the change")
	}
	return nil
}

// Clear removes all objects, whosever they are.
func (c *Client) Clear(ctx context.Context) error {
	answer, err := c.quiver.Apply(ctx, &quiver.ApplyRequest{ReplaceAll: true})
	if err == nil && !answer.Committed {
		err = errors.New("quiverd did not commit that there is nothing any more")
	}
	return err
}

// Objects are those in the dataplane, VIPs and their routes apart.
func (c *Client) Objects(ctx context.Context) (*Found, error) {
	all, err := c.get(ctx, quiver.Kind_KIND_VRF, quiver.Kind_KIND_INTERFACE, quiver.Kind_KIND_ROUTE, quiver.Kind_KIND_NEIGHBOR, quiver.Kind_KIND_TENANT)
	if err != nil {
		return nil, err
	}
	return sort(all), nil
}

// Memifs are all that quiverd has, as they run, by name.
func (c *Client) Memifs(ctx context.Context) (map[string]*quiver.MemifState, error) {
	answer, err := c.quiver.Memif(ctx, &quiver.MemifRequest{})
	if err != nil {
		return nil, err
	}
	all := map[string]*quiver.MemifState{}
	for _, memif := range answer.Memifs {
		all[memif.Interface] = memif
	}
	return all, nil
}

// Interfaces are all that quiverd has, as they run, by name.
func (c *Client) Interfaces(ctx context.Context) (map[string]*quiver.InterfaceState, error) {
	answer, err := c.quiver.Interfaces(ctx, &quiver.InterfacesRequest{})
	if err != nil {
		return nil, err
	}
	all := map[string]*quiver.InterfaceState{}
	for _, device := range answer.Interfaces {
		all[device.Name] = device
	}
	return all, nil
}

// StandstillError is a worker whose round doesn't end: packets of its queues are forwarded by nobody.
type StandstillError struct {
	Worker, Core uint32
	// Standstill says where and how, in quiverd's words.
	Standstill string
}

func (e *StandstillError) Error() string {
	return fmt.Sprintf("worker %d of quiverd, on core %d, %s: see the log of quiverd, which ends for it where that helps", e.Worker, e.Core, e.Standstill)
}

// Standstill is nil when no worker stands still.
func (c *Client) Standstill(ctx context.Context) error {
	answer, err := c.quiver.Runtime(ctx, &quiver.RuntimeRequest{})
	if err != nil {
		return fmt.Errorf("quiverd's workers: %w", err)
	}
	var all []error
	for _, worker := range answer.Workers {
		if worker.StuckSeconds > 0 {
			all = append(all, &StandstillError{worker.Index, worker.Core, cmp.Or(worker.Standstill, "stands still")})
		}
	}
	return errors.Join(all...)
}

// Port is nil when packets can pass by the port on the uplink.
func (c *Client) Port(ctx context.Context) error {
	answer, err := c.quiver.Interfaces(ctx, &quiver.InterfacesRequest{Name: uplinkPort})
	if err != nil {
		return fmt.Errorf("quiverd's %s: %w", uplinkPort, err)
	}
	if len(answer.Interfaces) == 0 {
		return fmt.Errorf("quiverd has no interface %s", uplinkPort)
	}
	if state := answer.Interfaces[0]; !state.LinkUp {
		return fmt.Errorf("quiverd's %s is down: %s", uplinkPort, state.LinkReason)
	}
	return nil
}

// EndSessions ends those of the tenant of all pods with these addresses on either side.
func (c *Client) EndSessions(ctx context.Context, addresses []netip.Addr) error {
	for _, address := range addresses {
		if _, err := c.quiver.ClearSessions(ctx, &quiver.ClearSessionsRequest{Filter: &quiver.SessionFilter{Tenant: everybody, Address: address.String()}}); err != nil {
			return fmt.Errorf("sessions of %s: %w", address, err)
		}
	}
	return nil
}

// get reads all objects of these kinds.
func (c *Client) get(ctx context.Context, kinds ...quiver.Kind) (*quiver.Config, error) {
	all := &quiver.Config{}
	for _, kind := range kinds {
		stream, err := c.quiver.Get(ctx, &quiver.GetRequest{Kind: kind})
		if err != nil {
			return nil, err
		}
		for {
			part, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			for _, object := range part.Objects {
				add(all, object)
			}
		}
	}
	return all, nil
}

func add(all *quiver.Config, object *quiver.Object) {
	switch {
	case object.GetVrf() != nil:
		all.Vrfs = append(all.Vrfs, object.GetVrf())
	case object.GetInterface() != nil:
		all.Interfaces = append(all.Interfaces, object.GetInterface())
	case object.GetRoute() != nil:
		all.Routes = append(all.Routes, object.GetRoute())
	case object.GetNeighbor() != nil:
		all.Neighbors = append(all.Neighbors, object.GetNeighbor())
	case object.GetTenant() != nil:
		all.Tenants = append(all.Tenants, object.GetTenant())
	case object.GetVip() != nil:
		all.Vips = append(all.Vips, object.GetVip())
	case object.GetAcl() != nil:
		all.Acls = append(all.Acls, object.GetAcl())
	case object.GetAddressSet() != nil:
		all.AddressSets = append(all.AddressSets, object.GetAddressSet())
	case object.GetEndpoint() != nil:
		all.Endpoints = append(all.Endpoints, object.GetEndpoint())
	}
}

// Watch returns when quiverd is there, and then again when it went: it calls up in between.
func (c *Client) Watch(ctx context.Context, up func()) error {
	stream, err := c.quiver.Watch(ctx, &quiver.WatchRequest{Kind: quiver.Kind_KIND_VRF}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := c.Wait(ctx); err != nil {
		return err
	}
	up()
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// Refs names the objects of a configuration.
func Refs(config *quiver.Config) []*quiver.ObjectRef {
	var refs []*quiver.ObjectRef
	for _, vrf := range config.GetVrfs() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_VRF, Name: vrf.Name})
	}
	for _, vip := range config.GetVips() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_VIP, Name: vip.Name})
	}
	for _, tenant := range config.GetTenants() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_TENANT, Name: tenant.Name})
	}
	for _, endpoint := range config.GetEndpoints() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_ENDPOINT, Name: endpoint.Name})
	}
	for _, list := range config.GetAcls() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_ACL, Name: list.Name})
	}
	for _, set := range config.GetAddressSets() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_ADDRESS_SET, Name: set.Name})
	}
	for _, neighbor := range config.GetNeighbors() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_NEIGHBOR, Name: neighbor.Interface + "/" + neighbor.Address})
	}
	for _, route := range config.GetRoutes() {
		vrf := route.Vrf
		if vrf == "" {
			vrf = "default"
		}
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_ROUTE, Name: vrf + "/" + route.Prefix})
	}
	for _, device := range config.GetInterfaces() {
		refs = append(refs, &quiver.ObjectRef{Kind: quiver.Kind_KIND_INTERFACE, Name: device.Name})
	}
	return refs
}

// Without are the references that aren't among others.
func Without(refs, others []*quiver.ObjectRef) []*quiver.ObjectRef {
	known := map[string]bool{}
	for _, ref := range others {
		known[refName(ref)] = true
	}
	var rest []*quiver.ObjectRef
	for _, ref := range refs {
		if !known[refName(ref)] {
			rest = append(rest, ref)
		}
	}
	return rest
}

func refName(ref *quiver.ObjectRef) string {
	return strings.ToLower(strings.TrimPrefix(ref.GetKind().String(), "KIND_")) + " " + ref.GetName()
}
