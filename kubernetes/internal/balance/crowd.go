package balance

import "k8s.io/apimachinery/pkg/types"

// crowd is all who claim one thing, and the first of them: at many places many may want something, and who is first is asked each time that one of
// them changes.
type crowd struct {
	all   map[types.NamespacedName]*claim
	first *claim
}

// join adds a claim, or has it instead of its owner's earlier one.
func (c *crowd) join(one *claim) {
	before := c.all[one.of]
	c.all[one.of] = one
	switch {
	case c.first == nil || one.compare(c.first) <= 0:
		c.first = one
	case c.first == before:
		c.look()
	}
}

// leave takes somebody's claim away.
func (c *crowd) leave(key types.NamespacedName) {
	before := c.all[key]
	delete(c.all, key)
	if before != nil && c.first == before {
		c.look()
	}
}

// look finds the first one anew.
func (c *crowd) look() {
	c.first = nil
	for _, one := range c.all {
		if c.first == nil || one.compare(c.first) < 0 {
			c.first = one
		}
	}
}

// crowds are those of many things. An empty one isn't there.
type crowds[T comparable] map[T]*crowd

func (c crowds[T]) join(at T, one *claim) {
	if c[at] == nil {
		c[at] = &crowd{all: map[types.NamespacedName]*claim{}}
	}
	c[at].join(one)
}

func (c crowds[T]) leave(at T, key types.NamespacedName) {
	if there := c[at]; there != nil {
		if there.leave(key); len(there.all) == 0 {
			delete(c, at)
		}
	}
}

// first is who comes first; nil: nobody is there.
func (c crowds[T]) first(at T) *claim {
	if there := c[at]; there != nil {
		return there.first
	}
	return nil
}

// of is somebody's claim; nil: there is none.
func (c crowds[T]) of(at T, key types.NamespacedName) *claim {
	if there := c[at]; there != nil {
		return there.all[key]
	}
	return nil
}

// others are all at a place but one.
func (c crowds[T]) others(at T, key types.NamespacedName) (others []types.NamespacedName) {
	if there := c[at]; there != nil {
		for other := range there.all {
			if other != key {
				others = append(others, other)
			}
		}
	}
	return others
}
