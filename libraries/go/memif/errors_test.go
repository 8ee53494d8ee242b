package memif

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// names checks that an error is an Error of this interface with this cause.
func names(t *testing.T, what string, err error, name string, cause error) {
	t.Helper()
	e := new(Error)
	if strings.Contains(fmt.Sprint(err), "  ") || strings.Contains(fmt.Sprint(err), " :") {
		t.Errorf("%s: %v has blanks too many", what, err)
	}
	if !errors.As(err, &e) || e.Interface != name || e.Op == "" || !errors.Is(err, cause) {
		t.Errorf("%s: %v names not %q and %q", what, err, name, cause)
	}
}

// connCalls are all calls on a connection that can fail, and on its queues.
var connCalls = map[string]func(*Conn) error{
	"Conn.TryReadBatch": func(c *Conn) error { _, err := c.TryReadBatch(NewBatch(4)); return err },
	"Conn.ReadBatch":    func(c *Conn) error { _, err := c.ReadBatch(NewBatch(4)); return err },
	"Conn.ReadBatchContext": func(c *Conn) error {
		_, err := c.ReadBatchContext(context.Background(), NewBatch(4))
		return err
	},
	"Conn.ReadPacket":    func(c *Conn) error { _, err := c.ReadPacket(make([]byte, 2048)); return err },
	"Conn.WritePacket":   func(c *Conn) error { _, err := c.WritePacket(packetOf(1, 60)); return err },
	"Conn.TryWriteBatch": func(c *Conn) error { _, err := c.TryWriteBatch(packetsOf(1, 60)); return err },
	"Conn.WriteBatch":    func(c *Conn) error { _, err := c.WriteBatch(packetsOf(1, 60)); return err },
	"Conn.WriteBatchContext": func(c *Conn) error {
		_, err := c.WriteBatchContext(context.Background(), packetsOf(1, 60))
		return err
	},
	"RxQueue.TryReadBatch":  func(c *Conn) error { _, err := c.RxQueues()[0].TryReadBatch(NewBatch(4)); return err },
	"RxQueue.ReadBatch":     func(c *Conn) error { _, err := c.RxQueues()[0].ReadBatch(NewBatch(4)); return err },
	"TxQueue.TryWriteBatch": func(c *Conn) error { _, err := c.TxQueues()[0].TryWriteBatch(packetsOf(1, 60)); return err },
	"TxQueue.WriteBatch":    func(c *Conn) error { _, err := c.TxQueues()[0].WriteBatch(packetsOf(1, 60)); return err },
	"TxQueue.WriteBatchContext": func(c *Conn) error {
		_, err := c.TxQueues()[0].WriteBatchContext(context.Background(), packetsOf(1, 60))
		return err
	},
}

// A peer that breaks the rules of the rings is the cause, whoever meets it and however; who comes later is told the same.
func TestFaultsNameInterfaceAndCause(t *testing.T) {
	for what, call := range connCalls {
		t.Run(what, func(t *testing.T) {
			conn, raw := connected(t, readTable(t))
			raw.head(rawToPeer, 30000)
			raw.head(rawToUs, 30000)
			name := interfaceName(conn.address, 0)
			names(t, what, call(conn), name, IndexFault)
			for other, call := range connCalls {
				names(t, other+" afterwards", call(conn), name, IndexFault)
			}
			names(t, "Conn.Err", conn.Err(), name, IndexFault)
		})
	}
}

// Who was told of the end finds no ring that is still open, however long closing takes.
func TestNothingIsSentOrReceivedOnceDoneIsClosed(t *testing.T) {
	_, client := pair(t, ServerConfig{ID: 3}, ClientConfig{ID: 3})
	reason := &PeerError{0, "gone"}
	client.ending.Do(func() { // as far as end has come when it wakes who waits on Done
		client.reason = reason
		close(client.done)
	})
	for what, call := range connCalls {
		names(t, what, call(client), interfaceName(client.address, 3), reason)
	}
	client.release(reason)
}

