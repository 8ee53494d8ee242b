package memif

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// pair is a connected server and client.
func pair(t testing.TB, server ServerConfig, client ClientConfig) (*Conn, *Conn) {
	t.Helper()
	l, err := Listen(abstract(), ListenConfig{}, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return join(t, l, client)
}

// join is a client that connects, and what its listener accepts.
func join(t testing.TB, l *Listener, client ClientConfig) (*Conn, *Conn) {
	t.Helper()
	client.HugePages = NoHugePages
	dialled, err := Dial(within(t), l.address, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialled.Close() })
	accepted, err := l.Accept(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range []*Conn{accepted, dialled} {
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	return accepted, dialled
}

// readN reads until there are n packets, and copies them.
func readN(t testing.TB, read func(*Batch) (int, error), n int) (packets [][]byte) {
	t.Helper()
	batch := NewBatch(64)
	for len(packets) < n {
		if _, err := read(batch); err != nil {
			t.Fatalf("%d of %d packets: %v", len(packets), n, err)
		}
		for _, packet := range batch.Packets() {
			packets = append(packets, bytes.Clone(packet))
		}
	}
	return packets
}

func TestPacketsOfAllSizesBothWays(t *testing.T) {
	for _, config := range []ClientConfig{
		{}, {RingSize: 64}, {RingSize: 16384, BufferSize: 256}, {RingSize: 64, BufferSize: 128}, {Mode: IP},
	} {
		t.Run(fmt.Sprintf("%s,%d,%d", config.Mode, config.RingSize, config.BufferSize), func(t *testing.T) {
			server, client := pair(t, ServerConfig{Mode: config.Mode, Name: "srv"}, config)
			if got := server.TxQueues()[0].RingSize(); got != or(config.RingSize, 1024) {
				t.Errorf("rings of %d", got)
			}
			if server.Info().PeerInterface != "memif" || client.Info().PeerInterface != "srv" {
				t.Error(server.Info(), client.Info())
			}
			for round := range 300 {
				var packets [][]byte
				for i, length := range []int{60, 1, 64, 1514, 2048, 2049, 5000} {
					packets = append(packets, packetOf(round*10+i, length))
				}
				for _, way := range [][2]*Conn{{client, server}, {server, client}} {
					done := make(chan error, 1)
					go func() { _, err := way[0].WriteBatch(packets); done <- err }()
					got := readN(t, way[1].ReadBatch, len(packets))
					if err := <-done; err != nil {
						t.Fatal(err)
					}
					for i := range packets {
						if !bytes.Equal(got[i], packets[i]) {
							t.Fatalf("round %d: packet %d of %d bytes is another one", round, i, len(packets[i]))
						}
					}
				}
			}
		})
	}
}

func TestSeveralQueuesEachWithItsGoroutine(t *testing.T) {
	const queues, each = 4, 20000
	server, client := pair(t, ServerConfig{MaxRxQueues: 4, MaxTxQueues: 3}, ClientConfig{RxQueues: 8, TxQueues: 8})
	if len(client.RxQueues()) != 3 || len(server.RxQueues()) != queues {
		t.Fatalf("%d and %d queues", len(client.RxQueues()), len(server.RxQueues()))
	}
	var all sync.WaitGroup
	for i, q := range client.TxQueues() {
		all.Go(func() {
			for n := 0; n < each; n += 50 {
				var packets [][]byte
				for k := range 50 {
					packets = append(packets, packetOf(n+k, 64+i))
				}
				if _, err := q.WriteBatch(packets); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, q := range server.RxQueues() {
		all.Go(func() {
			batch := NewBatch(100)
			for n := 0; n < each; {
				if _, err := q.ReadBatch(batch); err != nil {
					t.Error(err)
					return
				}
				for _, packet := range batch.Packets() {
					if !bytes.Equal(packet, packetOf(n, 64+i)) {
						t.Errorf("queue %d: packet %d is another one", i, n)
						return
					}
					n++
				}
			}
		})
	}
	all.Wait()
	for i, q := range server.RxQueues() {
		for _, counted := range []Counters{q.Counters(), client.TxQueues()[i].Counters()} {
			if counted.Packets != each || counted.Bytes != uint64(each*(64+i)) {
				t.Errorf("queue %d counts %+v", i, counted)
			}
		}
	}
}

// One packet at a time, so that both sleep in between; and over two queues, so that either may wake the reader. Nobody wakes up by itself.
func TestSleepersAreWoken(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{TxQueues: 2})
	server.nap, client.nap = time.Hour, time.Hour
	_ = server.SetDeadline(time.Time{})
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, err := server.ReadPacket(buffer)
			if err != nil {
				return
			}
			if _, err := server.WritePacket(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 2048)
	started := time.Now()
	for i := range 2000 {
		_ = client.SetDeadline(time.Now().Add(patience))
		packet := packetOf(i, 100)
		if _, err := client.TxQueues()[i%2].WriteBatch([][]byte{packet}); err != nil {
			t.Fatal(err)
		}
		n, err := client.ReadPacket(buffer)
		if err != nil || !bytes.Equal(buffer[:n], packet) {
			t.Fatalf("round trip %d: %d bytes, %v", i, n, err)
		}
	}
	t.Logf("2000 round trips in %v", time.Since(started))
}
