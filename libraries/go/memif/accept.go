package memif

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"quiver/memif/internal/shm"
)

// serve accepts connections until the listener is closed.
func (l *Listener) serve() {
	told := false
	tell := func(reason error) {
		if !told && l.config.NotAccepting != nil {
			l.config.NotAccepting(reason)
		}
		told = true
	}
	for {
		var socket *net.UnixConn
		var err error = HangingFiles
		if !l.closers.full() {
			socket, err = l.socket.AcceptUnix()
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say: others may be given back
			tell(err)
			select {
			case <-l.done:
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		ctl := channel{socket: socket}
		peer := ctl.credentials()
		ctl.closing = closing{&l.closers, originOf(ctl, peer)}
		if ctl.closing.beyondShare() {
			l.refuse(ctl, peer)
			continue
		}
		_ = ctl.control(func(fd int) { allowFiles(fd, true) })
		if !l.place() {
			ctl.close()
			return
		}
		told = false
		one := l.begin(ctl, peer)
		number := l.handshakes.admit(one, l.config.MaxHandshakes)
		select {
		case <-l.done: // by now; all others were ended then
			l.handshakes.endAll(localReason("server closed"))
		default:
		}
		go l.shake(one, number)
	}
}

// place waits until there may be one more goroutine with a handshake that hasn't claimed an interface; false once the listener is closed.
func (l *Listener) place() bool {
	select {
	case l.places <- struct{}{}:
		return true
	case <-l.done:
		return false
	}
}

func (l *Listener) allowFiles(whether bool) {
	if raw, err := l.socket.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { allowFiles(int(fd), whether) })
	}
}

// refuse turns a peer away that has said nothing yet.
func (l *Listener) refuse(ctl channel, peer *Credentials) {
	ctl.farewell(HangingDescriptors)
	ctl.close()
	if l.config.Refused != nil {
		l.config.Refused(Refusal{nil, peer, HangingDescriptors})
	}
}

// begin has the time of a handshake run.
func (l *Listener) begin(ctl channel, peer *Credentials) *handshake {
	deadline := time.Now().Add(l.config.Timeout)
	_ = ctl.socket.SetDeadline(deadline)
	whole, cancel := context.WithCancelCause(context.Background())
	ctx, stop := context.WithDeadlineCause(whole, deadline, HandshakeTimeout)
	return &handshake{channel: ctl, peer: peer, ctx: ctx, cancel: func(why error) { cancel(why); stop() }}
}

// shake goes through one handshake.
func (l *Listener) shake(one *handshake, number uint64) {
	defer one.cancel(nil)
	defer func() {
		if !one.claimed {
			<-l.places
		}
	}()
	var mine *served
	part := &share{of: l.quota}
	h := &serverHandshake{share: part, claim: func(m *message) (_ *ServerConfig, _ *shm.Account, err error) {
		mine, err = l.claim(m, one)
		if err != nil {
			return nil, nil, err
		}
		part.by = mine.holding
		return &mine.config, &mine.account, nil
	}}
	h.apart = func(what, afterwards func()) (bool, error) {
		l.isMapping(mine, true)
		done := func() { l.isMapping(mine, false) }
		begun, err := mappings.do(one.ctx, one.channel.closing.origin, what, func() { afterwards(); done() })
		if !begun || err == nil {
			done()
		}
		return begun, err
	}
	conn, err := l.converse(one, h, func() { l.release(mine) })
	if ended := l.handshakes.settle(number, one); ended != nil {
		err = ended
	}
	if err == nil {
		err = conn.prepare() // before anybody has it
	}
	l.mu.Lock()
	if err == nil {
		switch {
		case l.closed || l.interfaces[h.config.ID] != mine:
			err = Deleted
		case mine.closed != nil:
			err = mine.closed
		default:
			mine.conn = conn
			// Those that have ended meanwhile go: what is left is one for each interface.
			l.ready = append(slices.DeleteFunc(l.ready, func(one *Conn) bool { return one.Err() != nil }), conn)
			l.tell()
		}
	}
	l.mu.Unlock()
	if err == nil {
		// Only now: a connection that ends gives its interface back.
		go conn.listen()
		return
	}
	if l.config.Refused != nil {
		l.config.Refused(Refusal{h.id, one.peer, err})
	}
	if conn != nil {
		conn.end(err)
		return
	}
	one.channel.farewell(err)
	one.channel.close()
	if n := h.descriptors(); n > 0 {
		one.channel.closing.close(n, h.close)
	} else {
		h.close()
	}
	if mine != nil {
		l.release(mine)
	}
}

