package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
)

const network = `{"cniVersion": "1.0.0", "name": "quiver", "plugins": [{"type": "quiver-cni"}, {"type": "portmap"}]}`

// source writes what is to be installed.
func source(t *testing.T, plugin, network string) (string, string) {
	t.Helper()
	directory := t.TempDir()
	paths := []string{filepath.Join(directory, "plugin"), filepath.Join(directory, "network")}
	for i, text := range []string{plugin, network} {
		if err := os.WriteFile(paths[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths[0], paths[1]
}

func names(t *testing.T, directory string) string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return strings.Join(all, " ")
}

func TestTheRuntimeFindsWhatWasPutAndNothingAfterItWasTaken(t *testing.T) {
	host := Host{t.TempDir(), t.TempDir()}
	plugin, conflist := source(t, "#!/bin/sh\n", network)
	if err := host.Put(plugin, conflist); err != nil {
		t.Fatal(err)
	}
	// libcni is what runtimes find both by.
	list, err := libcni.LoadNetworkConf(host.Networks, "quiver")
	if err != nil || len(list.Plugins) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if at, err := os.Stat(filepath.Join(host.Plugins, Plugin)); err != nil || at.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", at, err)
	}
	for range 2 {
		if err := host.TakeNetwork(); err != nil {
			t.Error(err)
		}
		if err := host.TakePlugin(); err != nil {
			t.Error(err)
		}
	}
	if left := names(t, host.Plugins) + names(t, host.Networks); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestAProgramInUseIsReplacedAndAnInterruptedInstallationTidiedUp(t *testing.T) {
	host := Host{t.TempDir(), t.TempDir()}
	path := filepath.Join(host.Plugins, Plugin)
	plugin, conflist := source(t, "old", network)
	if err := host.Put(plugin, conflist); err != nil {
		t.Fatal(err)
	}
	running, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin, conflist = source(t, "new", network)
	if err := host.Put(plugin, conflist); err != nil {
		t.Fatal(err)
	}
	before := make([]byte, 8)
	if n, _ := running.Read(before); string(before[:n]) != "old" {
		t.Errorf("who runs the old one has %q", before[:n])
	}
	if now, err := os.ReadFile(path); string(now) != "new" || err != nil {
		t.Errorf("%q, %v", now, err)
	}
	if found := names(t, host.Plugins); found != Plugin {
		t.Errorf("there is %s", found)
	}
}

func TestWhatIsTheSameIsLeftAlone(t *testing.T) {
	host := Host{t.TempDir(), t.TempDir()}
	plugin, conflist := source(t, "same", network)
	var files [2]os.FileInfo
	for i := range files {
		if err := host.Put(plugin, conflist); err != nil {
			t.Fatal(err)
		}
		files[i], _ = os.Stat(filepath.Join(host.Networks, Network))
	}
	// Runtimes read their configuration again when its file changes.
	if !os.SameFile(files[0], files[1]) || files[0].ModTime() != files[1].ModTime() {
		t.Error("the file was written again")
	}
}

func TestAConfigurationThatCannotWorkReplacesNothing(t *testing.T) {
	host := Host{t.TempDir(), t.TempDir()}
	for text, word := range map[string]string{
		`{"cniVersion": "1.0.0", "name": "quiver", "plugins": [`:       "unexpected end",
		`{"cniVersion": "1.0.0", "plugins": [{"type": "quiver-cni"}]}`: "name",
		`{"cniVersion": "1.0.0", "name": "quiver", "plugins": []}`:     "plugin",
		strings.Replace(network, "quiver-cni", "bridge", 1):            "quiver-cni",
	} {
		plugin, conflist := source(t, "x", text)
		if err := host.Put(plugin, conflist); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if left := names(t, host.Plugins) + names(t, host.Networks); left != "" {
		t.Errorf("left: %s", left)
	}
}
