package memif

import (
	"errors"
	"fmt"
	"os"
	"time"

	"quiver/memif/internal/shm"
)

// Error is what all calls of this package return.
type Error struct {
	Op        string // what was tried: "dial", "listen", "accept", "read", "write", …
	Interface string // socket and id: "@quiver/app id 0"
	Err       error  // the cause
}

func (e *Error) Error() string {
	what := e.Op
	if e.Interface != "" {
		what += " " + e.Interface
	}
	return "memif: " + what + ": " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Timeout says whether a deadline had passed, as net.Error has it, or StallTimeout.
func (e *Error) Timeout() bool {
	var stalled *PeerStalled
	return errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.As(e.Err, &stalled)
}

// PeerStalled says that a write gave up because the peer took nothing for as long as StallTimeout. The connection is as it was: it can be
// written to again, or closed.
type PeerStalled struct {
	Queue int           // that was written to, from 0 on
	After time.Duration // in which it took nothing
}

func (e *PeerStalled) Error() string {
	return fmt.Sprintf("the peer has taken nothing from queue %d for %v", e.Queue, e.After.Round(time.Millisecond))
}

// PeerError is a disconnection by the peer. Where its code says so, errors.Is finds the cause in it that the peer has: WrongSecret, say, or
// Limit for all that is more than it allows.
type PeerError struct {
	Code uint32 // 0: anything that has no code
	Text string // its words, made harmless to print
}

func (e *PeerError) Error() string {
	return fmt.Sprintf("disconnected by the peer: %s (code %d)", e.Text, e.Code)
}

// Is says whether the code stands for this cause.
func (e *PeerError) Is(target error) bool {
	for _, one := range codes {
		if e.Code == one.code {
			return target == one.causes[0]
		}
	}
	return false
}

// codes are those of DISCONNECT; the first of the causes is what who is told understands.
var codes = []struct {
	code   uint32
	causes []error
}{
	{1, []error{WrongSecret, SecretRequired}},
	{2, []error{NotAllowed}},
	{3, []error{UnknownInterface}},
	{4, []error{ModeMismatch}},
	{5, []error{Version}},
	{6, []error{AlreadyConnected}},
	{7, []error{
		Limit, TooManyHandshakes, HangingDescriptors, HangingRegion, HangingRegions, TooManyRegions, TooMuchMemory, QuotaOfDescriptors, QuotaOfMemory,
		RegionHoles, RegionSize, TooManyRings, RingSize,
	}},
}

// codeOf is what a DISCONNECT for this reason says.
func codeOf(reason error) uint32 {
	for _, one := range codes {
		for _, cause := range one.causes {
			if errors.Is(reason, cause) {
				return one.code
			}
		}
	}
	return 0
}

// Cause is a kind of failure, for errors.Is. The error that wraps it says more.
type Cause string

func (c Cause) Error() string { return string(c) }

// How connections end without anybody's fault.
const (
	Closed     Cause = "closed"
	PeerClosed Cause = "connection closed by the peer"
	Deleted    Cause = "interface deleted"
	AdminDown  Cause = "administratively down"
)

// Why there is no connection.
const (
	Unreachable Cause = "no server"
	// Denied is a socket's file that this process may not connect to.
	Denied       Cause = "permission denied"
	NotConnected Cause = "not connected yet"
	// Limit is more than the peer allows, of rings or memory, say: it says what in its words.
	Limit Cause = "more than the peer allows"
)

// What can be wrong with a setting or a call.
const (
	BadSetting   Cause = "setting out of range"
	InUse        Cause = "another process listens there"
	NotASocket   Cause = "exists and is not a socket"
	NoDirectory  Cause = "no directory for socket"
	Replaced     Cause = "socket file was replaced while it was made"
	Registered   Cause = "interface id is already registered on this socket"
	NotListening Cause = "no interface of this id on this socket"
	HangingFiles Cause = "too many descriptors from peers can't be closed"
	NeverFits    Cause = "packet is empty or longer than can be sent"
	ShortBuffer  Cause = "packet is longer than the buffer to read it into"
)

// What a peer can do wrong on the control channel. The text is what it is told.
const (
	HandshakeTimeout  Cause = "handshake timed out"
	TooManyHandshakes Cause = "too many connections"
	// HangingDescriptors says that too much of what the peer has sent isn't closed yet.
	HangingDescriptors Cause = "descriptors sent before are not closed yet"
	// HangingRegion says that the region of the interface's client before isn't mapped yet: somebody holds its file.
	HangingRegion Cause = "the region sent before is not mapped yet: its file is held"
	// HangingRegions says that too many regions of the peer's wait for their files, which somebody holds.
	HangingRegions     Cause = "files of regions announced before are held: end whoever writes to them"
	MessageSize        Cause = "message has not 128 bytes"
	UnknownMessage     Cause = "unknown message type"
	UnexpectedMessage  Cause = "unexpected message"
	FileDescriptors    Cause = "wrong number of file descriptors"
	AncillaryData      Cause = "too much ancillary data"
	Version            Cause = "unsupported version"
	UnknownInterface   Cause = "unmatched interface id"
	AlreadyConnected   Cause = "already connected"
	NotAllowed         Cause = "not allowed to connect"
	ModeMismatch       Cause = "mode mismatch"
	SecretRequired     Cause = "secret required"
	WrongSecret        Cause = "incorrect secret"
	RegionIndex        Cause = "unexpected region index"
	TooManyRegions     Cause = "too many regions"
	QuotaOfDescriptors Cause = "regions and rings of all of the socket's clients"
	QuotaOfMemory      Cause = "regions of all of the socket's clients"
	TooMuchMemory      Cause = "too much memory"
	RingIndex          Cause = "unexpected ring index"
	TooManyRings       Cause = "too many rings"
	RingSize           Cause = "ring size not allowed"
	RingFlags          Cause = "unknown ring flags"
	PrivateHeader      Cause = "private headers not supported"
	NoRings            Cause = "no rings"
)

// What can be wrong with memory that a peer sends.
var (
	RegionSize      = shm.ErrSize
	NotMemory       = shm.ErrNotMemory
	Unsealed        = shm.ErrUnsealed
	Unwritable      = shm.ErrUnwritable
	Unsealable      = shm.ErrUnsealable
	RegionTruncated = shm.ErrTruncated
	RegionHoles     = shm.ErrHoles
	RingOutside     = shm.ErrOutside
	RingMisaligned  = shm.ErrMisaligned
	WrongCookie     = shm.ErrCookie
	NotAnEventfd    = shm.ErrNotEvent
)

// What a peer can do wrong in shared memory. The connection is closed with this as the reason.
const (
	IndexFault   Cause = "ring index is impossible"
	RangeFault   Cause = "descriptor points outside of the regions"
	EmptyPacket  Cause = "empty packet"
	TooLong      Cause = "packet is longer than allowed"
	EndlessChain Cause = "chain without end"
	TooManyParts Cause = "packet in too many buffers"
	NoCapacity   Cause = "buffer without room posted"
)

// MemoryLost says that the peer took pages of a region away.
var MemoryLost = shm.ErrLost

// detail is a cause with its particulars.
func detail(cause error, format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", cause, fmt.Sprintf(format, arguments...))
}
