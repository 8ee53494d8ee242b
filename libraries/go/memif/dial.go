package memif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to interface config.ID of the server at address: a path, or "@name" for an abstract socket. It tries once; a
// [Port] keeps trying.
func Dial(ctx context.Context, address string, config ClientConfig) (*Conn, error) {
	conn, err := dial(ctx, address, config)
	if err != nil {
		return nil, &Error{Op: "dial", Interface: interfaceName(address, config.ID), Err: err}
	}
	return conn, nil
}

func dial(ctx context.Context, address string, config ClientConfig) (*Conn, error) {
	config, err := config.complete()
	if err := cmp.Or(err, checkAddress(address), checkContext(ctx), ended(ctx)); err != nil {
		return nil, err
	}
	whole := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, config.Timeout, HandshakeTimeout)
	defer cancel()
	server := serverAt(address, config.Netns)
	if (closing{&servers, server}).beyondShare() {
		return nil, fmt.Errorf("%w: %w", Unreachable, HangingFiles)
	}
	if mappings.crowded(server) {
		return nil, HangingRegions
	}
	ctl, err := dialChannel(ctx, address, config.Netns)
	if errors.Is(err, context.DeadlineExceeded) { // the socket's, which is ctx's: whose it is, that says
		<-ctx.Done()
	}
	switch {
	case err == nil:
	case whole.Err() != nil:
		return nil, ended(whole)
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, BadSetting):
		return nil, err
	case errors.Is(err, unix.EACCES) && !strings.HasPrefix(address, "@"): // an abstract one has no file
		return nil, detail(Denied, "the mode, owner and group of %s must let us write to it, its directories let us pass", address)
	default:
		return nil, fmt.Errorf("%w: %w", Unreachable, err)
	}
	// A deadline that has passed ends whatever waits.
	stop := context.AfterFunc(ctx, func() { _ = ctl.socket.SetDeadline(time.Unix(1, 0)) })
	h := &clientHandshake{channel: ctl, config: config}
	h.apart = func(what, afterwards func()) (bool, error) { return mappings.do(ctx, server, what, afterwards) }
	err = h.run()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return h.connection(address)
	}
	if why := ended(whole); why != nil {
		err = why
	} else if ctx.Err() != nil && !errors.Is(err, HandshakeTimeout) {
		err = context.Cause(ctx)
	}
	if h.memory != nil {
		h.memory.close()
	}
	ctl.farewell(err)
	ctl.close()
	return nil, err
}

// checkContext refuses one that is none.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return detail(BadSetting, "no context")
	}
	return nil
}

// ended is why a context has ended, if it has: what errors.Is finds is its own error and, if it was given another, that as well.
func ended(ctx context.Context) error {
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// clientHandshake is the client's side of the control channel: it sends one message and waits for its ACK before the next.
type clientHandshake struct {
	channel channel
	config  ClientConfig
	apart   func(what, afterwards func()) (begun bool, err error) // as that of a serverHandshake
	memory  *clientMemory                                         // nil also where it is left to others
	server  string                                                // what it calls itself
	peer    string                                                // what it calls the interface
}

func (h *clientHandshake) run() error {
	hello, err := h.hear(msgHello)
	if err != nil {
		return err
	}
	if err := h.setUp(hello); err != nil {
		return err
	}
	init := &message{kind: msgInit, version: version, id: h.config.ID, mode: uint8(h.config.Mode), name: h.config.Application}
	copy(init.secret[:], h.config.Secret)
	if err := h.say(init, nil); err != nil {
		return err
	}
	region := &message{kind: msgAddRegion, size: h.memory.region.Size()}
	if err := h.say(region, h.memory.region.File()); err != nil {
		return err
	}
	l := h.memory.layout
	for i, e := range h.memory.ends {
		ring := &message{kind: msgAddRing, index: uint16(i), offset: uint32(l.ring(i)), log2: l.log2}
		if i < l.txRings {
			ring.flags = ringToServer
		} else {
			ring.index = uint16(i - l.txRings)
		}
		if err := h.say(ring, e.event.File()); err != nil {
			return err
		}
	}
	if err := h.channel.send(&message{kind: msgConnect, name: h.config.Name}, nil); err != nil {
		return err
	}
	connected, err := h.hear(msgConnected)
	if err != nil {
		return err
	}
	h.peer = connected.name
	return h.keepPages()
}

// keepPages seals our memory, which the server has mapped. One that has taken care that we can't keep it from freeing pages, or that we wait
// for it, isn't one to talk to.
func (h *clientHandshake) keepPages() error {
	memory, failed := h.memory, error(nil)
	keep := func() { failed = memory.region.KeepPages() }
	if h.apart == nil {
		keep()
		return failed
	}
	begun, err := h.apart(keep, memory.close)
	switch {
	case err != nil && begun:
		h.memory = nil
		return held(err, 0)
	case err != nil:
		return err
	}
	return failed
}

// setUp makes the memory, as large as both sides want.
func (h *clientHandshake) setUp(hello *message) error {
	if version < hello.minVersion || version > hello.maxVersion {
		return detail(Version, "the server speaks %#x to %#x", hello.minVersion, hello.maxVersion)
	}
	if hello.maxLog2 < log2(64) {
		return detail(RingSize, "the server takes 2^%d at most", hello.maxLog2)
	}
	h.server = hello.name
	l := layout{
		txRings:    min(h.config.TxQueues, int(hello.maxRingToServer)+1),
		rxRings:    min(h.config.RxQueues, int(hello.maxRingToClient)+1),
		log2:       min(log2(h.config.RingSize), hello.maxLog2),
		bufferSize: uint32(h.config.BufferSize),
	}
	memory, err := newClientMemory(h.config.Name, l, h.config.HugePages)
	h.memory = memory
	return err
}

func (h *clientHandshake) say(m *message, file *os.File) error {
	if err := h.channel.send(m, file); err != nil {
		return err
	}
	_, err := h.hear(msgAck)
	return err
}

// hear waits for the one message that is legal now, besides DISCONNECT.
func (h *clientHandshake) hear(wanted messageType) (*message, error) {
	m, _, err := h.channel.receive(false)
	switch {
	case err != nil:
		return nil, err
	case m.kind == msgDisconnect:
		return nil, &PeerError{m.code, m.reason}
	case m.kind != wanted:
		return nil, detail(UnexpectedMessage, "%s while waiting for %s", m.kind, wanted)
	}
	return m, nil
}

func (h *clientHandshake) connection(address string) (*Conn, error) {
	info := Info{Client, h.config.ID, h.config.Mode, h.server, h.peer, h.channel.credentials()}
	tx := h.memory.layout.txRings
	rxEnds, txEnds := h.memory.ends[tx:], h.memory.ends[:tx]
	conn, err := open(info, address, h.channel, h.memory.table, rxEnds, txEnds, uint32(h.config.MaxPacket), h.config.StallTimeout)
	if err != nil {
		return nil, err
	}
	if err := conn.prepare(); err != nil {
		conn.end(err)
		return nil, err
	}
	go conn.listen()
	return conn, nil
}
