package address

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"quiver/kubernetes/internal/durable"
)

// Last is a file that says which address of each range was given last, so that the pools of the next agent go on there; empty: there is none.
// Nothing depends on it but how long addresses rest.
type Last string

// Read tells the address by range. Nothing was written yet: none.
func (l Last) Read() (given map[netip.Prefix]netip.Addr, err error) {
	if l == "" {
		return nil, nil
	}
	text, err := durable.ReadOwn(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &given)
	}
	if err != nil {
		return nil, fmt.Errorf("which addresses were given last, %s: %w", string(l), err)
	}
	return given, nil
}

// Write keeps what pools have given last. The file is there as a whole or not at all, but the disk isn't waited for: that would have every pod wait,
// and all that a loss of power can take is a rest.
func (l Last) Write(pools []*Pool) error {
	if l == "" {
		return nil
	}
	given := map[netip.Prefix]netip.Addr{}
	for _, pool := range pools {
		if pool.last.IsValid() {
			given[pool.prefix] = pool.last
		}
	}
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	temporary := string(l) + ".new"
	// (Whatever is there is replaced, not written to: a FIFO would have us wait.)
	_ = os.Remove(temporary)
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, string(l))
}
