// Package overlay decides which nodes' pods are reached through tunnels between nodes, and which by the network's own routes.
package overlay

import "fmt"

// Mode says which nodes tunnels lead to. It is a flag's value.
type Mode string

const (
	// None of them: the network leads to pods' ranges, or nodes are direct neighbours.
	None Mode = "none"
	// VXLAN leads to all.
	VXLAN Mode = "vxlan"
	// CrossSubnet leads to those that aren't in a network that this node is in, too.
	CrossSubnet Mode = "cross-subnet"
)

func (m *Mode) String() string { return string(*m) }

// Set reads it.
func (m *Mode) Set(text string) error {
	switch mode := Mode(text); mode {
	case None, VXLAN, CrossSubnet:
		*m = mode
		return nil
	}
	return fmt.Errorf("%q: take %s, %s or %s", text, None, VXLAN, CrossSubnet)
}

const (
	// DefaultPort is VXLAN's own.
	DefaultPort = 4789
	// DefaultVNI is that of Calico.
	DefaultVNI = 4096
	// greatestVNI has 24 bits.
	greatestVNI = 1<<24 - 1
)

// Settings are the same on all nodes.
type Settings struct {
	// Mode says whom tunnels lead to.
	Mode Mode
	// Port of UDP at both ends.
	Port uint
	// VNI is VXLAN's network identifier.
	VNI uint
}

// On tells whether there are tunnels.
func (s *Settings) On() bool { return s.Mode == VXLAN || s.Mode == CrossSubnet }

// Check refuses what can't be.
func (s *Settings) Check() error {
	if s.Port < 1 || s.Port > 65535 {
		return fmt.Errorf("--overlay-port %d: take 1 to 65535", s.Port)
	}
	if s.VNI > greatestVNI {
		return fmt.Errorf("--overlay-vni %d: take 0 to %d, 24 bits", s.VNI, greatestVNI)
	}
	return nil
}
