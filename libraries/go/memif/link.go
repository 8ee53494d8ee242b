package memif

import (
	"errors"
	"fmt"
	"sync"
)

// LinkKind is what happened to a link. The libraries for Rust and C tell the same six, C with the same numbers.
type LinkKind int

const (
	LinkUp           LinkKind = 1 // packets can flow
	LinkDown         LinkKind = 2 // no more; the port connects, or takes a new client, by itself
	LinkRefused      LinkKind = 3 // an attempt failed: the peer, or we, turned the other away
	LinkUnreachable  LinkKind = 4 // there is no server, or none that may be connected to: Denied
	LinkAdminDown    LinkKind = 5 // Port.AdminDown was called
	LinkNotAccepting LinkKind = 6 // the server is out of descriptors or memory; it tries again by itself
)

// LinkEvent is something that happened to the link of a [Port], and why: Reason is nil for LinkUp only.
type LinkEvent struct {
	Kind   LinkKind
	Reason error
}

func (e LinkEvent) String() string {
	switch e.Kind {
	case LinkUp:
		return "link up"
	case LinkDown, LinkAdminDown:
		return fmt.Sprint("link down: ", e.Reason)
	case LinkRefused:
		return fmt.Sprint("refused: ", e.Reason)
	case LinkUnreachable:
		if errors.Is(e.Reason, Denied) {
			return fmt.Sprint("can't connect: ", e.Reason)
		}
		return fmt.Sprint("no server: ", e.Reason)
	case LinkNotAccepting:
		return fmt.Sprint("can't accept a client: ", e.Reason)
	}
	return fmt.Sprint("event ", int(e.Kind))
}

// newsLimit is how many events wait for one that is being told; of more the oldest are forgotten.
const newsLimit = 64

// news tells events in their order, one at a time, whoever has them: also while one is being told.
type news struct {
	link    func(LinkEvent)
	mu      sync.Mutex
	waiting []LinkEvent
	telling bool
}

func (n *news) tell(event LinkEvent) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == newsLimit {
		n.waiting = n.waiting[:copy(n.waiting, n.waiting[1:])]
	}
	n.waiting = append(n.waiting, event)
	if n.telling {
		return // who tells goes on with it
	}
	n.telling = true
	for len(n.waiting) > 0 {
		next := n.waiting[0]
		n.waiting = n.waiting[:copy(n.waiting, n.waiting[1:])]
		n.mu.Unlock()
		n.link(next)
		n.mu.Lock()
	}
	n.telling = false
}

// adminReason is AdminDown, with the administrator's words if there are any.
type adminReason string

// adminWords cuts them to the 63 bytes that a peer is told.
func adminWords(why string) error { return adminReason(clean(why, 64)) }

func (r adminReason) Is(target error) bool { return target == AdminDown }

func (r adminReason) Error() string {
	if r == "" {
		return string(AdminDown)
	}
	return string(AdminDown) + ": " + string(r)
}
