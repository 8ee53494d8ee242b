package memif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"quiver/memif/internal/shm"
)

// Role says which end of a connection.
type Role int

const (
	// Client connects and owns the memory. Also called slave.
	Client Role = iota
	// Server listens and maps the client's memory. Also called master.
	Server
)

// Info is what both sides agreed on.
type Info struct {
	Role            Role   // our end
	ID              uint32 // of the interface
	Mode            Mode
	PeerApplication string // what the peer calls itself
	PeerInterface   string // what it calls the interface
	// Peer is its process, as the kernel says; nil where it doesn't.
	Peer *Credentials
}

// Conn is an established connection: packets can flow until Close, or until the peer ends it.
type Conn struct {
	info    Info
	address string
	channel channel
	table   *shm.Table
	rx      []*RxQueue
	tx      []*TxQueue
	waker   *waker        // nil if nothing is received
	writer  shm.Writer    // of signals that the kernel doesn't give
	stall   time.Duration // to wait for a peer that takes nothing; for ever if not positive
	nap     time.Duration // the longest that a reader sleeps

	nextRx        atomic.Uint32
	readDeadline  atomic.Int64 // in ns since 1970; 0: none
	writeDeadline atomic.Int64

	ending sync.Once
	done   chan struct{}
	reason error // once done is closed
	onEnd  func()
	share  *share // of the listener's quota; nil where there is none
}

// open puts a connection together from its ends. Takes them all over.
func open(info Info, address string, ctl channel, table *shm.Table, rx, tx []end, maxPacket uint32, stall time.Duration) (*Conn, error) {
	c := &Conn{info: info, address: address, channel: ctl, table: table, stall: stall, nap: nap, done: make(chan struct{})}
	events := make([]*shm.Event, 0, len(rx))
	for _, e := range rx {
		c.rx = append(c.rx, &RxQueue{conn: c, end: e, maxPacket: maxPacket})
		events = append(events, e.event)
	}
	for i, e := range tx {
		e.event.SignalBy(&c.writer)
		c.tx = append(c.tx, &TxQueue{conn: c, number: i, end: e, maxPacket: max(maxPacket, DefaultMaxPacket)})
	}
	var err error
	if len(events) > 0 {
		c.waker, err = newWaker(c.rx, events)
	}
	if err != nil {
		c.end(err)
		return nil, err
	}
	return c, nil
}

// prepare makes the rings ready, when both sides have mapped them, and before anybody reads or writes.
func (c *Conn) prepare() error {
	var err error
	for _, q := range c.tx {
		err = errors.Join(err, q.start())
	}
	for _, q := range c.rx {
		err = errors.Join(err, q.start())
	}
	return errors.Join(err, c.channel.socket.SetDeadline(time.Time{}))
}

// listen waits for the end, in a goroutine of its own.
func (c *Conn) listen() {
	m, _, err := c.channel.receive(false)
	switch {
	case err != nil:
	case m.kind == msgDisconnect:
		err = &PeerError{m.code, m.reason}
	default:
		err = detail(UnexpectedMessage, "%s while connected", m.kind)
	}
	c.end(err)
}

// end ends the connection, telling the peer why if that is news to it. The first reason counts.
func (c *Conn) end(reason error) {
	c.ending.Do(func() {
		c.reason = reason
		close(c.done)
		c.release(reason)
	})
}

// release tells the peer and gives back what the connection holds.
func (c *Conn) release(reason error) {
	c.channel.farewell(reason)
	c.waker.close()
	for _, q := range c.rx {
		_ = q.close()
	}
	for _, q := range c.tx {
		_ = q.close()
	}
	c.writer.Close()
	c.share.closeRings(len(c.rx), len(c.tx))
	// Nobody can be using it: all queues are closed. What a peer has put into its memory can keep that waiting.
	if c.info.Role == Server {
		c.channel.closing.close(c.table.Len(), func() { _ = c.table.Close() })
	} else {
		_ = c.table.Close()
	}
	c.channel.close()
	if c.onEnd != nil {
		c.onEnd()
	}
}

// failed ends the connection for a fault of the peer, and gives the error to return.
func (c *Conn) failed(op string, fault error) error {
	if fault != Closed {
		c.end(fault)
	}
	<-c.done
	return c.wrap(op, c.reason)
}

func (c *Conn) wrap(op string, err error) error {
	return &Error{Op: op, Interface: interfaceName(c.address, c.info.ID), Err: err}
}

// unopened is the error of a call on a handle that nobody has opened.
func unopened(op, handle string) error {
	return &Error{Op: op, Interface: "none", Err: detail(BadSetting, "no %s", handle)}
}

// unopened is the error of a call on one that nobody has opened.
func (c *Conn) unopened(op string) error {
	return c.wrap(op, detail(BadSetting, "no connection of Dial or Accept"))
}

// noRings is why there is nothing to read from or write to.
func (c *Conn) noRings(op string) error {
	if c.done == nil {
		return c.unopened(op)
	}
	return c.wrap(op, NoRings)
}

func interfaceName(address string, id uint32) string {
	if address == "" {
		return fmt.Sprintf("id %d", id)
	}
	return fmt.Sprintf("%s id %d", address, id)
}

// Info is what both sides agreed on.
func (c *Conn) Info() Info { return c.info }

// RxQueues are the queues to receive from.
func (c *Conn) RxQueues() []*RxQueue { return c.rx }

// TxQueues are the queues to send to.
func (c *Conn) TxQueues() []*TxQueue { return c.tx }

