package main

import (
	"context"
	"errors"
	"log/slog"

	"quiver/kubernetes/internal/install"
)

// putOnHost is what --install does.
func putOnHost(_ context.Context, o options, log *slog.Logger) error {
	if o.plugins == "" || o.networks == "" {
		return errors.New("--install: say where the runtime looks: --cni-plugins, --cni-networks")
	}
	err := install.Host{Plugins: o.plugins, Networks: o.networks}.Put(o.plugin, o.network)
	if err == nil {
		log.Info("installed", "plugins", o.plugins, "networks", o.networks)
	}
	return err
}
