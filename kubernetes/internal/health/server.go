// Package health answers kubelet's probes: whether the agent is alive, and whether the node forwards pods' packets; and Prometheus.
package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quiver/kubernetes/internal/escape"
)

// One probe may take this long: kubelet asks again.
const probeTime = 4 * time.Second

// Limits of connections: probes, scrapers, and whoever else reaches the address.
var limits = Limits{Connections: 64, OfOne: 16}

const (
	// So long a connection may stay between two requests: longer than probes and scrapes are apart.
	idleTime = 2 * time.Minute
	// A probe's head has some hundred bytes.
	headBytes = 8 << 10
	// Collections of metrics at a time.
	scrapes = 4
)

// Node is what is asked about.
type Node interface {
	// Ready is nil when the node forwards.
	Ready(ctx context.Context) error
	// Well is what it does then, in one line.
	Well() string
	// Warning is what is amiss nevertheless; nil: nothing.
	Warning() error
}

// Serve answers at an address until the context ends: /livez whenever it can, /readyz as the node is, /metrics from a registry (nil: there are none).
func Serve(ctx context.Context, address string, node Node, figures prometheus.Gatherer) error {
	listener, err := Listen("tcp", address, limits)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: handler(node, figures), ReadHeaderTimeout: HeadTime, ReadTimeout: probeTime, WriteTimeout: 2 * probeTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
	}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(node Node, figures prometheus.Gatherer) http.Handler {
	paths := http.NewServeMux()
	paths.HandleFunc("GET /livez", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, "alive") })
	paths.HandleFunc("GET /readyz", func(answer http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), probeTime)
		defer cancel()
		if err := node.Ready(ctx); err != nil {
			http.Error(answer, "not forwarding: "+escape.Error(err), http.StatusServiceUnavailable)
			return
		}
		escape.Fprintln(answer, node.Well())
		if warning := node.Warning(); warning != nil {
			escape.Fprintln(answer, warning)
		}
	})
	if figures != nil {
		// (A scraper that reads slowly keeps none of the others waiting, and no more than that many texts in memory.)
		paths.Handle("GET /metrics", promhttp.HandlerFor(figures, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes}))
	}
	return paths
}
