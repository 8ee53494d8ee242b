package memif

import (
	"bytes"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

// Whatever is decoded can be written, and reads the same again.
func FuzzDecode(f *testing.F) {
	for _, v := range readTable(f).messages {
		f.Add(v.bytes)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data)
		if err != nil {
			return
		}
		again, err := decode(m.encode())
		if err != nil || *again != *m {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	})
}

// Any sequence of messages and descriptors, to a server: a byte that says which descriptor comes along, then 128 of the message.
// No panic, nothing left open, and what is connected can be used.
func FuzzServerHandshake(f *testing.F) {
	table := readTable(f)
	var good []byte
	for _, step := range []struct {
		file byte
		name string
	}{{0, "init"}, {1, "region"}, {2, "ring-to-server"}, {2, "ring-from-server"}, {0, "connect"}} {
		good = append(append(good, step.file), table.message(f, step.name)...)
	}
	f.Add(good)
	for _, handshake := range table.handshakes {
		var data []byte
		for _, words := range handshake.lines {
			if words[0] == "send" {
				file := byte(0)
				if len(words) > 2 {
					file = map[string]byte{"memory": 1, "eventfd": 2, "pipe": 3, "unsealed": 4}[words[2]]
				}
				data = append(append(data, file), table.message(f, words[1])...)
			}
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := ServerConfig{MaxRxQueues: 2, MaxTxQueues: 2, MaxRegions: 2}.complete()
		if err != nil {
			t.Fatal(err)
		}
		h := &serverHandshake{claim: func(m *message) (*ServerConfig, *shm.Account, error) {
			return &config, new(shm.Account), config.admit(m)
		}}
		defer func() { h.close() }()
		for ; len(data) > messageSize && !h.connected; data = data[messageSize+1:] {
			m, err := decode(data[1 : messageSize+1])
			if err != nil {
				return
			}
			files := fuzzFiles(t, data[0])
			if _, err := h.receive(m, files); err != nil {
				closeFiles(files)
				return
			}
		}
		for i := range h.rx {
			q := &RxQueue{conn: new(Conn), end: h.rx[i], maxPacket: 1000}
			_ = q.locked(func() error { return q.take(NewBatch(4)) })
		}
	})
}

// Any sequence of messages and descriptors, to a client over a real socket: a byte that says which descriptor comes along, then 128 of the
// message; at the end the server closes. The client says only what is its turn, and comes to an end.
func FuzzClientHandshake(f *testing.F) {
	table := readTable(f)
	ack := append([]byte{0}, table.message(f, "ack")...)
	good := append([]byte{0}, table.message(f, "hello")...)
	for range 4 { // INIT, ADD_REGION, two ADD_RING
		good = append(good, ack...)
	}
	good = append(append(good, 0), table.message(f, "connected")...)
	f.Add(good)
	f.Add(append(slices.Clone(good), ack...))
	f.Add(good[:3*(messageSize+1)])
	f.Add(append(slices.Clone(good[:2*(messageSize+1)]), good[:messageSize+1]...))
	for _, v := range table.messages {
		f.Add(append([]byte{0}, v.bytes...))
		f.Add(append(append([]byte{1}, v.bytes...), ack...))
	}
	config, err := ClientConfig{HugePages: NoHugePages, RingSize: 64, BufferSize: 64}.complete()
	if err != nil {
		f.Fatal(err)
	}
	expected := []messageType{msgInit, msgAddRegion, msgAddRing, msgAddRing, msgConnect}
	f.Fuzz(func(t *testing.T, data []byte) {
		server, client := socketPair(t)
		go func() {
			for ; len(data) > messageSize; data = data[messageSize+1:] {
				files := fuzzFiles(t, data[0])
				var rights []byte
				if len(files) > 0 {
					rights = unix.UnixRights(int(files[0].Fd()))
				}
				_, _, _ = server.socket.WriteMsgUnix(data[1:messageSize+1], rights, nil)
				closeFiles(files)
			}
			_ = server.socket.CloseWrite()
		}()
		_ = client.socket.SetDeadline(time.Now().Add(20 * time.Second))
		h := &clientHandshake{channel: client, config: config}
		err := h.run()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("it waits for ever")
		}
		// As Dial does it.
		if err == nil {
			conn, err := h.connection("@fuzz")
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		} else {
			if h.memory != nil {
				h.memory.close()
			}
			client.farewell(err)
			_ = client.socket.Close()
		}
		for i := 0; ; i++ {
			m, files, err := server.receive(true)
			closeFiles(files)
			if err != nil || m.kind == msgDisconnect {
				break
			}
			if i >= len(expected) || m.kind != expected[i] {
				t.Fatalf("message %d is %s", i, m.kind)
			}
		}
		_ = server.socket.Close()
	})
}

