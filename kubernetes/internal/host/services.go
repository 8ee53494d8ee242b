package host

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"quiver/kubernetes/internal/service"
)

// Services is the kernel's way to where Services are asked: a route to each address, through the device that leads to quiverd; and ports of
// the node, which it translates.
type Services struct {
	device string
	table  *Table
	// What was brought last, so that what stays needs no look.
	routes map[netip.Addr]bool
	ports  nodePorts
}

// OpenServices prepares it for that device, in the network namespace we are in.
func OpenServices(device string) (*Services, error) {
	table, err := Open(ServiceProtocol)
	return &Services{device: device, table: table}, err
}

// Close ends it; everything stays.
func (s *Services) Close() { s.table.Close() }

// Bring has addresses lead to quiverd, and ports of the node's own addresses to it and to pods. With all, whatever may have happened to them.
func (s *Services) Bring(lead service.Lead, all bool) error {
	return errors.Join(s.lead(lead.Addresses, all || s.routes == nil), s.ports.bring(&lead, all))
}

func (s *Services) lead(addresses []netip.Addr, all bool) error {
	device, err := s.table.handle.LinkByName(s.device)
	if err != nil {
		return fmt.Errorf("device %s, by which the host reaches Services: %w", s.device, err)
	}
	wanted := make([]Route, 0, len(addresses))
	for _, address := range addresses {
		wanted = append(wanted, s.route(address, device))
	}
	if all {
		if err := s.table.Bring(wanted); err != nil {
			s.routes = nil
			return err
		}
	} else if err := s.change(wanted); err != nil {
		s.routes = nil
		return err
	}
	s.routes = map[netip.Addr]bool{}
	for _, address := range addresses {
		s.routes[address] = true
	}
	return nil
}

func (s *Services) route(address netip.Addr, device netlink.Link) Route {
	return Route{Prefix: netip.PrefixFrom(address, address.BitLen()), Device: device.Attrs().Index}
}

// change does what differs from last time.
func (s *Services) change(wanted []Route) (failed error) {
	stays := map[netip.Addr]bool{}
	for _, route := range wanted {
		address := route.Prefix.Addr()
		if stays[address] = true; !s.routes[address] {
			if err := s.table.handle.RouteAdd(s.table.kernel(route)); err != nil {
				failed = errors.Join(failed, worded(route, err))
			}
		}
	}
	for address := range s.routes {
		if stays[address] {
			continue
		}
		if err := s.table.remove(Route{Prefix: netip.PrefixFrom(address, address.BitLen())}); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// WithdrawServices takes all of it away.
func WithdrawServices() error {
	table, err := Open(ServiceProtocol)
	if err != nil {
		return err
	}
	defer table.Close()
	return errors.Join(table.Bring(nil), withdrawNodePorts())
}
