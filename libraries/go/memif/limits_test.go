package memif

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDeadlinesAndContexts(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{RingSize: 64})
	buffer := make([]byte, 10)
	_ = client.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := client.ReadPacket(buffer)
	var timeout interface{ Timeout() bool }
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := client.ReadBatchContext(ctx, NewBatch(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	// A peer that stops consuming: what fits is sent, the rest waits no longer than it may.
	_ = client.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	packets := make([][]byte, 100)
	for i := range packets {
		packets[i] = packetOf(i, 60)
	}
	if sent, err := client.WriteBatch(packets); sent != 64 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(sent, err)
	}
	_ = client.SetWriteDeadline(time.Time{})
	for _, write := range []func(context.Context, [][]byte) (int, error){client.WriteBatchContext, client.TxQueues()[0].WriteBatchContext} {
		bounded, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		if sent, err := write(bounded, packets); sent != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(sent, err)
		}
		cancel()
	}
	if got := readN(t, server.ReadBatch, 64); !bytes.Equal(got[63], packets[63]) {
		t.Error("another packet")
	}
	_ = client.SetDeadline(time.Time{})
	if _, err := server.WritePacket(packets[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReadPacket(buffer); !errors.Is(err, ShortBuffer) {
		t.Error(err)
	}
	for _, never := range [][]byte{{}, make([]byte, 64*2048+1)} {
		if sent, err := client.WriteBatch([][]byte{never}); sent != 0 || !errors.Is(err, NeverFits) {
			t.Error(sent, err)
		}
	}
}

func TestCloseWakesEverybodyAndTellsThePeer(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{RingSize: 64})
	waiting := make(chan error, 2)
	go func() { _, err := client.ReadBatch(NewBatch(1)); waiting <- err }()
	packets := make([][]byte, 1000)
	for i := range packets {
		packets[i] = []byte{1}
	}
	go func() { _, err := client.WriteBatch(packets); waiting <- err }()
	time.Sleep(20 * time.Millisecond)
	if err := client.CloseWithReason("lunch"); err != nil {
		t.Fatal(err)
	}
	if err := client.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for range 2 {
		if err := <-waiting; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
	<-server.Done()
	var peer *PeerError
	if _, err := server.ReadBatch(NewBatch(1)); !errors.As(err, &peer) || peer.Text != "lunch" {
		t.Error(err)
	}
	if _, err := server.TryWriteBatch([][]byte{{1}}); !errors.As(err, &peer) {
		t.Error(err)
	}
	if !strings.Contains(server.Err().Error(), "id 0: disconnected by the peer: lunch") {
		t.Error(server.Err())
	}
}

func TestSettingsOutOfRange(t *testing.T) {
	for _, config := range []ClientConfig{
		{RingSize: 63}, {RingSize: 65}, {RingSize: 32768}, {RingSize: -64}, {BufferSize: 63}, {BufferSize: 1 << 20},
		{RxQueues: -1}, {TxQueues: 257}, {Mode: 3}, {Secret: "1234567890123456789012345"}, {Secret: "a\x00b"}, {MaxPacket: -1},
	} {
		if _, err := Dial(within(t), "@nobody", config); !errors.Is(err, BadSetting) {
			t.Errorf("%+v: %v", config, err)
		}
	}
	if _, err := Listen(abstract(), ListenConfig{}, ServerConfig{}, ServerConfig{}); !errors.Is(err, Registered) {
		t.Error(err)
	}
}

func TestSocketFiles(t *testing.T) {
	directory := filepath.Join(t.TempDir(), strings.Repeat("long", 40)) // more than a socket address holds
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "memif.sock")
	var failed *Error
	if _, err := Dial(within(t), path, ClientConfig{}); !errors.Is(err, os.ErrNotExist) || !errors.As(err, &failed) {
		t.Error(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	remedy := path + " exists and is not a socket: remove it or choose another path"
	if _, err := Listen(path, ListenConfig{}); !errors.Is(err, NotASocket) || !strings.HasSuffix(err.Error(), remedy) {
		t.Error(err)
	}
	_ = os.Remove(path)
	for _, path := range []string{filepath.Join(t.TempDir(), "none", "memif.sock"), filepath.Join(directory, "none", "memif.sock")} {
		remedy := "no directory for socket " + path + ": create it first"
		if _, err := Listen(path, ListenConfig{}); !errors.Is(err, NoDirectory) || !strings.HasSuffix(err.Error(), remedy) {
			t.Error(err)
		}
	}
	l, err := Listen(path, ListenConfig{FileMode: 0o600}, ServerConfig{ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Error(info, err)
	}
	if _, err := Listen(path, ListenConfig{}); !errors.Is(err, InUse) {
		t.Error(err)
	}
	conn, err := Dial(within(t), path, ClientConfig{ID: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unregister(5); err != nil {
		t.Error(err)
	}
	<-conn.Done()
	var peer *PeerError
	if !errors.As(conn.Err(), &peer) || peer.Text != "interface deleted" {
		t.Error(conn.Err())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file is still there:", err)
	}
}

// A server that is restarted, and a client whose connection ends: they find each other again.
func TestPortsConnectAgain(t *testing.T) {
	address := abstract()
	client, err := OpenClient(address, ClientConfig{HugePages: NoHugePages}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for round := range 3 {
		server, err := OpenServer(address, ListenConfig{}, ServerConfig{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if round == 2 {
			conn, err := client.Conn(within(t))
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		}
		got := make(chan error, 1)
		go func() { _, err := server.ReadBatch(within(t), NewBatch(1)); got <- err }()
		for arrived := false; !arrived; {
			if _, err := client.WriteBatch([][]byte{packetOf(round, 60)}); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-got:
				if err != nil {
					t.Fatal(err)
				}
				arrived = true
			case <-time.After(5 * time.Millisecond):
			}
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		if _, err := server.Conn(ctx); err == nil {
			t.Error("a closed port is up")
		}
		cancel()
	}
}

// TestAddresses: what no socket can have is refused when it is opened, by all ways to open one, and the error names it.
func TestAddresses(t *testing.T) {
	long := strings.Repeat("x", 300)
	for address, why := range map[string]string{
		"": "it is empty", "@": "it is empty", "/a\x00b": "it contains a NUL", "@" + long[:108]: "an abstract name has at most 107 bytes",
		long: "must name a directory and a file in it", "/" + long + "/": "must name a directory and a file in it",
		"/" + long: "has a name of at most 80",
	} {
		_, dialled := Dial(context.Background(), address, ClientConfig{})
		_, listening := Listen(address, ListenConfig{}, ServerConfig{})
		_, client := OpenClient(address, ClientConfig{}, nil)
		_, server := OpenServer(address, ListenConfig{}, ServerConfig{}, nil)
		for _, err := range []error{dialled, listening, client, server} {
			var typed *Error
			if !errors.Is(err, BadSetting) || !errors.As(err, &typed) || !strings.HasSuffix(err.Error(), why) || !strings.Contains(err.Error(), strconv.Quote(address)) {
				t.Errorf("%q: %v", address, err)
			}
		}
	}
	// A long path whose file has a short name can be had.
	directory := filepath.Join(t.TempDir(), long[:200])
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	port, err := OpenServer(filepath.Join(directory, "socket"), ListenConfig{}, ServerConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = port.Close()
}

// However many a batch may take, it makes room for what comes.
func TestBatchesOfAnySize(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{RingSize: 64})
	for _, most := range []int{-1, 0, 1, 1 << 40, 1 << 62, int(^uint(0) >> 1)} {
		batch := NewBatch(most)
		if _, err := client.WritePacket(packetOf(1, 60)); err != nil {
			t.Fatal(err)
		}
		if n, err := server.ReadBatch(batch); n != 1 || err != nil {
			t.Error(most, n, err)
		}
	}
}

// What is no connection says so, and of which interface.
func TestErrorsNameTheirInterface(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{RingSize: 64})
	_ = server.Close()
	<-client.Done()
	_, read := client.ReadBatch(NewBatch(1))
	_, write := client.WriteBatch([][]byte{packetOf(1, 60)})
	for _, err := range []error{read, write, client.Err(), new(Conn).CloseWithReason("")} {
		if e := new(Error); !errors.As(err, &e) || !strings.HasSuffix(e.Interface, "id 0") || e.Op == "" {
			t.Errorf("%v names no interface", err)
		}
	}
}
