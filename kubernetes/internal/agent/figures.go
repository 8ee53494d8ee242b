package agent

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// So long a figure waits for a change that is under way. One that waits for a quiverd which hangs lasts longer, and monitoring is to see that.
const figureTime = time.Second

// Figures are the agent's metrics, read whenever somebody asks; while a change takes long they are as they were last,
// or NaN if they weren't yet.
func (a *Agent) Figures(registry *prometheus.Registry) error {
	gauge := func(name, help string, value func() float64) error {
		var last atomic.Uint64
		last.Store(math.Float64bits(math.NaN()))
		return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), figureTime)
			defer cancel()
			if a.mutex.LockUntil(ctx) != nil {
				return math.Float64frombits(last.Load())
			}
			defer a.mutex.Unlock()
			now := value()
			last.Store(math.Float64bits(now))
			return now
		}))
	}
	for _, err := range []error{
		gauge("quiver_agent_attachments", "Interfaces of pods that there are on this node.", func() float64 { return float64(len(a.store.All())) }),
		gauge("quiver_agent_memifs", "Memifs beside them.", func() float64 {
			memifs := 0
			for _, record := range a.store.All() {
				if record.Memif != nil {
					memifs++
				}
			}
			return float64(memifs)
		}),
		gauge("quiver_agent_disputed", "Interfaces of pods that are left out, since another pod had their address first.", func() float64 { return float64(len(a.store.Disputes())) }),
		gauge("quiver_agent_mtu", "MTU of pods' interfaces, in bytes; 0: it isn't known yet.", func() float64 {
			if a.paths == nil {
				return 0
			}
			return float64(a.paths.MTU)
		}),
		gauge("quiver_agent_tunnels", "Tunnels to other nodes that there shall be.", func() float64 {
			if a.paths == nil || a.paths.Overlay == nil {
				return 0
			}
			return float64(len(a.paths.Overlay.Peers))
		}),
		gauge("quiver_agent_reconciled", "1 if quiverd had all that it shall have when they were last compared, single pods apart.", func() float64 {
			if a.compared != nil {
				return 0
			}
			return 1
		}),
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