// never is the end of what nobody has opened.
var never = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} {
	if c.done == nil {
		return never
	}
	return c.done
}

// Err is why the connection has ended; nil while it hasn't.
func (c *Conn) Err() error {
	if c.done == nil {
		return c.unopened("use")
	}
	if c.over() {
		return c.wrap("connection to", c.reason)
	}
	return nil
}

// over says whether done is closed. Calls that begin then find no rings, though these are closed one by one after it.
func (c *Conn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Close ends the connection, telling the peer so, and everything that waits on it.
func (c *Conn) Close() error { return c.CloseWithReason("interface closed") }

// CloseWithReason ends the connection with these words for the peer, cut to 95 bytes.
func (c *Conn) CloseWithReason(text string) error {
	if c.done == nil {
		return c.unopened("close")
	}
	c.end(localReason(text))
	return nil
}

// localReason is Closed, in other words.
type localReason string

func (r localReason) Error() string        { return string(r) }
func (r localReason) Is(target error) bool { return target == Closed || target == net.ErrClosed }

// SetDeadline bounds reads and writes that wait, now and later; the zero time doesn't. One that is set while a call waits counts
// after 100 ms at the latest. An error after Close.
func (c *Conn) SetDeadline(t time.Time) error {
	return cmp.Or(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline bounds reads only.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readDeadline, t) }

// SetWriteDeadline bounds writes only.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeDeadline, t) }

func (c *Conn) setDeadline(deadline *atomic.Int64, t time.Time) error {
	switch err := c.Err(); {
	case c.done == nil:
		return c.unopened("set deadline of")
	case errors.Is(err, Closed): // of what was closed here there are none, as net has it
		return c.wrap("set deadline of", c.reason)
	}
	if t.IsZero() {
		deadline.Store(0)
	} else {
		deadline.Store(max(t.UnixNano(), 1))
	}
	return nil
}

// TryReadBatch receives packets that are there, of all queues, into batch, after resetting it; gives how many.
func (c *Conn) TryReadBatch(batch *Batch) (int, error) {
	if err := batch.check(); err != nil {
		return 0, c.wrap("read", err)
	}
	batch.Reset()
	return c.fill(c.rx, batch)
}

// ReadBatch waits until there are packets in any queue and receives them into batch, after resetting it; gives how many.
func (c *Conn) ReadBatch(batch *Batch) (int, error) {
	if err := batch.check(); err != nil {
		return 0, c.wrap("read", err)
	}
	batch.Reset()
	return c.read(c.rx, batch)
}

// ReadBatchContext is ReadBatch until ctx is done, which is seen after 100 ms at the latest; then the error wraps ctx.Err().
func (c *Conn) ReadBatchContext(ctx context.Context, batch *Batch) (int, error) {
	if err := cmp.Or(batch.check(), checkContext(ctx)); err != nil {
		return 0, c.wrap("read", err)
	}
	batch.Reset()
	for {
		until := time.Now().Add(c.nap)
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
			until = deadline
		}
		n, err := c.readUntil(c.rx, batch, until, ctx.Done())
		if n > 0 || err != nil {
			return n, err
		}
		if ctx.Err() != nil {
			return 0, c.wrap("read", ended(ctx))
		}
	}
}

// ReadPacket waits for one packet and copies it into buffer; gives its length. ShortBuffer if it is longer: it is lost then.
func (c *Conn) ReadPacket(buffer []byte) (int, error) {
	one := NewBatch(1)
	if _, err := c.ReadBatch(one); err != nil {
		return 0, err
	}
	packet := one.Packets()[0]
	if len(packet) > len(buffer) {
		return 0, c.wrap("read", detail(ShortBuffer, "%d bytes", len(packet)))
	}
	return copy(buffer, packet), nil
}

// fill receives from all queues in turn, beginning with another each time so that none waits for the others.
func (c *Conn) fill(queues []*RxQueue, batch *Batch) (int, error) {
	if len(queues) == 0 {
		return 0, c.noRings("read")
	}
	first := 0
	if len(queues) > 1 {
		first = int(c.nextRx.Add(1) % uint32(len(queues)))
	}
	for i := range queues {
		if _, err := queues[(first+i)%len(queues)].fill(batch); err != nil {
			return batch.Len(), err
		}
	}
	return batch.Len(), nil
}

func (c *Conn) read(queues []*RxQueue, batch *Batch) (int, error) {
	for {
		until := time.Now().Add(c.nap)
		deadline := c.readDeadline.Load()
		if deadline != 0 && time.Unix(0, deadline).Before(until) {
			until = time.Unix(0, deadline)
		}
		n, err := c.readUntil(queues, batch, until, nil)
		if n > 0 || err != nil {
			return n, err
		}
		if deadline != 0 && time.Now().UnixNano() >= deadline {
			return 0, c.wrap("read", os.ErrDeadlineExceeded)
		}
	}
}

// readUntil receives what is there, after a sleep if that is nothing.
func (c *Conn) readUntil(queues []*RxQueue, batch *Batch, until time.Time, cancelled <-chan struct{}) (int, error) {
	if n, err := c.fill(queues, batch); n > 0 || err != nil {
		return n, err
	}
	me, ready := sleepers.Get().(*sleeper), false
	for _, q := range queues {
		// A fault is found again, and told, by fill.
		armed, err := q.arm(me)
		ready = ready || armed || err != nil
	}
	if !ready {
		c.waker.sleep(me, until, cancelled, c.done)
	}
	for _, q := range queues {
		q.disarm(me)
	}
	me.free()
	return c.fill(queues, batch)
}
