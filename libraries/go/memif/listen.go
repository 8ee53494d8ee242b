package memif

import (
	"context"
	"math"
	"net"
	"os"
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
	mapping bool          // a region of its client, which may have gone meanwhile
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
