package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Forwards tells whether addresses answer, one of each family at least that the host has: one family may be dead while the other is well. A family of which
// the host has no address isn't asked, since there is none to ask from; if it has none of them all, all are asked, and the error says so.
func Forwards(ctx context.Context, addresses []netip.Addr) error {
	byFamily := map[bool][]netip.Addr{}
	for _, address := range addresses {
		byFamily[address.Is4()] = append(byFamily[address.Is4()], address)
	}
	asks := map[bool]bool{}
	for v4 := range byFamily {
		has, err := hasFamily(v4)
		if err != nil {
			return fmt.Errorf("addresses of the host: %w", err)
		}
		asks[v4] = has
	}
	all := !asks[true] && !asks[false]
	var families []family
	for _, v4 := range []bool{true, false} {
		if len(byFamily[v4]) == 0 || !all && !asks[v4] {
			continue
		}
		of, err := open(v4)
		if err != nil {
			return fmt.Errorf("ping by %s: %w", familyName(v4), err)
		}
		defer of.socket.Close()
		families = append(families, family{familyName(v4), byFamily[v4], of.echo})
	}
	return allOf(ctx, families)
}

// family is what is asked of one.
type family struct {
	name      string
	addresses []netip.Addr
	// ask is nil if an address answers.
	ask func(context.Context, netip.Addr) error
}

// allOf is nil if one address of each family answers. They are asked side by side: one that is silent takes no time from the others.
func allOf(ctx context.Context, families []family) error {
	failures := make([]error, len(families))
	var waiting sync.WaitGroup
	for i, one := range families {
		waiting.Go(func() {
			if err := one.any(ctx); err != nil {
				failures[i] = fmt.Errorf("%s: %w", one.name, err)
			}
		})
	}
	waiting.Wait()
	return errors.Join(failures...)
}

// any is nil if one of its addresses answers. They are asked in turn, and share the time that there is: each has the same part of what those before have left.
func (f family) any(ctx context.Context) (failed error) {
	for i, address := range f.addresses {
		part, cancel := ctx, context.CancelFunc(func() {})
		if deadline, limited := ctx.Deadline(); limited {
			part, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(f.addresses)-i))
		}
		err := f.ask(part, address)
		cancel()
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// hasFamily tells whether the host has an address of a family from which others can be asked. One that the kernel still tests for being somebody else's
// counts, as it will be there in a second, but not on a device without a carrier, where that test has no end: a device that nothing is plugged into may have
// an address of IPv6 on a host which has none otherwise.
func hasFamily(v4 bool) (bool, error) {
	family := netlink.FAMILY_V6
	if v4 {
		family = netlink.FAMILY_V4
	}
	found, err := netlink.AddrList(nil, family)
	// Where one comes or goes meanwhile, the others are there all the same.
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return false, err
	}
	for _, one := range found {
		if address, is := netip.AddrFromSlice(one.IP); !is || !address.IsGlobalUnicast() {
			continue
		}
		if one.Flags&unix.IFA_F_DADFAILED != 0 {
			// Somebody else's, for good.
			continue
		}
		if one.Flags&unix.IFA_F_TENTATIVE == 0 {
			return true, nil
		}
		if device, err := net.InterfaceByIndex(one.LinkIndex); err == nil && device.Flags&net.FlagRunning != 0 {
			return true, nil
		}
	}
	return false, nil
}

func familyName(v4 bool) string {
	if v4 {
		return "IPv4"
	}
	return "IPv6"
}
