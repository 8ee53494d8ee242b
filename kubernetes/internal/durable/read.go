package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Most bytes of a file that is read as a whole.
const most = 64 << 20

// ReadOwn reads a file that the agent has written: a regular one of its own user, and no symbolic link. Opening a FIFO would wait for its other end, and
// /dev/zero has none.
func ReadOwn(path string) ([]byte, error) { return read(path, syscall.O_NOFOLLOW, os.Geteuid()) }

// ReadSettings reads a regular file, also behind symbolic links: volumes of Kubernetes have these.
func ReadSettings(path string) ([]byte, error) { return read(path, 0, -1) }

// read reads a file of that user; -1: anybody's.
func read(path string, flags, owner int) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link, not a regular file: remove it", path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s, not a regular file: remove it", path, kind(about.Mode()))
	}
	if of := about.Sys().(*syscall.Stat_t).Uid; owner >= 0 && int(of) != owner {
		return nil, fmt.Errorf("%s belongs to user %d, and quiver-agent runs as user %d: change its owner, or remove it", path, of, owner)
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s has more than %d bytes: remove it", path, most)
	}
	return text, err
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
