package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// Store is the directory of the attachments, and a copy of it in memory. It is for one user at a time.
type Store struct {
	directory string
	records   map[ID]*Record
	used      map[netip.Addr]ID
}

const suffix = ".json"

// Open reads a directory, which is made if it is missing. A file that can't be understood is an error: an address that it holds
// might be given to a second pod. So are two that have one address: it would lead to either of them.
func Open(directory string) (*Store, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	store := &Store{directory, map[ID]*Record{}, map[netip.Addr]ID{}}
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
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		record := &Record{}
		if err := json.Unmarshal(text, record); err != nil {
			return nil, fmt.Errorf("attachment %s is damaged (%w): move it away if no pod has its address", path, err)
		}
		for _, address := range record.Addresses {
			if other, used := store.used[address]; used && other != record.ID {
				return nil, fmt.Errorf("attachments %s of %s and %s of %s have the same address %s: delete one of the pods, and move its file away",
					store.path(other), store.records[other].Pod(), path, record.Pod(), address)
			}
		}
		store.remember(record)
	}
	return store, nil
}

func (s *Store) remember(record *Record) {
	s.records[record.ID] = record
	for _, address := range record.Addresses {
		s.used[address] = record.ID
	}
}

// Get finds an attachment; nil: there is none.
func (s *Store) Get(id ID) *Record { return s.records[id] }

// All attachments, in no order.
func (s *Store) All() []*Record {
	all := make([]*Record, 0, len(s.records))
	for _, record := range s.records {
		all = append(all, record)
	}
	return all
}

// InUse tells whether an attachment has an address.
func (s *Store) InUse(address netip.Addr) bool {
	_, used := s.used[address]
	return used
}

// Put keeps an attachment; when it returns, it is on disk.
func (s *Store) Put(record *Record) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(s.path(record.ID), text); err != nil {
		return err
	}
	s.remember(record)
	return nil
}

// Delete forgets an attachment. It is no error if there is none.
func (s *Store) Delete(id ID) error {
	record := s.records[id]
	if record == nil {
		return nil
	}
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDirectory(s.directory); err != nil {
		return err
	}
	delete(s.records, id)
	for _, address := range record.Addresses {
		delete(s.used, address)
	}
	return nil
}

func (s *Store) path(id ID) string { return filepath.Join(s.directory, id.Key()+suffix) }

// writeFile puts a file in place as a whole or not at all, and durably.
func writeFile(path string, text []byte) error {
	temporary := path + ".new"
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync()
}
