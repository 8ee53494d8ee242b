package host

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// filled is how much there is in a table of ours: rules by chain, elements by set.
type filled struct {
	name             string
	chains, elements map[string]int
}

// isThere tells whether nobody has taken the table away, as who flushes all rules does, or part of it.
func (f *filled) isThere() bool {
	connection, err := nftables.New()
	if err != nil {
		return false
	}
	table, err := connection.ListTableOfFamily(f.name, nftables.TableFamilyINet)
	if err != nil || table == nil {
		return false
	}
	for name, count := range f.chains {
		rules, err := connection.GetRules(table, &nftables.Chain{Name: name, Table: table})
		if err != nil || len(rules) != count {
			return false
		}
	}
	for name, count := range f.elements {
		set, err := connection.GetSetByName(table, name)
		if err != nil {
			return false
		}
		elements, err := connection.GetSetElements(set)
		if err != nil || len(elements) != count {
			return false
		}
	}
	return true
}

// freshTable replaces a table of ours by an empty one, whether or not there was one.
func freshTable(connection *nftables.Conn, name string) *nftables.Table {
	table := &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
	// So that there is one to delete.
	connection.AddTable(table)
	connection.DelTable(table)
	return connection.AddTable(table)
}

// tableIsThere tells whether there is a table of ours, whatever is in it.
func tableIsThere(name string) (bool, error) {
	connection, err := nftables.New()
	if err != nil {
		return false, err
	}
	table, err := connection.ListTableOfFamily(name, nftables.TableFamilyINet)
	// (An error: no such table, or no nftables at all.)
	return err == nil && table != nil, nil
}

// withdrawTable takes a table of ours away, if there is one.
func withdrawTable(name string) error {
	connection, err := nftables.New()
	if err != nil {
		return err
	}
	table, err := connection.ListTableOfFamily(name, nftables.TableFamilyINet)
	if err != nil || table == nil {
		// No such table, or no nftables at all.
		return nil
	}
	connection.DelTable(table)
	if err := connection.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing table %s of nftables: %w", name, err)
	}
	return nil
}

// contents are what a table of ours shall hold.
type contents interface {
	// empty: there needn't be a table.
	empty() bool
	// filled is how much of it the kernel has.
	filled() *filled
	// fill puts all of it into the table, which is fresh.
	fill(*nftables.Conn, *nftables.Table) error
}

// kept is a table as it was brought last. It is replaced as a whole; connections that there are go on.
type kept struct {
	// Of no use before known.
	last  contents
	known bool
}

// bring has the table hold what it shall. With look, whatever may have happened to it.
func (k *kept) bring(wanted contents, look bool) error {
	if k.known && reflect.DeepEqual(wanted, k.last) && (!look || wanted.empty() || wanted.filled().isThere()) {
		return nil
	}
	k.known = false
	name := wanted.filled().name
	if wanted.empty() {
		// A kernel without nftables is as good, then.
		if err := withdrawTable(name); err != nil {
			return err
		}
	} else {
		connection, err := nftables.New()
		if err == nil {
			err = wanted.fill(connection, freshTable(connection, name))
		}
		if err == nil {
			err = connection.Flush()
		}
		if err != nil {
			return err
		}
	}
	k.last, k.known = wanted, true
	return nil
}

// Elements of one message: it has 64 KiB at most.
const someElements = 1000

// addSet makes a set with all its elements.
func addSet(connection *nftables.Conn, set *nftables.Set, elements []nftables.SetElement) error {
	if err := connection.AddSet(set, nil); err != nil {
		return err
	}
	for some := range slices.Chunk(elements, someElements) {
		if err := connection.SetAddElements(set, some); err != nil {
			return err
		}
	}
	return nil
}

// ofAddresses is the type of a set of a family's addresses.
func ofAddresses(v4 bool) nftables.SetDatatype {
	if v4 {
		return nftables.TypeIPAddr
	}
	return nftables.TypeIP6Addr
}

// familySet is what a set of a family's addresses is called.
func familySet(name string, v4 bool) string {
	if v4 {
		return name + "4"
	}
	return name + "6"
}

// intervals are the elements of a set of prefixes, of one family, ordered and none within another: where an interval begins, and where it has ended.
// One that begins right there has no end in between.
func intervals(prefixes []netip.Prefix, v4 bool) (elements []nftables.SetElement) {
	for _, prefix := range prefixes {
		if prefix.Addr().Is4() != v4 {
			continue
		}
		begins := prefix.Masked().Addr()
		if last := len(elements) - 1; last >= 0 && slices.Equal(elements[last].Key, begins.AsSlice()) {
			elements = elements[:last]
		} else {
			elements = append(elements, nftables.SetElement{Key: begins.AsSlice()})
		}
		if ends := behindPrefix(prefix); ends.IsValid() {
			elements = append(elements, nftables.SetElement{Key: ends.AsSlice(), IntervalEnd: true})
		}
	}
	return elements
}

// disjoint orders prefixes, and leaves out those that are within others.
func disjoint(all []netip.Prefix) (outer []netip.Prefix) {
	slices.SortFunc(all, comparePrefixes)
	for _, prefix := range all {
		// Who contains others stands right before them.
		if last := len(outer) - 1; last < 0 || !outer[last].Overlaps(prefix) {
			outer = append(outer, prefix)
		}
	}
	return outer
}

// comparePrefixes puts a prefix before those that it contains.
func comparePrefixes(a, b netip.Prefix) int {
	if by := a.Masked().Addr().Compare(b.Masked().Addr()); by != 0 {
		return by
	}
	return a.Bits() - b.Bits()
}

// behindPrefix is the first address that is greater than all of a prefix; not valid: there is none.
func behindPrefix(prefix netip.Prefix) netip.Addr {
	last := prefix.Masked().Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(last)*8; bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	address, _ := netip.AddrFromSlice(last)
	return address.Next()
}