// socketPair are the two ends of a control channel.
func socketPair(t *testing.T) (channel, channel) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]channel
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = channel{conn.(*net.UnixConn), closing{&servers, origin{}}}
	}
	return ends[0], ends[1]
}

func fuzzFiles(t *testing.T, which byte) []*os.File {
	fd, err := -1, error(nil)
	switch which % 5 {
	case 1, 4:
		fd, err = unix.MemfdCreate("fuzz", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err == nil {
			err = unix.Ftruncate(fd, rawRegion)
		}
		if err == nil && which%5 == 1 {
			_, err = unix.Pwrite(fd, []byte{0x20, 0x1f, 0xe3, 3}, rawToPeer)
			_, _ = unix.Pwrite(fd, []byte{0x20, 0x1f, 0xe3, 3}, rawToUs)
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
		}
	case 2:
		fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	case 3:
		fd, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	default:
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return []*os.File{os.NewFile(uintptr(fd), "fuzz")}
}

// Anything in the rings of a connected client: packets or a fault, and nothing written outside of what was posted.
func FuzzRings(f *testing.F) {
	f.Add(uint16(1), uint16(1), []byte{0, 0, 0, 0, 64, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0})
	f.Add(uint16(64), uint16(64), bytes.Repeat([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0}, 64))
	f.Add(uint16(65), uint16(0xffff), []byte{0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, rxHead, txHead uint16, slots []byte) {
		region, err := shm.CreateRegion("fuzz", rawRegion, shm.NoHugePages)
		if err != nil {
			t.Fatal(err)
		}
		table := shm.NewTable([]*shm.Region{region})
		defer table.Close()
		var ends []end
		for _, at := range []uint32{rawToPeer, rawToUs} {
			ring, err := shm.NewRing(table, 0, at, 6)
			if err != nil {
				t.Fatal(err)
			}
			ring.Initialise()
			event, err := shm.NewEvent()
			if err != nil {
				t.Fatal(err)
			}
			defer event.Close()
			all, _ := table.Bytes(0, at+shm.HeaderSize, 64*shm.DescriptorSize)
			copy(all, slots)
			ends = append(ends, end{ring: ring, table: table, event: event, cursor: cursor{size: 64}})
		}
		ends[0].ring.SetHead(rxHead)
		ends[1].ring.SetHead(txHead)
		batch := NewBatch(100)
		rx := &RxQueue{conn: new(Conn), end: ends[0], maxPacket: 5000}
		if err := rx.take(batch); err == nil && rxHead > 64 {
			t.Errorf("head %d was believed", rxHead)
		}
		for _, packet := range batch.Packets() {
			if len(packet) == 0 || len(packet) > 5000 {
				t.Errorf("packet of %d bytes", len(packet))
			}
		}
		tx := &TxQueue{conn: new(Conn), end: ends[1], maxPacket: DefaultMaxPacket}
		if sent, _, err := tx.put([][]byte{packetOf(1, 60), packetOf(2, 3000)}); err == nil && txHead > 64 || sent > int(txHead) {
			t.Errorf("%d sent, %v, head %d", sent, err, txHead)
		}
	})
}
