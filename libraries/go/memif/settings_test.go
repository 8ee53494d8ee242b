package memif

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whoever is turned away finds the cause by the code, whatever the words are.
func TestRefusalsAreTypedForWhoIsRefused(t *testing.T) {
	other := uint32(os.Geteuid()) + 1
	for _, c := range []struct {
		name   string
		server ServerConfig
		client ClientConfig
		cause  error
		code   uint32
		words  string // as Rust has them
	}{
		{"wrong secret", ServerConfig{Secret: "psst"}, ClientConfig{Secret: "hey"}, WrongSecret, 1, "incorrect secret"},
		{"no secret", ServerConfig{Secret: "psst"}, ClientConfig{}, WrongSecret, 1, "secret required"},
		{"another user", ServerConfig{AllowUIDs: []uint32{other}}, ClientConfig{}, NotAllowed, 2, "not allowed to connect: user "},
		{"another id", ServerConfig{}, ClientConfig{ID: 7}, UnknownInterface, 3, "unmatched interface id 7"},
		{"another mode", ServerConfig{Mode: IP}, ClientConfig{}, ModeMismatch, 4, "mode mismatch: the interface is ip, the peer wants mode 0"},
		{"too much memory", ServerConfig{MaxMemory: 4096}, ClientConfig{}, Limit, 7, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(abstract(), ListenConfig{}, c.server)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			c.client.HugePages = NoHugePages
			isRefused(t, l.address, c.client, c.cause, c.code, c.words)
		})
	}
	t.Run("busy", func(t *testing.T) {
		l, err := Listen(abstract(), ListenConfig{}, ServerConfig{ID: 5})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := Dial(within(t), l.address, ClientConfig{ID: 5, HugePages: NoHugePages})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		isRefused(t, l.address, ClientConfig{ID: 5, HugePages: NoHugePages}, AlreadyConnected, 6, "interface id 5 is already connected")
	})
	t.Run("version", func(t *testing.T) {
		l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		raw := newRaw(t, l.address, true)
		raw.hear([]string{"hello"})
		raw.send((&message{kind: msgInit, version: 0x300}).encode())
		if m, _, err := raw.channel.receive(true); err != nil || m.kind != msgDisconnect || m.code != 5 {
			t.Error(m, err)
		}
	})
	for _, code := range []uint32{0, 8, 1 << 31} {
		err := error(&PeerError{Code: code, Text: string(WrongSecret)})
		for _, one := range codes {
			for _, cause := range one.causes {
				if errors.Is(err, cause) {
					t.Error(code, cause)
				}
			}
		}
	}
}

func isRefused(t *testing.T, address string, config ClientConfig, cause error, code uint32, words string) {
	t.Helper()
	_, err := Dial(within(t), address, config)
	var peer *PeerError
	if !errors.Is(err, cause) || !errors.As(err, &peer) || peer.Code != code || !strings.HasPrefix(peer.Text, words) {
		t.Errorf("%v, wanted %v by code %d: %s", err, cause, code, words)
	}
	for _, one := range codes {
		if one.code != code && errors.Is(err, one.causes[0]) {
			t.Errorf("%v is %v as well", err, one.causes[0])
		}
	}
}

func TestServersThatNobodyCouldMean(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, config := range []ServerConfig{
		{AllowUIDs: []uint32{}}, {AllowGIDs: []uint32{}}, {AllowPIDNamespace: "/nope"}, {AllowPIDNamespace: file},
		{AllowPIDNamespace: "/proc/self/ns/net"}, {AllowPIDNamespace: "/proc/0/ns/pid"}, {PeerMemory: -1}, {PeerMemory: AnyMemory + 1},
	} {
		_, listening := Listen(abstract(), ListenConfig{}, config)
		_, opened := OpenServer(abstract(), ListenConfig{}, config, nil)
		if !errors.Is(listening, BadSetting) || !errors.Is(opened, BadSetting) {
			t.Errorf("%+v: %v, %v", config, listening, opened)
		}
	}
	for _, config := range []ListenConfig{{Timeout: -1}, {MaxHandshakes: -1}, {Netns: "/nope"}, {Netns: file}} {
		if _, err := Listen(abstract(), config, ServerConfig{}); !errors.Is(err, BadSetting) {
			t.Errorf("%+v: %v", config, err)
		}
	}
}

// What no region could hold is refused before there is a server, and what one can hold isn't.
func TestSettingsThatNoRegionHolds(t *testing.T) {
	large := ClientConfig{RxQueues: 256, TxQueues: 256, RingSize: 16384, BufferSize: 65536}
	remedy := "at most 4294967296 can be had: take fewer queues, smaller rings or buffers"
	_, dialled := Dial(within(t), abstract(), large)
	port, opened := OpenClient(abstract(), large, nil)
	if opened == nil {
		_ = port.Close()
	}
	for _, err := range []error{dialled, opened} {
		if !errors.Is(err, BadSetting) || !strings.HasSuffix(fmt.Sprint(err), remedy) {
			t.Error(err)
		}
	}
	large.BufferSize, large.RingSize = 2048, 2048
	if _, err := large.complete(); err != nil {
		t.Error(err)
	}
}

