package annotation

import (
	"fmt"
	"strings"
)

// Annotations of ours that aren't asked for: what a pod is told, and what belongs on Services.
var (
	told       = map[string]bool{quiverPrefix + "status": true}
	ofServices = map[string]bool{
		quiverPrefix + "loadBalancing": true, calicoPrefix + "vppLBType": true, calicoPrefix + "vppHashConfig": true, calicoPrefix + "vppKeepOriginalPacket": true,
	}
)

// Annotations of Calico/VPP for several networks.
const severalNetworks = "extensions.projectcalico.org/"

// ignored tells of annotations that look as if they were for us and have no effect: a key with a slip in it would else go unnoticed.
func ignored(annotations map[string]string) (words []string) {
	for _, candidate := range sorted(annotations) {
		switch {
		case meant(candidate) || told[candidate]:
		case ofServices[candidate]:
			words = append(words, fmt.Sprintf("annotation %s is for Services: on a pod it has no effect", candidate))
		case strings.HasPrefix(candidate, severalNetworks):
			words = append(words, fmt.Sprintf("annotation %s has no effect: there is one network of pods", candidate))
		case strings.HasPrefix(candidate, calicoPrefix+"vpp"), strings.HasPrefix(candidate, quiverPrefix):
			words = append(words, fmt.Sprintf("annotation %s is not known, and has no effect: see docs/kubernetes.md for those that are", candidate))
		}
	}
	return words
}
