package memif

import "fmt"

// LinkKind is what happened to a link. The libraries for Rust and C tell the same six, C with the same numbers.
type LinkKind int

const (
	LinkUp           LinkKind = 1 // packets can flow
	LinkDown         LinkKind = 2 // no more; the port connects, or takes a new client, by itself
	LinkRefused      LinkKind = 3 // an attempt failed: the peer, or we, turned the other away
	LinkUnreachable  LinkKind = 4 // there is no server
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
		return fmt.Sprint("no server: ", e.Reason)
	case LinkNotAccepting:
		return fmt.Sprint("can't accept a client: ", e.Reason)
	}
	return fmt.Sprint("event ", int(e.Kind))
}

// adminReason is AdminDown, with the administrator's words if there are any.
type adminReason string

func (r adminReason) Is(target error) bool { return target == AdminDown }

func (r adminReason) Error() string {
	if r == "" {
		return string(AdminDown)
	}
	return string(AdminDown) + ": " + string(r)
}