func (l *Listener) converse(one *handshake, h *serverHandshake, ended func()) (*Conn, error) {
	ctl := one.channel
	if err := ctl.send(l.limits().hello(l.config.Application), nil); err != nil {
		return nil, err
	}
	for {
		m, files, err := ctl.receive(h.takesFiles())
		if err != nil {
			return nil, err
		}
		answer, err := h.receive(m, files)
		if err != nil {
			if !h.abandoned {
				ctl.closing.closeFiles(files)
			}
			return nil, err
		}
		if !h.connected {
			if err := ctl.send(answer, nil); err != nil {
				return nil, err
			}
			continue
		}
		h.peer.Peer = one.peer
		conn, err := open(h.peer, l.address, ctl, h.table, h.rx, h.tx, uint32(h.config.MaxPacket), h.config.StallTimeout)
		// The connection's now, also of one that failed: its regions may not be unmapped yet, and have their share until they are.
		part := h.share
		h.rx, h.tx, h.table, h.share = nil, nil, nil, nil
		if err != nil {
			return nil, err
		}
		conn.onEnd, conn.share = ended, part
		return conn, ctl.send(answer, nil)
	}
}

// limits are the least that allow everything the interfaces do.
func (l *Listener) limits() limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := limits{1, 1, 1, 64}
	for _, one := range l.interfaces {
		all.regions, all.rxQueues = max(all.regions, one.config.MaxRegions), max(all.rxQueues, one.config.MaxRxQueues)
		all.txQueues, all.ringSize = max(all.txQueues, one.config.MaxTxQueues), max(all.ringSize, one.config.MaxRingSize)
	}
	return all
}

// handshakeEnd is how long a client waits whose interface another handshake has, which may be about to end: nothing tells.
const handshakeEnd = 50 * time.Millisecond

func (l *Listener) claim(m *message, by *handshake) (*served, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for started := time.Now(); ; {
		if by.ctx.Err() != nil {
			return nil, context.Cause(by.ctx)
		}
		one := l.interfaces[m.id]
		if one == nil {
			return nil, fmt.Errorf("%w %d", UnknownInterface, m.id)
		}
		// First who it is: a stranger learns nothing of mode and secret.
		if err := one.config.admitPeer(by.peer, by.channel); err != nil {
			return nil, err
		}
		if err := one.config.admit(m); err != nil {
			return nil, err
		}
		if one.closed != nil {
			return nil, one.closed
		}
		if !one.taken && one.mapping {
			return nil, HangingRegion
		}
		if !one.taken {
			one.taken, one.freed, one.by = true, make(chan struct{}), by
			l.handshakes.claims(by)
			<-l.places // it can't be in the way any more: there is one for each interface
			return one, nil
		}
		// A client that ended and came back is told apart from a second one: its end is there, but may not be dealt with yet.
		ends, patience := false, time.Duration(0)
		if one.conn != nil {
			ends = one.conn.Err() != nil || one.conn.channel.readable()
		} else {
			ends, patience = one.by.channel.hungUp(), handshakeEnd // it may be about to
		}
		var enough <-chan time.Time // never, where it ends: the handshake's own time is
		if !ends {
			left := time.Until(started.Add(patience))
			if left <= 0 {
				return nil, fmt.Errorf("interface id %d is %w", m.id, AlreadyConnected)
			}
			enough = time.After(left)
		}
		freed := one.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-enough:
		case <-by.ctx.Done():
		}
		l.mu.Lock()
	}
}

func (l *Listener) release(one *served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.taken, one.by, one.conn = false, nil, nil
	close(one.freed)
}

// isMapping says whether a region of an interface's client is being mapped. Also while its file is held, and the client has gone: no other
// comes before it is let go, so that no more than one hangs for each interface.
func (l *Listener) isMapping(one *served, whether bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.mapping = whether
}
