package attachment

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestOfTwoPodsWithOneAddressTheFirstHasIt(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "attachments")
	// By somebody's hand: no store would do so.
	for age, record := range []*Record{record("late", "fd00::5"), record("first", "fd00::5"), record("other", "fd00::6"), record("between", "fd00::5")} {
		record.PodNamespace, record.PodName = "n", record.Container
		record.Addresses = append(record.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, byte(age)}))
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(directory, record.Key()+suffix)
		when := time.Now().Add(time.Duration(map[string]int{"first": -3, "between": -2, "other": -1, "late": 0}[record.Container]) * time.Hour)
		if err := errors.Join(os.MkdirAll(directory, 0o700), os.WriteFile(path, text, 0o600), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	var store *Store
	expect := func(there, told string) {
		t.Helper()
		var names, disputes []string
		for _, record := range store.All() {
			names = append(names, record.Container)
		}
		for _, one := range store.Disputes() {
			disputes = append(disputes, one.Record.Container+": "+one.String())
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != there {
			t.Errorf("there are %s, not %s", got, there)
		}
		if got := strings.Join(disputes, "; "); got != told {
			t.Errorf("told %q, not %q", got, told)
		}
	}
	// The same in each life, whatever the order of files.
	for range 2 {
		var err error
		if store, err = Open(directory); err != nil {
			t.Fatal(err)
		}
		expect("first other", "between: fd00::5 is also the address of pod n/first, which had it first; late: fd00::5 is also the address of pod n/first, which had it first")
	}
	late := ID{"late", "eth0"}
	if _, is := store.Disputed(late); !is || store.Get(late) != nil || !store.InUse(netip.MustParseAddr("10.0.0.0")) {
		t.Error("one that is left out is there, or its address free")
	}
	if _, is := store.Disputed(ID{"first", "eth0"}); is {
		t.Error("who had it first is left out")
	}
	// Who waited longest has it next; who is left out may go, too.
	if err := store.Delete(ID{"first", "eth0"}); err != nil {
		t.Fatal(err)
	}
	expect("between other", "late: fd00::5 is also the address of pod n/between, which had it first")
	if err := store.Delete(late); err != nil {
		t.Fatal(err)
	}
	expect("between other", "")
	if files, _ := os.ReadDir(directory); len(files) != 2 || store.InUse(netip.MustParseAddr("10.0.0.0")) {
		t.Errorf("left over: %v", files)
	}
}

func TestAFileOfAnotherNameIsNotPassedOver(t *testing.T) {
	directory := t.TempDir()
	store, err := Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	kept := record("a", "10.0.0.2")
	if err := errors.Join(store.Put(kept), os.Rename(store.path(kept.ID), filepath.Join(directory, "copy.json"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(directory); err == nil || !strings.Contains(err.Error(), "copy.json") || !strings.Contains(err.Error(), store.path(kept.ID)) {
		t.Errorf("%v", err)
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

// Only who was first counts, however often a record is written anew.
func TestWhatIsWrittenAnewStaysAsOldAsItWas(t *testing.T) {
	directory := t.TempDir()
	address := netip.MustParseAddr("10.0.0.2")
	put := func(container string) *Store {
		store, err := Open(directory)
		if err == nil {
			err = store.Put(&Record{ID: ID{container, "eth0"}, Addresses: []netip.Addr{address}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	first := put("first")
	put("second")
	resized := *first.Get(ID{"first", "eth0"})
	resized.MTU = 1300
	if err := first.Put(&resized); err != nil {
		t.Fatal(err)
	}
	store, err := Open(directory)
	if err != nil {
		t.Fatal(err)
	}
	if got := store.Get(ID{"first", "eth0"}); got == nil || got.MTU != 1300 || len(store.Disputes()) != 1 {
		t.Errorf("%+v, %+v", got, store.Disputes())
	}
}
