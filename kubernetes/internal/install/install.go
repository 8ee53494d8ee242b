// Package install puts on the host what the container runtime needs to call Quiver, and takes it away.
package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
)

const (
	// Plugin is what the CNI plugin is called among the runtime's plugins.
	Plugin = "quiver-cni"
	// Network is what the network configuration is called among the runtime's.
	Network = "10-quiver.conflist"
)

// Host is where the runtime looks.
type Host struct {
	// Plugins is the directory of CNI plugins.
	Plugins string
	// Networks is the directory of network configurations.
	Networks string
}

// Put installs the plugin, and then the network configuration by which the runtime calls it. Each file is there as a whole, or as it was
// before; one that has the same content already is left alone. A configuration that the runtime couldn't read is refused.
func (h Host) Put(plugin, network string) error {
	program, err := os.ReadFile(plugin)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(network)
	if err != nil {
		return err
	}
	if err := usable(text); err != nil {
		return fmt.Errorf("%s: %w", network, err)
	}
	if err := put(filepath.Join(h.Plugins, Plugin), program, 0o755); err != nil {
		return err
	}
	return put(filepath.Join(h.Networks, Network), text, 0o644)
}

// TakeNetwork removes the network configuration: the runtime makes no more pods with it.
func (h Host) TakeNetwork() error { return take(filepath.Join(h.Networks, Network)) }

// TakePlugin removes the plugin.
func (h Host) TakePlugin() error { return take(filepath.Join(h.Plugins, Plugin)) }

// usable tells whether a runtime could read the configuration, and would call our plugin first.
func usable(text []byte) error {
	list, err := libcni.NetworkConfFromBytes(text)
	if err != nil {
		return err
	}
	if len(list.Plugins) == 0 || list.Plugins[0].Network.Type != Plugin {
		return fmt.Errorf("its first plugin isn't %s", Plugin)
	}
	return nil
}

// put replaces a file in one step. What lies under the name that is used meanwhile is of an installation that was interrupted.
func put(path string, content []byte, mode fs.FileMode) error {
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, content) {
		return os.Chmod(path, mode)
	}
	// Runtimes read files by their last suffix only, so they don't see this one.
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return settle(filepath.Dir(path))
}

func take(path string) error {
	for _, name := range []string{path + ".new", path} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// settle brings a directory to the disk.
func settle(directory string) error {
	file, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
