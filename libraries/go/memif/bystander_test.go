package memif

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// bystander is an honest client of one more interface of the listener: it and the server exchange packets from now on, whatever other peers do
// meanwhile. To be deferred is what it gives, before the listener is closed: it fails if one was lost, or became another, or if they can't go on.
func bystander(t testing.TB, l *Listener) (goesOn func()) {
	t.Helper()
	const id = 1 << 16
	if err := l.Register(ServerConfig{ID: id}); err != nil {
		t.Fatal(err)
	}
	server, client := join(t, l, ClientConfig{ID: id, RingSize: 64, BufferSize: 256})
	reflecting := make(chan struct{})
	go func() {
		defer close(reflecting)
		for batch, err := NewBatch(16), error(nil); err == nil; {
			if _, err = server.ReadBatch(batch); err == nil {
				_, err = server.WriteBatch(batch.Packets())
			}
		}
	}()
	stop, failed := make(chan struct{}), make(chan error, 1)
	sent := 0
	go func() {
		for last := false; ; {
			if err := exchange(server, client, sent); err != nil || last {
				failed <- err
				return
			}
			sent += len(exchanged)
			select {
			case <-stop:
				last = true // the attack is over: once more
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		if err := <-failed; err != nil {
			t.Errorf("a bystander is harmed after %d packets: %v", sent, err)
		}
		_ = client.Close()
		<-reflecting
		<-server.Done()
	}
}

// hostilePair is a pair one of which is to misbehave, and a bystander beside it.
func hostilePair(t testing.TB, server ServerConfig, client ClientConfig) (*Conn, *Conn) {
	t.Helper()
	l, err := Listen(abstract(), ListenConfig{}, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Cleanup(bystander(t, l))
	return join(t, l, client)
}

// exchanged are the lengths of packets that go to and fro together.
var exchanged = []int{60, 256, 257, 1514, 64}

// exchange sends packets, the first of which is number n, and wants them back.
func exchange(server, client *Conn, n int) error {
	for _, conn := range []*Conn{server, client} {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			return err
		}
	}
	packets := make([][]byte, len(exchanged))
	for i, length := range exchanged {
		packets[i] = packetOf(n+i, length)
	}
	if _, err := client.WriteBatch(packets); err != nil {
		return err
	}
	for batch := NewBatch(len(packets)); len(packets) > 0; {
		if _, err := client.ReadBatch(batch); err != nil {
			return fmt.Errorf("%d packets are lost: %w", len(packets), err)
		}
		for _, packet := range batch.Packets() {
			if len(packets) == 0 || !bytes.Equal(packet, packets[0]) {
				return fmt.Errorf("a packet of %d bytes is another one", len(packet))
			}
			packets = packets[1:]
		}
	}
	return nil
}
