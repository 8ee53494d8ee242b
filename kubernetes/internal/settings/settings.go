// Package settings follows those of the agent's that change while it runs, by a file: kubelet keeps it at what the API server has, and it is there
// while that is down.
package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"quiver/kubernetes/internal/annotation"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/host"
)

// Settings that change live.
type Settings struct {
	// Outgoing are the families of which the host translates what pods send out of the cluster.
	Outgoing host.Families
	// KeepSessions: see agent.Settings.
	KeepSessions bool
	// Sessions of pods: how many there may be, and what they pass.
	Sessions dataplane.Sessions
	// Defaults of pods to come.
	Defaults annotation.Defaults
}

// keys are what a file may have.
var keys = map[string]func(s *Settings, value []byte) error{
	"natOutgoing": func(s *Settings, value []byte) error {
		var word any
		if err := json.Unmarshal(value, &word); err != nil {
			return err
		}
		return s.Outgoing.Set(fmt.Sprint(word))
	},
	"keepSessions": func(s *Settings, value []byte) error {
		switch string(value) {
		case "true", "false":
			s.KeepSessions = string(value) == "true"
			return nil
		}
		return fmt.Errorf("%s: take true or false", value)
	},
	"maxSessions":          func(s *Settings, value []byte) error { return s.Sessions.SetMax(string(value)) },
	"maxSessionsPerSource": func(s *Settings, value []byte) error { return s.Sessions.SetMaxOfSource(string(value)) },
	"countedSources": func(s *Settings, value []byte) error {
		var word string
		if err := json.Unmarshal(value, &word); err != nil {
			return fmt.Errorf("%s: take pods or all", value)
		}
		return s.Sessions.SetSources(word)
	},
	"sessionServices": func(s *Settings, value []byte) error {
		var names []string
		if err := json.Unmarshal(value, &names); err != nil {
			return fmt.Errorf(`%s: take a list, ["tcp-check", "session-stats"]`, value)
		}
		return s.Sessions.SetServices(names)
	},
	"memifFallback": func(s *Settings, value []byte) error {
		var word string
		if err := json.Unmarshal(value, &word); err != nil {
			return fmt.Errorf("%s: take eth0 or drop", value)
		}
		drops, err := annotation.ParseFallback(word)
		if err != nil {
			return fmt.Errorf("%w: take eth0 or drop", err)
		}
		s.Defaults.MemifDrops = drops
		return nil
	},
	"allowedSourcePrefixes": func(s *Settings, value []byte) error {
		var words []string
		if err := json.Unmarshal(value, &words); err != nil {
			return fmt.Errorf(`%s: take a list, ["172.16.0.0/16", "fd01::7"]`, value)
		}
		var all []netip.Prefix
		for _, word := range words {
			some, err := annotation.ParseSources(word)
			if err != nil {
				return err
			}
			all = append(all, some...)
		}
		s.Defaults.Sources = all
		return nil
	},
}

// Parse reads YAML. What it doesn't have is as it is otherwise.
func Parse(text []byte, otherwise Settings) (Settings, error) {
	there, err := yaml.YAMLToJSONStrict(text)
	var all map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(there, &all)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("no keys with values: %w", err)
	}
	read := otherwise
	for _, key := range slices.Sorted(maps.Keys(all)) {
		put := keys[key]
		if put == nil {
			return Settings{}, fmt.Errorf("%s isn't known: take %s", key, strings.Join(slices.Sorted(maps.Keys(keys)), ", "))
		}
		if err := put(&read, all[key]); err != nil {
			return Settings{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	return read, nil
}
