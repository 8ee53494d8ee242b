package host

import (
	"errors"
	"fmt"

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
