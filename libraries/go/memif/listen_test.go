package memif

import (
	"context"
	"errors"
	"testing"
	"time"
)

// claimed is a listener, and a client that has claimed its interface and goes on later.
func claimed(t *testing.T) (*Listener, *rawClient) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	raw := newRaw(t, l.address, true)
	raw.hear([]string{"hello"})
	raw.send(readTable(t).message(t, "init"))
	raw.hear([]string{"ack"})
	return l, raw
}

func nobodyComes(t *testing.T, l *Listener) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if conn, err := l.Accept(ctx); err == nil {
		t.Error("accepted", conn.Info())
	}
}

// An interface that is taken down, or away, is so for a handshake that is under way, too.
func TestTakenDownDuringAHandshake(t *testing.T) {
	l, raw := claimed(t)
	if err := l.AdminDown(0, "for lunch"); err != nil {
		t.Fatal(err)
	}
	raw.hear([]string{"refused", "administratively-down:-for-lunch"})
	nobodyComes(t, l)
	if _, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages}); err == nil {
		t.Error("up while it is down")
	}
	if err := l.AdminUp(0); err != nil {
		t.Fatal(err)
	}
	conn, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := l.Accept(within(t)); err != nil {
		t.Fatal(err)
	}
}

func TestUnregisteredDuringAHandshake(t *testing.T) {
	l, raw := claimed(t)
	if err := l.Unregister(0); err != nil {
		t.Fatal(err)
	}
	raw.hear([]string{"refused", "interface-deleted"})
	nobodyComes(t, l)
}

// What Accept gives is ready: nothing of the handshake comes after it that could ask for no signals while a reader sleeps.
func TestAcceptedIsReady(t *testing.T) {
	table := readTable(t)
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	unready := 0
	for range 200 {
		raw := newRaw(t, l.address, true) // its flags are 0
		accepted := make(chan bool, 1)
		go func() {
			conn, err := l.Accept(t.Context())
			accepted <- err == nil && raw.memory[rawToPeer+4]&1 != 0
			if err == nil {
				_ = conn.Close()
			}
		}()
		raw.connect(table)
		if !<-accepted {
			unready++
		}
		for {
			if _, _, err := raw.channel.receive(false); err != nil {
				if !errors.Is(err, PeerClosed) {
					t.Log(err)
				}
				break
			}
		}
		_ = raw.channel.socket.Close()
	}
	if unready > 0 {
		t.Errorf("%d of 200 were not", unready)
	}
}
