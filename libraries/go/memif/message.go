package memif

import (
	"crypto/subtle"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	messageSize = 128
	version     = 0x0200
	secretSize  = 24
	nameSize    = 32
	reasonSize  = 96
)

type messageType uint16

const (
	msgAck messageType = iota + 1
	msgHello
	msgInit
	msgAddRegion
	msgAddRing
	msgConnect
	msgConnected
	msgDisconnect
)

func (t messageType) String() string {
	names := [...]string{"ACK", "HELLO", "INIT", "ADD_REGION", "ADD_RING", "CONNECT", "CONNECTED", "DISCONNECT"}
	if t < msgAck || int(t) > len(names) {
		return "NONE"
	}
	return names[t-1]
}

// ringToServer is the flag of ADD_RING: from client to server.
const ringToServer = 1

// message is one of the control channel: 128 bytes, little-endian, the type at 0, fields from 2. Those of other types are zero.
type message struct {
	kind messageType

	name                   string // HELLO, INIT: application; CONNECT, CONNECTED: interface
	minVersion, maxVersion uint16 // HELLO
	// Highest indices in HELLO: one less than counts.
	maxRegion, maxRingToClient, maxRingToServer uint16
	maxLog2                                     uint8

	version uint16 // INIT
	id      uint32
	mode    uint8
	secret  [secretSize]byte

	index uint16 // ADD_REGION, ADD_RING
	size  uint64 // ADD_REGION

	flags         uint16 // ADD_RING
	region        uint16
	offset        uint32
	log2          uint8
	privateHeader uint16

	code   uint32 // DISCONNECT
	reason string
}

func (m *message) encode() []byte {
	b := make([]byte, messageSize)
	le := binary.LittleEndian
	le.PutUint16(b, uint16(m.kind))
	switch m.kind {
	case msgHello:
		putText(b[2:34], m.name)
		le.PutUint16(b[34:], m.minVersion)
		le.PutUint16(b[36:], m.maxVersion)
		le.PutUint16(b[38:], m.maxRegion)
		le.PutUint16(b[40:], m.maxRingToClient)
		le.PutUint16(b[42:], m.maxRingToServer)
		b[44] = m.maxLog2
	case msgInit:
		le.PutUint16(b[2:], m.version)
		le.PutUint32(b[4:], m.id)
		b[8] = m.mode
		copy(b[9:33], m.secret[:])
		putText(b[33:65], m.name)
	case msgAddRegion:
		le.PutUint16(b[2:], m.index)
		le.PutUint64(b[4:], m.size)
	case msgAddRing:
		le.PutUint16(b[2:], m.flags)
		le.PutUint16(b[4:], m.index)
		le.PutUint16(b[6:], m.region)
		le.PutUint32(b[8:], m.offset)
		b[12] = m.log2
		le.PutUint16(b[13:], m.privateHeader)
	case msgConnect, msgConnected:
		putText(b[2:34], m.name)
	case msgDisconnect:
		le.PutUint32(b[2:], m.code)
		putText(b[6:102], m.reason)
	}
	return b
}

func decode(b []byte) (*message, error) {
	if len(b) != messageSize {
		return nil, detail(MessageSize, "%d bytes", len(b))
	}
	le := binary.LittleEndian
	m := &message{kind: messageType(le.Uint16(b))}
	switch m.kind {
	case msgAck:
	case msgHello:
		m.name = readText(b[2:34])
		m.minVersion, m.maxVersion, m.maxRegion = le.Uint16(b[34:]), le.Uint16(b[36:]), le.Uint16(b[38:])
		m.maxRingToClient, m.maxRingToServer, m.maxLog2 = le.Uint16(b[40:]), le.Uint16(b[42:]), b[44]
	case msgInit:
		m.version, m.id, m.mode, m.name = le.Uint16(b[2:]), le.Uint32(b[4:]), b[8], readText(b[33:65])
		m.secret = readSecret(b[9:33])
	case msgAddRegion:
		m.index, m.size = le.Uint16(b[2:]), le.Uint64(b[4:])
	case msgAddRing:
		m.flags, m.index, m.region = le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:])
		m.offset, m.log2, m.privateHeader = le.Uint32(b[8:]), b[12], le.Uint16(b[13:])
	case msgConnect, msgConnected:
		m.name = readText(b[2:34])
	case msgDisconnect:
		m.code, m.reason = le.Uint32(b[2:]), readText(b[6:102])
	default:
		return nil, detail(UnknownMessage, "%#x", uint16(m.kind))
	}
	return m, nil
}

// takesFile says whether a file descriptor comes along.
func (m *message) takesFile() bool { return m.kind == msgAddRegion || m.kind == msgAddRing }

// invisible has what is no control character but changes how the text around it is shown (direction, joining, line ends) or isn't seen
// at all: the soft hyphen, U+061C, U+180E, zero-width and directional marks, separators, joiners, embeddings and isolates, the byte order mark,
// interlinear annotation and tags. The same in all of Quiver's memif libraries.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, {Lo: 0x061c, Hi: 0x061c, Stride: 1}, {Lo: 0x180e, Hi: 0x180e, Stride: 1},
		{Lo: 0x200b, Hi: 0x200f, Stride: 1}, {Lo: 0x2028, Hi: 0x202e, Stride: 1}, {Lo: 0x2060, Hi: 0x206f, Stride: 1},
		{Lo: 0xfeff, Hi: 0xfeff, Stride: 1}, {Lo: 0xfff9, Hi: 0xfffb, Stride: 1},
	},
	R32:         []unicode.Range32{{Lo: 0xe0000, Hi: 0xe007f, Stride: 1}},
	LatinOffset: 1,
}

// clean cuts text to what fits before a NUL, and replaces what could confuse a terminal or a log.
func clean(text string, size int) string {
	var cut strings.Builder
	for _, c := range text {
		if unicode.IsControl(c) || unicode.Is(invisible, c) {
			c = utf8.RuneError
		}
		if cut.Len()+utf8.RuneLen(c) >= size {
			break
		}
		cut.WriteRune(c)
	}
	return cut.String()
}

func putText(field []byte, text string) { copy(field, clean(text, len(field))) }

func readText(field []byte) string {
	text, _, _ := strings.Cut(string(field), "\x00")
	return clean(text, len(field))
}

// readSecret reads a C string: what follows a NUL doesn't count.
func readSecret(field []byte) (secret [secretSize]byte) {
	text, _, _ := strings.Cut(string(field), "\x00")
	copy(secret[:], text)
	return secret
}

func checkSecret(secret string) error {
	if len(secret) > secretSize || strings.ContainsRune(secret, 0) {
		return detail(BadSetting, "a secret has up to %d bytes and no NUL", secretSize)
	}
	return nil
}

// sameSecret takes the same time wherever a guess is wrong.
func sameSecret(ours, theirs [secretSize]byte) bool {
	return subtle.ConstantTimeCompare(ours[:], theirs[:]) == 1
}
