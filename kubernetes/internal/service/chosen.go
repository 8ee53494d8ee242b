package service

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
)

const (
	// Algorithm is the annotation of a Service that says how the backend of a new session is chosen.
	Algorithm = "quiver.io/loadBalancing"
	// Calico/VPP's, which are understood, or told to be without effect.
	calicoPrefix      = "cni.projectcalico.org/vpp"
	algorithmOfCalico = calicoPrefix + "LBType"
	hashOfCalico      = calicoPrefix + "HashConfig"
	keepsOriginal     = calicoPrefix + "KeepOriginalPacket"
	// What the API server takes where nothing is said.
	defaultAffinity = 10800
)

// What Calico/VPP's hash may be made of.
var hashed = []string{"srcport", "dstport", "srcaddr", "dstaddr", "iproto", "reverse", "symmetric"}

func (s *Set) leastFlows(annotations map[string]string) bool {
	if word, said := annotations[Algorithm]; said {
		if word != "maglev" && word != "least_flows" {
			s.problem("annotation %s, position 1: %q is neither maglev nor least_flows; maglev it is", Algorithm, word)
		}
		return word == "least_flows"
	}
	// Which of the two hashes it is makes no difference to who gets what.
	if word, said := annotations[algorithmOfCalico]; said && word != "maglev" && word != "ecmp" {
		s.problem("annotation %s, position 1: %q can't be; maglev it is", algorithmOfCalico, word)
	}
	return false
}

// ignored tells of annotations that have no effect, also because of a slip in their names.
func (s *Set) ignored(annotations map[string]string) {
	if list, said := annotations[hashOfCalico]; said {
		at := 1
		for _, entry := range strings.Split(list, ",") {
			begins := at + len(entry) - len(strings.TrimLeft(entry, " "))
			if word := strings.TrimSpace(entry); !slices.Contains(hashed, word) {
				s.problem("annotation %s, position %d: %q is none of %s", hashOfCalico, begins, word, strings.Join(hashed, ", "))
			}
			at += len(entry) + 1
		}
		s.problem("annotation %s has no effect: sessions are told apart by addresses, ports and protocol; sessionAffinity: ClientIP keeps those of a client together", hashOfCalico)
	}
	if word, said := annotations[keepsOriginal]; said {
		if keeps, err := strconv.ParseBool(word); err != nil {
			s.problem("annotation %s, position 1: %q is neither true nor false", keepsOriginal, word)
		} else if keeps {
			s.problem("annotation %s has no effect: backends get packets for their own addresses; remove it", keepsOriginal)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, calicoPrefix) && !slices.Contains([]string{algorithmOfCalico, hashOfCalico, keepsOriginal}, key) {
			s.problem("annotation %s has no effect: it isn't one of Services", key)
		}
	}
}

func affinity(spec *core.ServiceSpec) uint32 {
	if spec.SessionAffinity != core.ServiceAffinityClientIP {
		return 0
	}
	if said := spec.SessionAffinityConfig; said != nil && said.ClientIP != nil && said.ClientIP.TimeoutSeconds != nil {
		return uint32(*said.ClientIP.TimeoutSeconds)
	}
	return defaultAffinity
}
