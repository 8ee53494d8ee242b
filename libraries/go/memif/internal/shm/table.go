package shm

import (
	"errors"
	"runtime"
	"runtime/debug"
	"unsafe"
)

// ErrLost says that pages of a region went away while they were used.
var ErrLost = errors.New("shared memory was truncated")

// Table is the regions of one connection, by index. It doesn't change.
type Table struct {
	extents [][]byte // of the announced size
	regions []*Region
	// Closed, if not nil, is called when all regions are unmapped and closed.
	Closed func()
}

// NewTable makes a table, which owns the regions from here on.
func NewTable(regions []*Region) *Table {
	table := &Table{regions: regions}
	for _, region := range regions {
		table.extents = append(table.extents, region.bytes[:region.size])
	}
	return table
}

// Len is the number of regions.
func (t *Table) Len() int { return len(t.regions) }

// Bytes are the bytes of a range, if the region exists and holds all of it. All three values may come from a peer. They are for
// copying only.
func (t *Table) Bytes(region uint16, offset, length uint32) ([]byte, bool) {
	if int(region) >= len(t.extents) {
		return nil, false
	}
	extent := t.extents[region]
	end := uint64(offset) + uint64(length)
	if end > uint64(len(extent)) {
		return nil, false
	}
	return extent[offset:end:end], true
}

// Close unmaps all regions.
func (t *Table) Close() error {
	var failed error
	for _, region := range t.regions {
		failed = errors.Join(failed, region.Close())
	}
	t.extents, t.regions = nil, nil
	if t.Closed != nil {
		t.Closed()
	}
	return failed
}

// Guard runs use, which accesses the regions. Seals keep a peer from taking pages of a region away, but not of one that was accepted
// unsealed, and one of huge pages may never have had them all: the bus error that follows becomes ErrLost. Every other panic goes on.
func (t *Table) Guard(use func() error) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if cause := recover(); cause != nil {
			fault, ok := cause.(interface{ Addr() uintptr })
			if !ok || !t.holds(fault.Addr()) {
				panic(cause)
			}
			err = ErrLost
		}
	}()
	return use()
}

func (t *Table) holds(address uintptr) bool {
	for _, region := range t.regions {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(region.bytes)))
		if address >= base && address-base < uintptr(len(region.bytes)) {
			return true
		}
	}
	runtime.KeepAlive(t)
	return false
}