// What isn't the server's absence isn't told as that.
func TestDialsThatFailHere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, config := range []ClientConfig{{Timeout: -1}, {HugePages: 77}, {HugePages: -1}, {Netns: "/nope"}, {Netns: file}, {Netns: pipe}} {
		if _, err := Dial(within(t), abstract(), config); !errors.Is(err, BadSetting) || errors.Is(err, Unreachable) {
			t.Errorf("%+v: %v", config, err)
		}
	}
	if _, err := Dial(within(t), abstract(), ClientConfig{Timeout: -time.Second}); !strings.HasSuffix(err.Error(), "Timeout -1s is not longer than 0s") {
		t.Error(err)
	}
	if _, err := Dial(within(t), abstract(), ClientConfig{Netns: "/nope"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	cause := errors.New("for lunch")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	late, stop := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer stop()
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, address := range []string{abstract(), l.address} {
		_, err := Dial(cancelled, address, ClientConfig{})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || errors.Is(err, Unreachable) {
			t.Error(err)
		}
		if _, err := Dial(late, address, ClientConfig{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, Unreachable) {
			t.Error(err)
		}
	}
	// Cancelled while the server says nothing; and the time that the settings give is over.
	silent, err := listenSocket(abstract(), ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancelNow := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancelNow)
	if _, err := Dial(ctx, silent.Addr().String(), ClientConfig{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// While it waits for an answer; and while it connects, or before.
	for _, timeout := range []time.Duration{200 * time.Millisecond, 100 * time.Microsecond, 10 * time.Microsecond, time.Nanosecond} {
		_, err := Dial(within(t), silent.Addr().String(), ClientConfig{Timeout: timeout})
		if !errors.Is(err, HandshakeTimeout) || errors.Is(err, Unreachable) {
			t.Errorf("%v: %v", timeout, err)
		}
	}
}

// What is nil, or was never opened, is an error; it neither panics nor waits.
func TestCallsWithNothing(t *testing.T) {
	server, client := pair(t, ServerConfig{}, ClientConfig{})
	port, err := OpenClient(abstract(), ClientConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	l, err := Listen(abstract(), ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var none context.Context
	for what, call := range map[string]func(*Batch) error{
		"read":       func(b *Batch) error { _, err := server.ReadBatch(b); return err },
		"try":        func(b *Batch) error { _, err := client.TryReadBatch(b); return err },
		"context":    func(b *Batch) error { _, err := client.ReadBatchContext(t.Context(), b); return err },
		"queue":      func(b *Batch) error { _, err := server.RxQueues()[0].ReadBatch(b); return err },
		"queue, try": func(b *Batch) error { _, err := server.RxQueues()[0].TryReadBatch(b); return err },
		"port":       func(b *Batch) error { _, err := port.ReadBatch(t.Context(), b); return err },
	} {
		for _, batch := range []*Batch{nil, {}} {
			if err := call(batch); !errors.Is(err, BadSetting) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	for what, call := range map[string]func() error{
		"dial":      func() error { _, err := Dial(none, l.address, ClientConfig{}); return err },
		"accept":    func() error { _, err := l.Accept(none); return err },
		"read":      func() error { _, err := server.ReadBatchContext(none, NewBatch(1)); return err },
		"port":      func() error { _, err := port.Conn(none); return err },
		"port read": func() error { _, err := port.ReadBatch(none, NewBatch(1)); return err },
		"no conn":   func() error { return new(Conn).Close() },

		"no conn, error":       func() error { return new(Conn).Err() },
		"no conn, deadline":    func() error { return new(Conn).SetDeadline(time.Now()) },
		"no conn, read":        func() error { _, err := new(Conn).ReadBatch(NewBatch(1)); return err },
		"no conn, try to read": func() error { _, err := new(Conn).TryReadBatch(NewBatch(1)); return err },
		"no conn, packet":      func() error { _, err := new(Conn).ReadPacket(nil); return err },
		"no conn, context":     func() error { _, err := new(Conn).ReadBatchContext(t.Context(), NewBatch(1)); return err },
		"no conn, write":       func() error { _, err := new(Conn).WritePacket([]byte{1}); return err },
		"no conn, write all":   func() error { _, err := new(Conn).WriteBatchContext(t.Context(), nil); return err },
		"no conn, write some":  func() error { _, err := new(Conn).TryWriteBatch(nil); return err },
		"no port, error":       func() error { return new(Port).Err() },

		"no queue, read":          func() error { _, err := new(RxQueue).ReadBatch(NewBatch(1)); return err },
		"no queue, try to read":   func() error { _, err := new(RxQueue).TryReadBatch(NewBatch(1)); return err },
		"no queue, write":         func() error { _, err := new(TxQueue).WriteBatch([][]byte{{1}}); return err },
		"no queue, try to write":  func() error { _, err := new(TxQueue).TryWriteBatch([][]byte{{1}}); return err },
		"no queue, write, waited": func() error { _, err := new(TxQueue).WriteBatchContext(t.Context(), [][]byte{{1}}); return err },
		"no port":                 func() error { _, err := new(Port).Conn(t.Context()); return err },
		"no port, read":           func() error { _, err := new(Port).ReadBatch(t.Context(), NewBatch(1)); return err },
		"no port, write":          func() error { _, err := new(Port).WriteBatch([][]byte{{1}}); return err },
		"no port, close":          func() error { return new(Port).Close() },
		"no listener, register":   func() error { return new(Listener).Register(ServerConfig{}) },
		"no listener":             func() error { _, err := new(Listener).Accept(t.Context()); return err },
		"no listener, close":      func() error { return new(Listener).Close() },
	} {
		if err := call(); !errors.Is(err, BadSetting) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Nobody waits for the end of what never began.
	<-new(Conn).Done()
	new(Port).AdminDown("")
	new(Port).AdminUp()
	if address := new(Listener).Addr(); address.String() != "" {
		t.Error(address)
	}
	if size := new(RxQueue).RingSize() + new(TxQueue).RingSize(); size != 0 {
		t.Error(size)
	}
}

// What is closed says so, to readers, writers and who accepts.
func TestClosedIsClosed(t *testing.T) {
	for _, open := range []func() (*Port, error){
		func() (*Port, error) { return OpenClient(abstract(), ClientConfig{HugePages: NoHugePages}, nil) },
		func() (*Port, error) { return OpenServer(abstract(), ListenConfig{}, ServerConfig{}, nil) },
	} {
		port, err := open()
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error)
		go func() { _, err := port.ReadBatch(t.Context(), NewBatch(1)); waiting <- err }()
		if _, err := port.WriteBatch([][]byte{{1}}); err != nil {
			t.Error(err)
		}
		if err := port.Close(); err != nil {
			t.Error(err)
		}
		_, written := port.WriteBatch([][]byte{{1}})
		_, read := port.ReadBatch(t.Context(), NewBatch(1))
		_, conn := port.Conn(t.Context())
		for _, err := range []error{<-waiting, written, read, conn} {
			if !errors.Is(err, Closed) {
				t.Error(err)
			}
		}
	}
	l, err := Listen(abstract(), ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := l.Accept(t.Context()); !errors.Is(err, Closed) {
		t.Error(err)
	}
}

// The longest packet that a peer takes is the longest that can be sent, in every way to send one, whether or not the ring has room now.
func TestLongestPacket(t *testing.T) {
	longest, longer := make([]byte, DefaultMaxPacket), make([]byte, DefaultMaxPacket+1)
	for _, size := range []int{2048, 65536} {
		server, client := pair(t, ServerConfig{}, ClientConfig{BufferSize: size, RingSize: 64})
		for _, ends := range [][2]*Conn{{client, server}, {server, client}} {
			if _, err := ends[0].WritePacket(longest); err != nil {
				t.Fatal(err)
			}
			if sent, err := ends[0].TryWriteBatch([][]byte{longer}); sent != 0 || !errors.Is(err, NeverFits) {
				t.Error(size, sent, err)
			}
			if got := readN(t, ends[1].ReadBatch, 1); len(got[0]) != len(longest) {
				t.Error(size, len(got[0]))
			}
		}
	}
	// Both sides have agreed on more.
	server, client := pair(t, ServerConfig{MaxPacket: 100000}, ClientConfig{MaxPacket: 100000})
	if _, err := client.WritePacket(make([]byte, 100000)); err != nil {
		t.Error(err)
	}
	if got := readN(t, server.ReadBatch, 1); len(got[0]) != 100000 {
		t.Error(len(got[0]))
	}
	if _, err := client.TryWriteBatch([][]byte{make([]byte, 100001)}); !errors.Is(err, NeverFits) {
		t.Error(err)
	}
	// A ring that is full, and too small for the packet anyway.
	_, client = pair(t, ServerConfig{}, ClientConfig{BufferSize: 64, RingSize: 64})
	for range 64 {
		if _, err := client.WritePacket([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.TryWriteBatch([][]byte{make([]byte, 64*64+1)}); !errors.Is(err, NeverFits) {
		t.Error(err)
	}
}

func TestPortRefusesPacketsThatAreTooLong(t *testing.T) {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port, err := OpenClient(l.address, ClientConfig{HugePages: NoHugePages}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	if _, err := port.Conn(within(t)); err != nil {
		t.Fatal(err)
	}
	if sent, err := port.WriteBatch([][]byte{make([]byte, 100000)}); sent != 0 || !errors.Is(err, NeverFits) {
		t.Error(sent, err)
	}
}
