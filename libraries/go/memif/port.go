package memif

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Waits of a client between attempts: doubled with each that fails.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// Port is one interface that connects again by itself, client or server: read and write as if the link never went down.
type Port struct {
	name   string
	link   func(up bool, reason error)
	open   func(context.Context) (*Conn, error)
	close  func() error
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	conn   *Conn
	change chan struct{} // closed and replaced when conn changes
}

// OpenClient is a client that connects to a server, whenever there is one. link, if not nil, is told when the link comes up (with a nil
// reason) and goes down, and why an attempt failed, if that is news. It must not block.
func OpenClient(address string, config ClientConfig, link func(up bool, reason error)) (*Port, error) {
	if _, err := config.complete(); err != nil {
		return nil, &Error{Op: "open", Interface: interfaceName(address, config.ID), Err: err}
	}
	open := func(ctx context.Context) (*Conn, error) { return Dial(ctx, address, config) }
	return newPort(interfaceName(address, config.ID), link, open, func() error { return nil }), nil
}

// OpenServer is a server of one interface, which takes a new client when one has gone. link as for [OpenClient].
func OpenServer(address string, listen ListenConfig, config ServerConfig, link func(up bool, reason error)) (*Port, error) {
	listener, err := Listen(address, listen, config)
	if err != nil {
		return nil, err
	}
	return newPort(interfaceName(address, config.ID), link, listener.Accept, listener.Close), nil
}

func newPort(
	name string, link func(bool, error), open func(context.Context) (*Conn, error), closing func() error,
) *Port {
	if link == nil {
		link = func(bool, error) {}
	}
	p := &Port{name: name, link: link, open: open, close: closing, change: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.keep()
	return p
}

// keep brings the link up again and again.
func (p *Port) keep() {
	backoff, told := minBackoff, ""
	for p.ctx.Err() == nil {
		conn, err := p.open(p.ctx)
		if err != nil {
			if p.ctx.Err() == nil && err.Error() != told {
				told = err.Error()
				p.link(false, err)
			}
			select {
			case <-p.ctx.Done():
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		backoff, told = minBackoff, ""
		p.set(conn)
		p.link(true, nil)
		select {
		case <-conn.Done():
		case <-p.ctx.Done():
			_ = conn.Close()
		}
		p.set(nil)
		p.link(false, conn.Err())
	}
}

func (p *Port) set(conn *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
	close(p.change)
	p.change = make(chan struct{})
}

// Conn waits until the link is up and gives the connection.
func (p *Port) Conn(ctx context.Context) (*Conn, error) {
	for {
		p.mu.Lock()
		conn, change := p.conn, p.change
		p.mu.Unlock()
		if conn != nil && conn.Err() == nil {
			return conn, nil
		}
		select {
		case <-change:
		case <-p.ctx.Done():
			return nil, &Error{Op: "use", Interface: p.name, Err: net.ErrClosed}
		case <-ctx.Done():
			return nil, &Error{Op: "use", Interface: p.name, Err: ctx.Err()}
		}
	}
}

// ReadBatch waits until there are packets and receives them into batch, over as many connections as it takes; gives how many.
func (p *Port) ReadBatch(ctx context.Context, batch *Batch) (int, error) {
	for {
		conn, err := p.Conn(ctx)
		if err != nil {
			return 0, err
		}
		n, err := conn.ReadBatchContext(ctx, batch)
		if err == nil || ctx.Err() != nil {
			return n, err
		}
	}
}

// WriteBatch sends packets on the first queue, as far as there is room; gives how many. None while the link is down.
func (p *Port) WriteBatch(packets [][]byte) (int, error) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return 0, nil
	}
	n, err := conn.TryWriteBatch(packets)
	if errors.Is(err, NeverFits) {
		return n, err
	}
	return n, nil // keep tells why the link went down
}

// Close ends the connection, and connects no more.
func (p *Port) Close() error {
	p.cancel()
	return p.close()
}
