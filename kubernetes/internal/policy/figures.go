package policy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type figures struct{ lists, sets, guarded int }

// Figures are the keeper's metrics, read whenever somebody asks.
func (k *Keeper) Figures(registry *prometheus.Registry) error {
	gauge := func(name, help string, value *int) error {
		return registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			k.state.Lock()
			defer k.state.Unlock()
			return float64(*value)
		}))
	}
	return errors.Join(
		gauge("quiver_agent_policy_lists", "Lists of rules that NetworkPolicies are for this node's pods.", &k.figures.lists),
		gauge("quiver_agent_policy_groups", "Groups of pods that these lists speak of.", &k.figures.sets),
		gauge("quiver_agent_policy_guarded", "Pods of this node that are guarded by any.", &k.figures.guarded))
}
