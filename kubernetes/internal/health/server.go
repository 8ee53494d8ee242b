// Package health answers kubelet's probes: whether the agent is alive, and whether the node forwards pods' packets; and Prometheus.
package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// One probe may take this long: kubelet asks again.
const probeTime = 4 * time.Second

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
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(node, figures), ReadTimeout: probeTime, WriteTimeout: 2 * probeTime}
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
			http.Error(answer, "not forwarding: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(answer, node.Well())
		if warning := node.Warning(); warning != nil {
			fmt.Fprintln(answer, warning)
		}
	})
	if figures != nil {
		paths.Handle("GET /metrics", promhttp.HandlerFor(figures, promhttp.HandlerOpts{}))
	}
	return paths
}