// Every exported call that gives an error is called here, or can't fail.
func TestEveryCallNamesInterfaceAndCause(t *testing.T) {
	server, client := pair(t, ServerConfig{ID: 3}, ClientConfig{ID: 3, RingSize: 64})
	name := interfaceName(client.address, 3)
	_ = server.Close()
	<-client.Done()
	called := map[string]bool{}
	check := func(what string, err error, name string, cause error) {
		t.Helper()
		called[what] = true
		names(t, what, err, name, cause)
	}
	for what, call := range connCalls {
		check(what, call(client), name, client.reason)
	}
	check("Conn.Err", client.Err(), name, client.reason)
	check("Conn.Close", new(Conn).Close(), "id 0", BadSetting)
	check("Conn.CloseWithReason", new(Conn).CloseWithReason(""), "id 0", BadSetting)
	check("Conn.SetDeadline", new(Conn).SetDeadline(time.Now()), "id 0", BadSetting)
	check("Conn.SetReadDeadline", new(Conn).SetReadDeadline(time.Now()), "id 0", BadSetting)
	check("Conn.SetWriteDeadline", new(Conn).SetWriteDeadline(time.Now()), "id 0", BadSetting)
	_ = client.Close() // the peer had ended it
	if err := client.SetDeadline(time.Now()); err != nil {
		t.Error("the reason stays the peer's:", err)
	}
	closed, _ := pair(t, ServerConfig{ID: 3}, ClientConfig{ID: 3, RingSize: 64})
	_ = closed.Close()
	check("Conn.SetReadDeadline", closed.SetReadDeadline(time.Now()), interfaceName(closed.address, 3), Closed)

	address := abstract()
	l, err := Listen(address, ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	name = interfaceName(address, 0)
	unknown := interfaceName(address, 9)
	check("Listener.Register", l.Register(ServerConfig{}), name, Registered)
	check("Listener.Unregister", l.Unregister(9), unknown, NotListening)
	check("Listener.AdminDown", l.AdminDown(9, ""), unknown, NotListening)
	check("Listener.AdminUp", l.AdminUp(9), unknown, NotListening)
	_, err = Listen(address, ListenConfig{})
	names(t, "Listen", err, address, InUse)
	_, err = Listen("", ListenConfig{})
	names(t, "Listen", err, "", BadSetting)
	_, err = OpenServer(address, ListenConfig{}, ServerConfig{}, nil)
	names(t, "OpenServer", err, name, InUse)
	_, err = OpenClient("", ClientConfig{ID: 9}, nil)
	names(t, "OpenClient", err, "id 9", BadSetting)
	_, err = Dial(within(t), address, ClientConfig{ID: 9, HugePages: NoHugePages})
	names(t, "Dial", err, unknown, UnknownInterface)
	_ = l.Close()
	_, err = l.Accept(within(t))
	check("Listener.Accept", err, address, Closed)

	port, err := OpenClient(address, ClientConfig{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = port.Close()
	_, err = port.Conn(within(t))
	check("Port.Conn", err, name, Closed)
	_, err = port.ReadBatch(within(t), NewBatch(1))
	check("Port.ReadBatch", err, name, Closed)
	_, err = port.WriteBatch(packetsOf(1, 60))
	check("Port.WriteBatch", err, name, Closed)

	check("Port.Err", port.Err(), name, Closed)

	// Closing what was opened ends it in any case.
	called["Listener.Close"], called["Port.Close"] = true, true
	fails := reflect.TypeFor[error]()
	for _, of := range []reflect.Type{
		reflect.TypeFor[*Conn](), reflect.TypeFor[*RxQueue](), reflect.TypeFor[*TxQueue](), reflect.TypeFor[*Listener](),
		reflect.TypeFor[*Port](), reflect.TypeFor[*Batch](),
	} {
		for i := range of.NumMethod() {
			method := of.Method(i)
			results := method.Type.NumOut()
			what := of.Elem().Name() + "." + method.Name
			if results > 0 && method.Type.Out(results-1) == fails && !called[what] {
				t.Error(what, "can fail, and isn't called here")
			}
		}
	}
}
