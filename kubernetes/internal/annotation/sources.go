package annotation

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Most prefixes of one pod.
const mostSources = 64

const sourcesRemedy = `write a JSON array of prefixes and addresses: ["172.16.104.7", "3.4.5.0/24"]`

// What to do about a prefix that the agent doesn't allow.
const forbiddenRemedy = "leave it out, or have whoever runs the cluster allow it: agent.allowedSourcePrefixes of the Helm chart, --allowed-source-prefixes of quiver-agent"

// readSources understands ["172.16.104.7", "3.4.5.0/24"], which must be within what is allowed.
func readSources(key, text string, allowed []netip.Prefix) ([]netip.Prefix, error) {
	v, err := readJSON(key, text, sourcesRemedy)
	if err != nil {
		return nil, err
	}
	var prefixes []netip.Prefix
	err = v.array(func(element json.Token, at int) error {
		word, is := element.(string)
		if !is {
			return v.wrong(at, "expected a string, not %s", kindOf(element))
		}
		prefix, err := readPrefix(word)
		if err != nil {
			return v.wrong(at, "%q is neither an address nor a prefix", word)
		}
		if len(prefixes) == mostSources {
			return &Error{Key: key, Position: at, Reason: fmt.Sprintf("%q is one more than the %d prefixes that a pod may have", word, mostSources), Remedy: "join neighbouring ones to a shorter prefix"}
		}
		if !slices.ContainsFunc(allowed, func(outer netip.Prefix) bool { return outer.Bits() <= prefix.Bits() && outer.Contains(prefix.Addr()) }) {
			return &Error{Key: key, Position: at, Reason: fmt.Sprintf("%q isn't among what pods may send from besides: %s", word, listed(allowed)), Remedy: forbiddenRemedy}
		}
		prefixes = append(prefixes, prefix)
		return nil
	})
	return prefixes, err
}

// listed are prefixes in words.
func listed(prefixes []netip.Prefix) string {
	if len(prefixes) == 0 {
		return "nothing is allowed on this node"
	}
	var texts []string
	for _, prefix := range prefixes {
		texts = append(texts, prefix.String())
	}
	return strings.Join(texts, ", ")
}

// ParseSources understands prefixes and addresses, separated by commas; empty: none.
func ParseSources(text string) (prefixes []netip.Prefix, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		prefix, err := readPrefix(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a prefix", word)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

// readPrefix understands a prefix, whose bits beyond its length don't count, or an address.
func readPrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		return prefix.Masked(), err
	}
	address, err := netip.ParseAddr(text)
	if err == nil && address.Zone() != "" {
		err = fmt.Errorf("an address with a zone")
	}
	address = address.Unmap()
	return netip.PrefixFrom(address, address.BitLen()), err
}
