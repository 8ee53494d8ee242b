package memif

import (
	"context"
	"os"
	"time"
)

// WritePacket sends one packet on the first queue, waiting for room as WriteBatch does; gives its length.
func (c *Conn) WritePacket(packet []byte) (int, error) {
	if _, err := c.WriteBatch([][]byte{packet}); err != nil {
		return 0, err
	}
	return len(packet), nil
}

// TryWriteBatch sends packets on the first queue as far as there is room; gives how many.
func (c *Conn) TryWriteBatch(packets [][]byte) (int, error) {
	if len(c.tx) == 0 {
		return 0, c.noRings("write")
	}
	return c.tx[0].TryWriteBatch(packets)
}

// WriteBatch sends all packets on the first queue, waiting for room; gives how many before an error. It waits for a peer that takes nothing
// any more until StallTimeout of the interface's settings has passed (then the error is a [*PeerStalled]): [DefaultStallTimeout], if they don't
// say. SetWriteDeadline and [Conn.WriteBatchContext] bound the whole of it.
func (c *Conn) WriteBatch(packets [][]byte) (int, error) {
	if len(c.tx) == 0 {
		return 0, c.noRings("write")
	}
	return c.write(context.Background(), c.tx[0], packets)
}

// WriteBatchContext does so until the context ends; the write deadline and StallTimeout count as well.
func (c *Conn) WriteBatchContext(ctx context.Context, packets [][]byte) (int, error) {
	if err := checkContext(ctx); err != nil {
		return 0, c.wrap("write", err)
	}
	if len(c.tx) == 0 {
		return 0, c.noRings("write")
	}
	return c.write(ctx, c.tx[0], packets)
}

// write sends all packets, until the context ends. The protocol has no signal for room: it is looked for again, ever less often.
func (c *Conn) write(ctx context.Context, q *TxQueue, packets [][]byte) (int, error) {
	sent, pause := 0, time.Duration(0)
	var taken uint16
	var since time.Time // the peer takes nothing
	for {
		n, err := q.TryWriteBatch(packets[sent:])
		sent += n
		if err != nil || sent == len(packets) {
			return sent, err
		}
		now := time.Now()
		if at := q.progress(); n > 0 || at != taken || since.IsZero() {
			taken, since = at, now
		}
		if n > 0 {
			pause = 0
			continue
		}
		if deadline := c.writeDeadline.Load(); deadline != 0 && now.UnixNano() >= deadline {
			return sent, c.wrap("write", os.ErrDeadlineExceeded)
		}
		if err := ended(ctx); err != nil {
			return sent, c.wrap("write", err)
		}
		if waited := now.Sub(since); c.stall > 0 && waited >= c.stall {
			return sent, c.wrap("write", &PeerStalled{q.number, waited})
		}
		pause = min(max(2*pause, 5*time.Microsecond), time.Millisecond)
		time.Sleep(pause)
	}
}
