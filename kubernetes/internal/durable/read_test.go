package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOnlyRegularFilesAreRead(t *testing.T) {
	directory := t.TempDir()
	at := func(name string) string { return filepath.Join(directory, name) }
	for _, one := range []struct {
		name, found string
		make        func(string) error
	}{
		{"fifo", "is a FIFO", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"directory", "is a directory", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"zeros", "is a symbolic link", func(path string) error { return os.Symlink("/dev/zero", path) }},
		{"large", "has more than", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, most+1))
		}},
	} {
		path := at(one.name)
		if err := one.make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadOwn(path); err == nil || !strings.Contains(err.Error(), one.found) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", one.name, err)
		}
	}
	if _, err := ReadSettings("/dev/zero"); err == nil || !strings.Contains(err.Error(), "is a device") {
		t.Error(err)
	}
	if _, err := ReadOwn(at("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFilesAreReadAsTheyWereWritten(t *testing.T) {
	directory := t.TempDir()
	path, link := filepath.Join(directory, "file"), filepath.Join(directory, "link")
	if err := errors.Join(WriteFile(path, []byte("text")), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	for path, read := range map[string]func(string) ([]byte, error){path: ReadOwn, link: ReadSettings} {
		if text, err := read(path); string(text) != "text" || err != nil {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadOwn(path); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Error(err)
		}
	}
}
