package balance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/health"
)

const (
	// So long who asks for health waits for their turn, or for us.
	checkTime = 5 * time.Second
	// So long they wait at most until it is known whether the node forwards: what hangs shall be told, too.
	healthTime = 3 * time.Second
	// So long a load balancer may keep its connection between two checks.
	idleTime = 2 * time.Minute
	// Most bytes of a request's head.
	headBytes = 8 << 10
)

// Load balancers are few; the port is open to all who reach the node.
var checkLimits = health.Limits{Connections: 64, OfOne: 16}

// check is what a load balancer outside of the cluster is told at the port of a Service (healthCheckNodePort): whether this node has a pod of
// it, and forwards, for only then it is of any use to send there what is answered locally.
type check struct {
	of       types.NamespacedName
	pods     atomic.Int64
	healthy  func(context.Context) error
	listener net.Listener
}

// ServeHTTP answers in the words of kube-proxy.
func (c *check) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), healthTime)
	defer cancel()
	pods, healthy := c.pods.Load(), c.healthy == nil || c.healthy(ctx) == nil
	status := http.StatusOK
	if pods == 0 || !healthy {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(pods, 10))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"service":             map[string]string{"namespace": c.of.Namespace, "name": c.of.Name},
		"localEndpoints":      pods,
		"serviceProxyHealthy": healthy,
	})
}

// checks are those of all Services, by port.
type checks struct {
	all map[uint16]*check
	// See Settings.
	healthy func(context.Context) error
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
			if there, err = listen(key, set.HealthPort, c.healthy); err != nil {
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

func listen(key types.NamespacedName, port uint16, healthy func(context.Context) error) (*check, error) {
	listener, err := health.Listen("tcp", fmt.Sprintf(":%d", port), checkLimits)
	if err != nil {
		return nil, err
	}
	made := &check{of: key, healthy: healthy, listener: listener}
	server := &http.Server{Handler: made, ReadHeaderTimeout: health.HeadTime, ReadTimeout: checkTime, WriteTimeout: checkTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes}
	go func() { _ = server.Serve(listener) }()
	return made, nil
}
