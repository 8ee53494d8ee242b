package annotation

import "strings"

// meant tells whether an annotation says something of a pod's interfaces.
func meant(candidate string) bool {
	for _, one := range []key{memifPorts, memifSpec, interfaces, fallback, vcl} {
		if candidate == one.calico || candidate == one.quiver {
			return candidate != ""
		}
	}
	for _, one := range sources {
		if candidate == one {
			return true
		}
	}
	return false
}

// Meant are those of a pod's annotations that say something of its interfaces. Never nil.
func Meant(annotations map[string]string) map[string]string {
	all := map[string]string{}
	for candidate, value := range annotations {
		if meant(candidate) {
			all[candidate] = value
		}
	}
	return all
}

// Changed are the keys of those that say something else than before, that are new or gone, in a fixed order. Blanks at the ends say nothing.
func Changed(before, now map[string]string) (keys []string) {
	all := Meant(before)
	for candidate, value := range Meant(now) {
		all[candidate] = value
	}
	for _, candidate := range sorted(all) {
		old, was := before[candidate]
		new, is := now[candidate]
		if was != is || strings.TrimSpace(old) != strings.TrimSpace(new) {
			keys = append(keys, candidate)
		}
	}
	return keys
}
