package balance

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures are the keeper's metrics, read whenever somebody asks.
func (k *Keeper) Figures(registry *prometheus.Registry) error {
	gauge := func(name, help string, value *int) error {
		return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			k.mutex.Lock()
			defer k.mutex.Unlock()
			return float64(*value)
		}))
	}
	return errors.Join(
		gauge("quiver_agent_services", "Services that this node answers for.", &k.services),
		gauge("quiver_agent_vips", "Places, of address, protocol and port, where they are asked.", &k.vips))
}
