package memif

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"quiver/memif/internal/shm"
)

// Listener is a control socket and the interfaces behind it.
type Listener struct {
	config  ListenConfig
	address string
	socket  *net.UnixListener
	file    os.FileInfo // of the socket, to remove the file only if it is still ours
	done    chan struct{}
	arrived chan struct{} // one element if something may be in ready

	handshakes handshakes
	places     chan struct{} // one element for each goroutine of a handshake that has claimed no interface, also of one that was ended
	closers    closers       // what peers have sent
	quota      *quota        // of all clients

	mu         sync.Mutex
	interfaces map[uint32]*served
	ready      []*Conn
	closed     bool
}

type served struct {
	config  ServerConfig
	account shm.Account // what regions of all its connections may have made us pay for
	holding *holding    // what its client has of the quota
	taken   bool
	freed   chan struct{} // closed when it isn't taken any more
	by      *handshake    // who has taken it
	conn    *Conn         // once connected
	closed  error         // why nobody may have it, at present
}

// Listen serves interfaces at address: a path, or "@name" for an abstract socket.
func Listen(address string, config ListenConfig, interfaces ...ServerConfig) (*Listener, error) {
	config.Application, config.FileMode = or(config.Application, "memif"), or(config.FileMode, 0o660)
	config.Timeout, config.MaxHandshakes = or(config.Timeout, 5*time.Second), or(config.MaxHandshakes, 64)
	config.MaxDescriptors, config.MaxMemory = or(config.MaxDescriptors, 8192), or(config.MaxMemory, 256<<30)
	if err := firstError(
		checkAddress(address),
		positive("Timeout", config.Timeout),
		inRange("MaxHandshakes", uint64(config.MaxHandshakes), 1, 1<<16),
		inRange("MaxDescriptors", uint64(config.MaxDescriptors), 1, math.MaxInt32),
	); err != nil {
		return nil, &Error{Op: "listen", Interface: address, Err: err}
	}
	l := &Listener{
		config: config, address: address, done: make(chan struct{}), arrived: make(chan struct{}, 1),
		interfaces: map[uint32]*served{}, handshakes: handshakes{list: map[uint64]*handshake{}},
		places: make(chan struct{}, 2*config.MaxHandshakes),
		quota:  newQuota(config.MaxDescriptors, config.MaxMemory),
	}
	for _, one := range interfaces {
		if err := l.Register(one); err != nil {
			l.quota.leaveAll()
			return nil, err
		}
	}
	socket, err := listenSocket(address, config)
	if err != nil {
		l.quota.leaveAll()
		return nil, &Error{Op: "listen", Interface: address, Err: err}
	}
	l.socket = socket
	// As long as somebody is refused, connections begin without files: none can be left in what is refused then.
	l.closers.keepOut = func(out bool) { l.allowFiles(!out) }
	if !strings.HasPrefix(address, "@") {
		l.file, _ = os.Lstat(address)
	}
	go l.serve()
	return l, nil
}

// Register lets a client connect to one more interface, with nothing on its account of MaxHoles.
func (l *Listener) Register(config ServerConfig) error {
	if l.done == nil {
		return unopened("register", "listener of Listen")
	}
	config, err := config.complete()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interfaces[config.ID] != nil {
		err = Registered
	}
	if err != nil {
		return &Error{Op: "register", Interface: interfaceName(l.address, config.ID), Err: err}
	}
	one := &served{config: config, holding: &holding{}}
	if !l.closed {
		one.holding = l.quota.enter()
	}
	l.interfaces[config.ID] = one
	return nil
}

// Unregister takes an interface away, disconnecting its client.
func (l *Listener) Unregister(id uint32) error {
	l.mu.Lock()
	one := l.interfaces[id]
	delete(l.interfaces, id)
	l.mu.Unlock()
	if one == nil {
		return &Error{Op: "unregister", Interface: interfaceName(l.address, id), Err: NotListening}
	}
	l.quota.leave(one.holding)
	l.disconnect(one, Deleted)
	one.account.Close()
	return nil
}

// disconnect ends the connection that an interface has, or the handshake for one. The interface is closed to others already.
func (l *Listener) disconnect(one *served, reason error) {
	l.mu.Lock()
	conn, by := one.conn, one.by
	l.mu.Unlock()
	if conn != nil {
		conn.end(reason)
	} else if by != nil {
		l.handshakes.end(by, reason)
	}
}

