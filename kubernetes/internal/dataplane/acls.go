package dataplane

import (
	"context"
	"net/netip"
	"strings"

	quiver "quiver/kubernetes/internal/api/quiverv1"
)

// FoundACLs are lists of rules in the dataplane with what belongs to them, by name.
type FoundACLs struct {
	// ACLs are the lists.
	ACLs map[string]*quiver.Acl
	// Endpoints are whose sessions they are asked about.
	Endpoints map[string]*quiver.Endpoint
	// Sets have members, which are single addresses.
	Sets map[string]map[netip.Addr]bool
}

// Refs names all of it, in an order in which it can go.
func (f *FoundACLs) Refs() []*quiver.ObjectRef {
	all := &quiver.Config{}
	for _, endpoint := range f.Endpoints {
		all.Endpoints = append(all.Endpoints, endpoint)
	}
	for _, list := range f.ACLs {
		all.Acls = append(all.Acls, list)
	}
	for name := range f.Sets {
		all.AddressSets = append(all.AddressSets, &quiver.AddressSet{Name: name})
	}
	return Refs(all)
}

// ACLs are those in the dataplane whose names begin so, also those of an earlier life of the agent.
func (c *Client) ACLs(ctx context.Context, prefix string) (*FoundACLs, error) {
	all, err := c.get(ctx, quiver.Kind_KIND_ACL, quiver.Kind_KIND_ADDRESS_SET, quiver.Kind_KIND_ENDPOINT)
	if err != nil {
		return nil, err
	}
	found := &FoundACLs{ACLs: map[string]*quiver.Acl{}, Endpoints: map[string]*quiver.Endpoint{}, Sets: map[string]map[netip.Addr]bool{}}
	for _, list := range all.Acls {
		if strings.HasPrefix(list.Name, prefix) {
			found.ACLs[list.Name] = list
		}
	}
	for _, endpoint := range all.Endpoints {
		if strings.HasPrefix(endpoint.Name, prefix) {
			found.Endpoints[endpoint.Name] = endpoint
		}
	}
	for _, set := range all.AddressSets {
		if !strings.HasPrefix(set.Name, prefix) {
			continue
		}
		members := map[netip.Addr]bool{}
		for _, text := range set.Members {
			if member, err := netip.ParsePrefix(text); err == nil {
				members[member.Addr()] = true
			} else if member, err := netip.ParseAddr(text); err == nil {
				members[member] = true
			}
		}
		found.Sets[set.Name] = members
	}
	return found, nil
}
