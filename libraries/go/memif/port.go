package memif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Waits of a client between attempts: doubled with each that fails, or whose link doesn't hold for the longest of them.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// closeTime bounds how long Close waits for an attempt to connect that is under way.
const closeTime = time.Second

// Port is one interface that connects again by itself, client or server: read and write as if the link never went down.
type Port struct {
	name     string
	news     news
	listener *Listener // of a server
	id       uint32
	open     func(context.Context) (*Conn, error)
	ctx      context.Context
	cancel   context.CancelFunc

	mu     sync.Mutex
	conn   *Conn
	why    error              // the link isn't up, as far as that is known
	trying chan struct{}      // closed when the attempt that is under way has ended; nil if none is
	admin  error              // why the link is to stay down, if it is
	period context.Context    // as long as the link may be up
	finish context.CancelFunc // ends it
	change chan struct{}      // closed and replaced when conn or period changes
}

// OpenClient is a client that connects to a server, whenever there is one. link, if not nil, is told what happens to the link, one event at a
// time: each refusal, and that there is no server, or none that may be connected to, where it is news. It must not block: while it is told one event up to 64 wait, the oldest of more are forgotten.
func OpenClient(address string, config ClientConfig, link func(LinkEvent)) (*Port, error) {
	name := interfaceName(address, config.ID)
	_, err := config.complete()
	if err := cmp.Or(err, checkAddress(address)); err != nil {
		return nil, &Error{Op: "open", Interface: name, Err: err}
	}
	p := newPort(name, link)
	p.open = func(ctx context.Context) (*Conn, error) { return Dial(ctx, address, config) }
	go p.keep()
	return p, nil
}

// OpenServer is a server of one interface, which takes a new client when one has gone. link as for [OpenClient].
func OpenServer(address string, listen ListenConfig, config ServerConfig, link func(LinkEvent)) (*Port, error) {
	p := newPort(interfaceName(address, config.ID), link)
	refused, notAccepting := listen.Refused, listen.NotAccepting
	listen.Refused = func(who Refusal) {
		p.failed(LinkEvent{LinkRefused, &Error{Op: "accept", Interface: p.name, Err: who.Reason}})
		if refused != nil {
			refused(who)
		}
	}
	listen.NotAccepting = func(reason error) {
		p.failed(LinkEvent{LinkNotAccepting, &Error{Op: "accept", Interface: p.name, Err: reason}})
		if notAccepting != nil {
			notAccepting(reason)
		}
	}
	listener, err := Listen(address, listen, config)
	if err != nil {
		p.cancel()
		// There is one interface that it can be about.
		if e := new(Error); errors.As(err, &e) {
			e.Interface = p.name
		}
		return nil, err
	}
	p.listener, p.id, p.open = listener, config.ID, listener.Accept
	go p.keep()
	return p, nil
}

