package attachment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quiver/kubernetes/internal/durable"
)

// Store is the directory of the attachments, and a copy of it in memory. It is for one user at a time.
type Store struct {
	directory string
	records   map[ID]*Record
	used      map[netip.Addr]ID
	// Left out, since others had an address of theirs first; ordered by that.
	disputed []*Record
}

// Dispute is an attachment that is left out: another one has its address, too, and had it first. Only somebody's hand on the disk makes such.
type Dispute struct {
	// Record that is left out, and the Other one.
	Record, Other *Record
	// Address of both.
	Address netip.Addr
}

func (d Dispute) String() string {
	return fmt.Sprintf("%s is also the address of %s, which had it first", d.Address, d.Other.Pod())
}

const suffix = ".json"

// Open reads a directory, which is made if it is missing. A file that can't be understood is an error: an address that it holds
// might be given to a second pod. Of two that have one address, the one that was written first has it.
func Open(directory string) (*Store, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	store := &Store{directory: directory, records: map[ID]*Record{}, used: map[netip.Addr]ID{}}
	var all []*Record
	files, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		path := filepath.Join(directory, file.Name())
		if !strings.HasSuffix(file.Name(), suffix) {
			// Written halfway when the agent was killed: its attachment was never answered.
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		text, err := durable.ReadOwn(path)
		if err != nil {
			return nil, err
		}
		record := &Record{}
		if err := json.Unmarshal(text, record); err != nil {
			return nil, fmt.Errorf("attachment %s is damaged (%w): move it away if no pod has its address", path, err)
		}
		if path != store.path(record.ID) {
			return nil, fmt.Errorf("attachment %s is that of %s, whose file is %s: move it away", path, record.ID, store.path(record.ID))
		}
		about, err := file.Info()
		if err != nil {
			return nil, err
		}
		if record.Since.IsZero() {
			// Of a program that didn't write it.
			record.Since = about.ModTime()
		}
		all = append(all, record)
	}
	slices.SortFunc(all, func(a, b *Record) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Key(), b.Key()))
	})
	store.disputed = all
	store.settle()
	return store, nil
}

// settle takes in who is left out, and doesn't have to be any more.
func (s *Store) settle() {
	s.disputed = slices.DeleteFunc(s.disputed, func(record *Record) bool {
		if _, _, rival := s.rival(record); rival {
			return false
		}
		s.remember(record)
		return true
	})
}

// rival is who has an address of an attachment that is left out.
func (s *Store) rival(record *Record) (other *Record, address netip.Addr, is bool) {
	for _, address := range record.Addresses {
		if id, used := s.used[address]; used {
			return s.records[id], address, true
		}
	}
	return nil, netip.Addr{}, false
}

// Disputes are all attachments that are left out.
func (s *Store) Disputes() (all []Dispute) {
	for _, record := range s.disputed {
		other, address, _ := s.rival(record)
		all = append(all, Dispute{record, other, address})
	}
	return all
}

// Disputed tells whether an attachment is left out, and why.
func (s *Store) Disputed(id ID) (Dispute, bool) {
	for _, one := range s.Disputes() {
		if one.Record.ID == id {
			return one, true
		}
	}
	return Dispute{}, false
}

func (s *Store) remember(record *Record) {
	s.records[record.ID] = record
	for _, address := range record.Addresses {
		s.used[address] = record.ID
	}
}

// Get finds an attachment; nil: there is none, or it is left out.
func (s *Store) Get(id ID) *Record { return s.records[id] }

// All attachments, in no order, but for those that are left out.
func (s *Store) All() []*Record {
	all := make([]*Record, 0, len(s.records))
	for _, record := range s.records {
		all = append(all, record)
	}
	return all
}

// InUse tells whether an attachment has an address, also one that is left out.
func (s *Store) InUse(address netip.Addr) bool {
	_, used := s.used[address]
	return used || slices.ContainsFunc(s.disputed, func(record *Record) bool { return slices.Contains(record.Addresses, address) })
}

// Put keeps an attachment; when it returns, it is on disk.
func (s *Store) Put(record *Record) error {
	if record.Since.IsZero() {
		record.Since = time.Now().Round(0).UTC()
	}
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(s.path(record.ID), text); err != nil {
		return err
	}
	s.remember(record)
	return nil
}

// Delete forgets an attachment, also one that is left out. It is no error if there is none. Who was left out because of it is there from now on.
func (s *Store) Delete(id ID) error {
	record := s.records[id]
	leftOut := slices.IndexFunc(s.disputed, func(one *Record) bool { return one.ID == id })
	if record == nil && leftOut < 0 {
		return nil
	}
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.SyncDirectory(s.directory); err != nil {
		return err
	}
	if record == nil {
		s.disputed = slices.Delete(s.disputed, leftOut, leftOut+1)
		return nil
	}
	delete(s.records, id)
	for _, address := range record.Addresses {
		delete(s.used, address)
	}
	s.settle()
	return nil
}

func (s *Store) path(id ID) string { return filepath.Join(s.directory, id.Key()+suffix) }
