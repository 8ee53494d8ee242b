package annotation

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Most prefixes of one pod.
const mostSources = 64

const sourcesRemedy = `write a JSON array of prefixes and addresses: ["172.16.104.7", "3.4.5.0/24"]`

// readSources understands ["172.16.104.7", "3.4.5.0/24"].
func readSources(key, text string) ([]netip.Prefix, error) {
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
		prefixes = append(prefixes, prefix)
		return nil
	})
	return prefixes, err
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
