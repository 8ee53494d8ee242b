package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"time"

	"quiver/kubernetes/internal/durable"
)

// This often the file is looked at. (Kubelet takes up to a minute or two to put it there.)
const interval = 2 * time.Second

// Follower follows a file.
type Follower struct {
	// File that is followed; empty: there is none.
	File string
	// Kept is a copy of what the file was when it was last understood: who starts while it isn't goes on by that.
	Kept string
	// Otherwise is what counts where the file says nothing.
	Otherwise Settings
	// Log of what changes, and of what isn't understood.
	Log *slog.Logger

	now Settings
	// What was there when it was last looked at.
	text []byte
	// What was told of last.
	trouble string
}

// Begin gives the settings to begin with. An error means that neither the file is understood nor one that was there before.
func (f *Follower) Begin() (Settings, error) {
	f.now = f.Otherwise
	if f.File == "" {
		return f.now, nil
	}
	if f.look(); f.trouble == "" {
		return f.now, nil
	}
	text, err := durable.ReadOwn(f.Kept)
	if err == nil {
		f.now, err = Parse(text, f.Otherwise)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s; and as it was before, %s: %w", f.trouble, f.Kept, err)
		} else {
			err = errors.New(f.trouble)
		}
		return Settings{}, err
	}
	return f.now, nil
}

// Run tells of others until the context ends.
func (f *Follower) Run(ctx context.Context, tell func(before, after Settings)) {
	if f.File == "" {
		return
	}
	regularly := time.NewTicker(interval)
	defer regularly.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-regularly.C:
		}
		if before := f.now; f.look() {
			tell(before, f.now)
		}
	}
}

// look reads the file anew, and tells whether settings are other ones. What isn't understood leaves them as they were.
func (f *Follower) look() (changed bool) {
	text, err := durable.ReadSettings(f.File)
	if err == nil && f.text != nil && bytes.Equal(text, f.text) {
		return false
	}
	var read Settings
	if err == nil {
		f.text = append([]byte{}, text...)
		if read, err = Parse(text, f.Otherwise); err != nil {
			err = fmt.Errorf("%s: %w", f.File, err)
		}
	} else {
		f.text = nil
	}
	if err != nil {
		if trouble := err.Error(); trouble != f.trouble {
			f.trouble = trouble
			f.Log.Error("settings stay as they were", "why", trouble)
		}
		return false
	}
	if f.trouble != "" {
		f.trouble = ""
		f.Log.Info("settings are understood again")
	}
	if err := durable.WriteFile(f.Kept, text); err != nil {
		f.Log.Warn("settings count, but an agent that is started while they aren't understood won't know them", "why", err)
	}
	if reflect.DeepEqual(read, f.now) {
		return false
	}
	f.now = read
	f.Log.Info("settings", "natOutgoing", read.Outgoing.String(), "keepSessions", read.KeepSessions, "sessions", read.Sessions.String(), "memifDrops", read.Defaults.MemifDrops, "allowedSourcePrefixes", read.Defaults.Sources)
	return true
}