func newPort(name string, link func(LinkEvent)) *Port {
	if link == nil {
		link = func(LinkEvent) {}
	}
	p := &Port{name: name, news: news{link: link}, change: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.period, p.finish = context.WithCancel(p.ctx)
	return p
}

// keep brings the link up again and again.
func (p *Port) keep() {
	backoff, told := minBackoff, ""
	for p.ctx.Err() == nil {
		p.mu.Lock()
		period, change := p.period, p.change
		if period.Err() == nil {
			p.trying = make(chan struct{})
		}
		trying := p.trying
		p.mu.Unlock()
		if trying == nil {
			select {
			case <-change:
			case <-p.ctx.Done():
			}
			backoff, told = minBackoff, ""
			continue
		}
		conn, err := p.open(period)
		over := err != nil && period.Err() != nil // by us: says nothing about the peer
		if over {
			p.set(nil, nil)
		} else {
			p.set(conn, err)
		}
		close(trying)
		if err != nil {
			kind := failure(err)
			switch {
			case over:
			case kind == LinkRefused: // each costs the peer something, and us
				told = ""
				p.news.tell(LinkEvent{kind, err})
			case err.Error() != told:
				told = err.Error()
				p.news.tell(LinkEvent{kind, err})
			}
			select {
			case <-period.Done():
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, maxBackoff)
			continue
		}
		told = ""
		since := time.Now()
		p.news.tell(LinkEvent{Kind: LinkUp})
		select {
		case <-conn.Done():
		case <-period.Done():
			conn.end(p.whyDown())
		}
		p.set(nil, conn.Err())
		if !errors.Is(conn.Err(), AdminDown) {
			p.news.tell(LinkEvent{LinkDown, conn.Err()})
		}
		if p.listener != nil {
			continue // who comes next waits itself
		}
		// Only a link that has held shows that things are well: a server that ends each at once would have us make new memory all the time.
		if time.Since(since) >= maxBackoff {
			backoff = minBackoff
		}
		select {
		case <-period.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// failure is the kind of an attempt that failed.
func failure(err error) LinkKind {
	if errors.Is(err, Unreachable) || errors.Is(err, Denied) {
		return LinkUnreachable
	}
	return LinkRefused
}

func (p *Port) whyDown() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admin != nil {
		return p.admin
	}
	if p.listener != nil {
		return localReason("server closed")
	}
	return localReason("client closed")
}

// set has it be the connection from now on, nil for none, and why there is none; also where an attempt has ended with that.
func (p *Port) set(conn *Conn, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn, p.why, p.trying = conn, why, nil
	p.changed()
}

// failed tells of a client that isn't served: why the link isn't up, unless it is.
func (p *Port) failed(event LinkEvent) {
	p.mu.Lock()
	if p.conn == nil {
		p.why = event.Reason
	}
	p.mu.Unlock()
	p.news.tell(event)
}

// Err is why the link isn't up, at any time; nil while it is. It is what was met last: that there is no server, how it refuses us, or we a
// client, why the last connection ended, the administrator's words. NotConnected as long as nothing of it has happened; Closed after Close.
func (p *Port) Err() error {
	if p.ctx == nil {
		return unopened("use", "port of OpenClient or OpenServer")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ctx.Err() != nil:
		return p.closed("use")
	case p.admin != nil:
		return p.wrap("use", p.admin)
	case p.conn != nil:
		return p.conn.Err()
	case p.why != nil:
		return p.why
	}
	return p.wrap("use", NotConnected)
}

// waited is why a call gave up waiting for the link: by its context, and what is known of the link.
func (p *Port) waited(ctx context.Context) error {
	err, why := ended(ctx), p.Err()
	if own := new(Error); errors.As(why, &own) {
		why = own.Err // the interface is named already
	}
	switch {
	case why == nil:
		return p.wrap("use", err)
	case errors.Is(why, Closed): // a connection's end: the port goes on
		return p.wrap("use", fmt.Errorf("%w: the link isn't up: %v", err, why))
	}
	return p.wrap("use", fmt.Errorf("%w: the link isn't up: %w", err, why))
}

// changed wakes who waits for a change. The lock is held.
func (p *Port) changed() {
	close(p.change)
	p.change = make(chan struct{})
}

// AdminDown takes the link down, telling the peer why in these words (up to 63 bytes), and keeps it down: a client doesn't connect, a
// server turns clients away. Told as LinkAdminDown.
func (p *Port) AdminDown(why string) {
	if p.ctx == nil {
		return
	}
	reason := adminWords(why)
	p.mu.Lock()
	p.admin = reason
	p.finish()
	p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.AdminDown(p.id, why)
	}
	p.news.tell(LinkEvent{LinkAdminDown, &Error{Op: "use", Interface: p.name, Err: reason}})
}

// AdminUp lets the link come up again.
func (p *Port) AdminUp() {
	if p.ctx == nil {
		return
	}
	if p.listener != nil {
		_ = p.listener.AdminUp(p.id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.admin != nil {
		p.admin, p.why = nil, nil
		p.period, p.finish = context.WithCancel(p.ctx)
		p.changed()
	}
}

// Conn waits until the link is up and gives the connection. Where ctx ends first, the error wraps that, and why the link isn't up.
func (p *Port) Conn(ctx context.Context) (*Conn, error) {
	if p.ctx == nil {
		return nil, unopened("use", "port of OpenClient or OpenServer")
	}
	if err := checkContext(ctx); err != nil {
		return nil, p.wrap("use", err)
	}
	for {
		if p.ctx.Err() != nil {
			return nil, p.closed("use")
		}
		p.mu.Lock()
		conn, change := p.conn, p.change
		p.mu.Unlock()
		if conn != nil && conn.Err() == nil {
			return conn, nil
		}
		select {
		case <-change:
		case <-p.ctx.Done():
			return nil, p.closed("use")
		case <-ctx.Done():
			return nil, p.waited(ctx)
		}
	}
}

func (p *Port) wrap(op string, err error) error { return &Error{Op: op, Interface: p.name, Err: err} }

// closed is what everybody is told after Close.
func (p *Port) closed(op string) error { return p.wrap(op, localReason("port closed")) }

// ReadBatch waits until there are packets and receives them into batch, over as many connections as it takes; gives how many. Closed after
// Close.
func (p *Port) ReadBatch(ctx context.Context, batch *Batch) (int, error) {
	if err := batch.check(); err != nil {
		return 0, p.wrap("read", err)
	}
	for {
		conn, err := p.Conn(ctx)
		if err != nil {
			return 0, err
		}
		n, err := conn.ReadBatchContext(ctx, batch)
		if err == nil || ctx.Err() != nil {
			return n, err
		}
		if conn.Err() == nil {
			// Not by its end: a peer that has no ring to us, say. There is nothing to read as long as it stays.
			select {
			case <-conn.Done():
			case <-ctx.Done():
				return 0, p.wrap("read", ended(ctx))
			}
		}
	}
}

// WriteBatch sends packets on the first queue, as far as there is room; gives how many. None while the link is down; Closed after Close.
func (p *Port) WriteBatch(packets [][]byte) (int, error) {
	if p.ctx == nil {
		return 0, unopened("write", "port of OpenClient or OpenServer")
	}
	if p.ctx.Err() != nil {
		return 0, p.closed("write")
	}
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

// Close ends the connection, and connects no more. The peer has been told when it returns: the program may end then.
func (p *Port) Close() error {
	if p.ctx == nil {
		return unopened("close", "port of OpenClient or OpenServer")
	}
	p.cancel()
	if p.listener != nil {
		return p.listener.Close()
	}
	p.mu.Lock()
	trying := p.trying
	p.mu.Unlock()
	if trying != nil {
		select {
		case <-trying:
		case <-time.After(closeTime):
		}
	}
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		conn.end(p.whyDown())
	}
	return nil
}
