package balance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// check is what a load balancer outside of the cluster is told at the port of a Service (healthCheckNodePort): whether this node has a pod of
// it, for only then it is of any use to send there what is answered locally.
type check struct {
	of       types.NamespacedName
	pods     atomic.Int64
	listener net.Listener
}

// ServeHTTP answers in the words of kube-proxy.
func (c *check) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	pods := c.pods.Load()
	status := http.StatusOK
	if pods == 0 {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(pods, 10))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"service":             map[string]string{"namespace": c.of.Namespace, "name": c.of.Name},
		"localEndpoints":      pods,
		"serviceProxyHealthy": true,
	})
}

// checks are those of all Services, by port.
type checks struct {
	all map[uint16]*check
}

// bring has them answer for what the Services are now. Who can't is told, and tried again the next time.
func (c *checks) bring(w *wanted) (failed error) {
	stays := map[uint16]bool{}
	for key, set := range w.sets {
		if set.HealthPort == 0 {
			continue
		}
		there := c.all[set.HealthPort]
		if there != nil && there.of != key && !stays[set.HealthPort] {
			there.listener.Close()
			there = nil
		}
		stays[set.HealthPort] = true
		if there == nil {
			var err error
			if there, err = listen(key, set.HealthPort); err != nil {
				failed = errors.Join(failed, fmt.Errorf("health checks of Service %s: %w", key, err))
				delete(c.all, set.HealthPort)
				continue
			}
			c.all[set.HealthPort] = there
		}
		there.pods.Store(int64(set.Near))
	}
	for port, there := range c.all {
		if !stays[port] {
			there.listener.Close()
			delete(c.all, port)
		}
	}
	return failed
}

func (c *checks) close() {
	for _, there := range c.all {
		there.listener.Close()
	}
}

func listen(key types.NamespacedName, port uint16) (*check, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	made := &check{of: key, listener: listener}
	server := &http.Server{Handler: made, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return made, nil
}
