package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/host"
)

// This long an uninstall waits for a quiverd that doesn't answer.
const uninstallTime = 10 * time.Second

// uninstall takes away what agents have made: routes of the host, objects in quiverd (and with them the devices), the state on disk.
// If something fails, what comes after it stays, so that it can be tried again.
func uninstall(ctx context.Context, o options, log *slog.Logger) error {
	unlock, err := lock(o.state)
	if err != nil {
		return err
	}
	defer unlock()
	table, err := host.Open()
	if err != nil {
		return err
	}
	defer table.Close()
	if err := table.Bring(nil); err != nil {
		return err
	}
	quiverd, err := dataplane.Dial(o.quiverd)
	if err != nil {
		return err
	}
	defer quiverd.Close()
	ctx, cancel := context.WithTimeout(ctx, uninstallTime)
	defer cancel()
	if err := quiverd.Wait(ctx); err != nil {
		return fmt.Errorf("quiverd doesn't answer, and may still have what the agent made (start it, and try again): %w", err)
	}
	there, err := quiverd.Objects(ctx)
	if err != nil {
		return err
	}
	if err := quiverd.Apply(ctx, nil, there.Ours()); err != nil {
		return err
	}
	log.Info("uninstalled", "objects", len(there.Ours()), "state", o.state)
	return os.RemoveAll(o.state)
}
