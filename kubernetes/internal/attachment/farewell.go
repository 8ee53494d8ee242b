package attachment

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"quiver/kubernetes/internal/durable"
)

// Farewells is a directory in which quiver-cni leaves word of attachments that went while the agent was not there.
type Farewells string

// Leave leaves word of an attachment that is gone.
func (f Farewells) Leave(id ID) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(string(f), id.Key()+suffix), text)
}

// Each calls forget for every word that was left, and removes those for which it succeeds.
func (f Farewells) Each(forget func(ID) error) error {
	files, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	failed := err
	for _, file := range files {
		path := filepath.Join(string(f), file.Name())
		if filepath.Ext(path) != suffix {
			continue
		}
		var id ID
		text, err := durable.ReadOwn(path)
		if err == nil {
			err = json.Unmarshal(text, &id)
		}
		if err == nil {
			err = forget(id)
		}
		if err == nil {
			err = os.Remove(path)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
