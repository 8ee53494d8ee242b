package host

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Families are those of IP for which something is done. They are a flag's value: "both", "none", "ipv4" or "ipv6"; true and false mean the first two.
type Families struct {
	// V4 and V6 are for one of them each.
	V4, V6 bool
}

// Any tells whether it is done for one at least.
func (f *Families) Any() bool { return f.V4 || f.V6 }

// Has tells whether it is done for an address's.
func (f *Families) Has(address netip.Addr) bool {
	if address.Is4() {
		return f.V4
	}
	return f.V6
}

func (f *Families) String() string {
	switch *f {
	case Families{V4: true, V6: true}:
		return "both"
	case Families{V4: true}:
		return "ipv4"
	case Families{V6: true}:
		return "ipv6"
	}
	return "none"
}

// Set reads them.
func (f *Families) Set(text string) error {
	switch text {
	case "both":
		*f = Families{V4: true, V6: true}
	case "none":
		*f = Families{}
	case "ipv4":
		*f = Families{V4: true}
	case "ipv6":
		*f = Families{V6: true}
	default:
		all, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q: take ipv4, ipv6, both or none", text)
		}
		*f = Families{V4: all, V6: all}
	}
	return nil
}

// IsBoolFlag has the flag alone mean both.
func (*Families) IsBoolFlag() bool { return true }
