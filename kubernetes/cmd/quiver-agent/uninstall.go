package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/health"
	"quiver/kubernetes/internal/host"
	"quiver/kubernetes/internal/install"
	"quiver/kubernetes/internal/policy"
)

const (
	// This long an uninstall waits for a quiverd that doesn't answer.
	uninstallTime = 10 * time.Second
	// This long for one that it has started, and that takes over what there is.
	startTime = time.Minute
)

// uninstall takes away what agents have made: the runtime's way to us, routes of the host, objects in quiverd (and with them the devices),
// the state on disk. If something fails, what comes after it stays, so that it can be tried again.
func uninstall(ctx context.Context, o options, log *slog.Logger) error {
	unlock, err := lock(o.state)
	if err != nil {
		return err
	}
	defer unlock()
	files := install.Host{Plugins: o.plugins, Networks: o.networks}
	// First of all: whoever is asked for a pod from now on isn't us.
	if o.networks != "" {
		if err := files.TakeNetwork(); err != nil {
			return err
		}
	}
	quiverd, err := dataplane.Dial(o.quiverd)
	if err != nil {
		return err
	}
	defer quiverd.Close()
	if o.program == "" {
		err = withdraw(ctx, quiverd, log)
	} else {
		err = retire(ctx, o, quiverd, log)
	}
	if err != nil {
		return err
	}
	// Behind quiverd: what its tunnels and pods send would leave the node as nobody may see it.
	table, err := host.Open(host.NodeProtocol)
	if err != nil {
		return err
	}
	defer table.Close()
	if err := errors.Join(table.Bring(nil), host.WithdrawServices(), host.WithdrawOutgoing(), host.WithdrawOverlay(), host.WithdrawUplink()); err != nil {
		return err
	}
	if err := os.RemoveAll(o.state); err != nil {
		return err
	}
	// Until now a runtime could have needed it to delete a pod.
	if o.plugins != "" {
		if err := files.TakePlugin(); err != nil {
			return err
		}
	}
	log.Info("uninstalled")
	if !o.stay {
		return nil
	}
	if o.health == "" {
		<-ctx.Done()
		return nil
	}
	return health.Serve(ctx, o.health, done{}, nil)
}

// done is a node from which all is taken.
type done struct{}

func (done) Ready(context.Context) error { return nil }
func (done) Well() string                { return "uninstalled: nothing of Quiver is left here" }
func (done) Warning() error              { return nil }

// withdraw takes our objects out of a quiverd that goes on running, for others.
func withdraw(ctx context.Context, quiverd *dataplane.Client, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, uninstallTime)
	defer cancel()
	if err := quiverd.Wait(ctx); err != nil {
		return fmt.Errorf("%w: it may still have what the agent made (start it, and try again)", err)
	}
	there, err := quiverd.Objects(ctx)
	if err != nil {
		return err
	}
	vips, err := quiverd.VIPs(ctx)
	if err != nil {
		return err
	}
	policies, err := quiverd.ACLs(ctx, policy.Ours)
	if err != nil {
		return err
	}
	ours := slices.Concat(there.Ours(), vips.Refs(), policies.Refs())
	if err := quiverd.Apply(ctx, nil, ours); err != nil {
		return err
	}
	log.Info("quiverd has nothing of ours any more", "objects", len(ours))
	return nil
}

// retire removes all that a quiverd which has ended has left. Its devices outlive it, and it knows best what they are: so it is started
// once more, told that nothing shall be, and ended.
func retire(ctx context.Context, o options, quiverd *dataplane.Client, log *slog.Logger) error {
	if there, err := net.Dial("unix", o.quiverd); err == nil {
		there.Close()
		return fmt.Errorf("a quiverd still runs at %s: end it first", o.quiverd)
	}
	last := exec.CommandContext(ctx, o.program)
	last.Stdout, last.Stderr = os.Stderr, os.Stderr
	last.Cancel = func() error { return last.Process.Signal(syscall.SIGTERM) }
	if err := last.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- last.Wait() }()
	end := func() error {
		_ = last.Process.Signal(syscall.SIGTERM)
		return <-ended
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- quiverd.Wait(ctx) }()
	select {
	case err := <-ended:
		return fmt.Errorf("%s ended at once: %w", o.program, errors.Join(err, ctx.Err()))
	case err := <-answered:
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", o.program, err), end())
		}
	}
	if err := quiverd.Clear(ctx); err != nil {
		return errors.Join(err, end())
	}
	if err := end(); err != nil {
		return fmt.Errorf("%s: %w", o.program, err)
	}
	log.Info("quiverd has gone, and all that it made", "state", o.programState)
	if err := os.RemoveAll(o.programState); err != nil {
		return err
	}
	// Sockets that nobody listens at. Whatever else is beside them stays, and so their directory.
	for _, path := range []string{o.quiverd, o.socket, filepath.Dir(o.quiverd), filepath.Dir(o.socket)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
