// Package health answers kubelet's probes: whether the agent is alive, and whether the node forwards pods' packets.
package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// One probe may take this long: kubelet asks again.
const probeTime = 4 * time.Second

// Serve answers at an address until the context ends: /livez whenever it can, /readyz as `ready` says.
func Serve(ctx context.Context, address string, ready func(context.Context) error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(ready), ReadTimeout: probeTime, WriteTimeout: 2 * probeTime}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(ready func(context.Context) error) http.Handler {
	paths := http.NewServeMux()
	paths.HandleFunc("GET /livez", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, "alive") })
	paths.HandleFunc("GET /readyz", func(answer http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), probeTime)
		defer cancel()
		if err := ready(ctx); err != nil {
			http.Error(answer, "not forwarding: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(answer, "forwarding")
	})
	return paths
}
