package attachment

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quiver/kubernetes/internal/annotation"
)

func record(container, address string) *Record {
	return &Record{ID: ID{container, "eth0"}, Netns: "/run/netns/" + container, MTU: 1500, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

func TestWhatIsPutIsThereInTheNextLife(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "attachments")
	store, err := Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	a, b := record("a", "10.0.0.2"), record("b", "fd00::2")
	b.Memif = &annotation.Memif{Ports: []annotation.PortRange{{Protocol: "tcp", First: 1, Last: 2}}}
	for _, record := range []*Record{a, b} {
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(a.ID); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(a.ID); err != nil {
		t.Fatalf("deleted twice: %v", err)
	}
	// The agent was killed while it wrote.
	if err := os.WriteFile(filepath.Join(directory, "half.json.new"), []byte(`{"cont`), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err = Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	if got := store.Get(b.ID); !reflect.DeepEqual(got, b) || store.Get(a.ID) != nil {
		t.Fatalf("got %+v, %+v", got, store.Get(a.ID))
	}
	for address, used := range map[string]bool{"10.0.0.2": false, "10.0.0.3": false, "fd00::2": true} {
		if store.InUse(netip.MustParseAddr(address)) != used {
			t.Errorf("%s in use: not %v", address, used)
		}
	}
	if files, _ := os.ReadDir(directory); len(files) != 1 {
		t.Errorf("left over: %v", files)
	}
}

func TestADamagedFileIsNotPassedOver(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "0123.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(directory); err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
}

func TestTwoPodsWithOneAddressAreNotPassedOver(t *testing.T) {
	directory := t.TempDir()
	for file, text := range map[string]string{
		"a.json": `{"container":"1","interface":"eth0","podNamespace":"n","podName":"a","addresses":["10.0.0.5","fd00::5"]}`,
		"b.json": `{"container":"2","interface":"eth0","podNamespace":"n","podName":"b","addresses":["10.0.0.6","fd00::5"]}`,
	} {
		if err := os.WriteFile(filepath.Join(directory, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(directory)
	for _, names := range []string{"n/a", "n/b", "fd00::5", "b.json"} {
		if err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%v lacks %s", err, names)
		}
	}
}

func TestFarewellsAreHeardOnce(t *testing.T) {
	farewells := Farewells(filepath.Join(t.TempDir(), "deleted"))
	if err := farewells.Each(func(ID) error { return errors.New("there is none") }); err != nil {
		t.Fatal(err)
	}
	id := ID{"a", "eth0"}
	for range 2 {
		if err := farewells.Leave(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := farewells.Each(func(ID) error { return errors.New("not now") }); err == nil {
		t.Fatal("a failure is told")
	}
	var heard []ID
	for range 2 {
		if err := farewells.Each(func(id ID) error { heard = append(heard, id); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(heard, []ID{id}) {
		t.Fatalf("heard %v", heard)
	}
}