// AdminDown disconnects the client of an interface and turns others away, in these words.
func (l *Listener) AdminDown(id uint32, why string) error {
	return l.setAdmin(id, adminWords(why))
}

// AdminUp lets clients connect again.
func (l *Listener) AdminUp(id uint32) error { return l.setAdmin(id, nil) }

func (l *Listener) setAdmin(id uint32, reason error) error {
	l.mu.Lock()
	one := l.interfaces[id]
	if one != nil {
		one.closed = reason
	}
	l.mu.Unlock()
	if one == nil {
		return &Error{Op: "set", Interface: interfaceName(l.address, id), Err: NotListening}
	}
	if reason != nil {
		l.disconnect(one, reason)
	}
	return nil
}

// Addr is the socket's address.
func (l *Listener) Addr() net.Addr {
	if l.socket == nil {
		return &net.UnixAddr{Net: "unixpacket"}
	}
	return l.socket.Addr()
}

// Accept waits for the next connection of any of the interfaces.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	if l.done == nil {
		return nil, unopened("accept", "listener of Listen")
	}
	if err := checkContext(ctx); err != nil {
		return nil, &Error{Op: "accept", Interface: l.address, Err: err}
	}
	for {
		if conn := l.next(); conn != nil {
			return conn, nil
		}
		select {
		case <-l.arrived:
		case <-l.done:
			return nil, &Error{Op: "accept", Interface: l.address, Err: localReason("server closed")}
		case <-ctx.Done():
			return nil, &Error{Op: "accept", Interface: l.address, Err: ended(ctx)}
		}
	}
}

// next is the oldest connection that nobody took and that is still up.
func (l *Listener) next() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) > 0 {
		conn := l.ready[0]
		l.ready = l.ready[1:]
		if len(l.ready) > 0 {
			l.tell()
		}
		if conn.Err() == nil {
			return conn
		}
	}
	return nil
}

func (l *Listener) tell() {
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

// Close stops listening and ends all connections.
func (l *Listener) Close() error {
	if l.done == nil {
		return unopened("close", "listener of Listen")
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.done)
	var conns []*Conn
	for _, one := range l.interfaces {
		if one.conn != nil {
			conns = append(conns, one.conn)
		}
	}
	l.mu.Unlock()
	l.quota.leaveAll()
	l.handshakes.endAll(localReason("server closed"))
	for _, conn := range conns {
		conn.end(localReason("server closed"))
	}
	if l.file != nil {
		if now, err := os.Lstat(l.address); err == nil && os.SameFile(now, l.file) {
			_ = os.Remove(l.address)
		}
	}
	return l.socket.Close()
}

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
			l.refuse(ctl)
			continue
		}
		_ = ctl.control(func(fd int) { allowFiles(fd, true) })
		if !l.place() {
			ctl.close()
			return
		}
		told = false
		one := &handshake{channel: ctl, peer: peer}
		_ = socket.SetDeadline(time.Now().Add(l.config.Timeout))
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
func (l *Listener) refuse(ctl channel) {
	ctl.farewell(HangingDescriptors)
	ctl.close()
	if l.config.Refused != nil {
		l.config.Refused(nil, HangingDescriptors)
	}
}

// shake goes through one handshake.
func (l *Listener) shake(one *handshake, number uint64) {
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
		l.config.Refused(h.id, err)
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
			ctl.closing.closeFiles(files)
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
		if !one.taken {
			one.taken, one.freed, one.by = true, make(chan struct{}), by
			l.handshakes.claims(by)
			<-l.places // it can't be in the way any more: there is one for each interface
			return one, nil
		}
		// A client that ended and came back is told apart from a second one: its end is there, but may not be dealt with yet.
		patience := handshakeEnd
		if one.conn != nil {
			patience = 0
			if one.conn.Err() != nil || one.conn.channel.readable() {
				patience = l.config.Timeout
			}
		}
		left := time.Until(started.Add(patience))
		if left <= 0 {
			return nil, fmt.Errorf("interface id %d is %w", m.id, AlreadyConnected)
		}
		freed := one.freed
		l.mu.Unlock()
		select {
		case <-freed:
		case <-time.After(left):
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
