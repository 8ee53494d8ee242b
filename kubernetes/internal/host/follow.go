package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"quiver/kubernetes/internal/pods"
)

// This often routes are compared though no node is known to have changed: the kernel drops them when a device goes down.
const resync = 30 * time.Second

// Nodes are followed.
type Nodes interface {
	// Others are all nodes but this one; not known before the API server has answered once.
	Others() (others []pods.Node, known bool)
	// Self is this node; not known before, either.
	Self() (self pods.Node, known bool)
	// NodesChanged tells that Others may have another answer.
	NodesChanged() <-chan struct{}
}

// Follow keeps the host's routes at what the nodes are, and the translation of what leaves the cluster unless outgoing is nil, until the context
// ends. It leaves both as they are then: traffic goes on.
func Follow(ctx context.Context, nodes Nodes, outgoing *Outgoing, log *slog.Logger) error {
	table, err := Open(NodeProtocol)
	if err != nil {
		return err
	}
	defer table.Close()
	if err := Forwards(); err != nil {
		log.Warn("pods reach this host only", "why", err)
	}
	told, toldOutgoing := "", ""
	for {
		if others, known := nodes.Others(); known {
			// A fault that stays is told once.
			if trouble := bring(table, others); trouble != told {
				told = trouble
				if told != "" {
					log.Error("not all nodes' pods can be reached", "why", told)
				} else {
					log.Info("all nodes' pods can be reached")
				}
			}
			if trouble := translate(outgoing, nodes, others); trouble != toldOutgoing {
				toldOutgoing = trouble
				if trouble != "" {
					log.Error("pods don't reach what is outside of the cluster", "why", trouble)
				} else {
					log.Info("pods reach what is outside of the cluster")
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-nodes.NodesChanged():
		case <-time.After(resync):
		}
	}
}

func bring(table *Table, others []pods.Node) string {
	wanted, err := Wanted(others)
	if err = errors.Join(err, table.Bring(wanted)); err != nil {
		return err.Error()
	}
	return ""
}

func translate(outgoing *Outgoing, nodes Nodes, others []pods.Node) string {
	self, known := nodes.Self()
	if outgoing == nil || !known {
		return ""
	}
	if err := outgoing.Bring(self, others); err != nil {
		return err.Error()
	}
	return ""
}
