package annotation

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// Most prefixes of one pod.
const mostSources = 64

const sourcesRemedy = `write a JSON array of prefixes and addresses: ["172.16.104.7", "3.4.5.0/24"]`

// readSources understands ["172.16.104.7", "3.4.5.0/24"].
func readSources(key, text string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	decoder := json.NewDecoder(strings.NewReader(text))
	// position of what comes next, counted from 1.
	position := func() int {
		rest := text[decoder.InputOffset():]
		return len(text) - len(strings.TrimLeft(rest, " \t\r\n,")) + 1
	}
	wrong := func(at int, format string, arguments ...any) error {
		return &Error{Key: key, Position: at, Reason: fmt.Sprintf(format, arguments...), Remedy: sourcesRemedy}
	}
	at := position()
	if open, err := decoder.Token(); err != nil || open != json.Delim('[') {
		return nil, wrong(at, "no JSON array begins here")
	}
	for decoder.More() {
		at = position()
		token, err := decoder.Token()
		if err != nil {
			return nil, wrong(at, "%s", strings.TrimPrefix(err.Error(), "json: "))
		}
		word, isString := token.(string)
		if !isString {
			return nil, wrong(at, "%v is no string", token)
		}
		prefix, err := readPrefix(word)
		if err != nil {
			return nil, wrong(at, "%q is neither an address nor a prefix", word)
		}
		prefixes = append(prefixes, prefix)
	}
	at = position()
	if _, err := decoder.Token(); err != nil {
		return nil, wrong(at, "the array doesn't end here as it should")
	}
	at = position()
	if _, more := decoder.Token(); more != io.EOF {
		return nil, wrong(at, "something follows the array")
	}
	if len(prefixes) > mostSources {
		return nil, wrong(0, "%d prefixes; %d are allowed", len(prefixes), mostSources)
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
