package memif

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// punch frees the first size bytes of a file.
func punch(fd int, size int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, size)
}

// keepsItsPages wants that nobody can free pages of a file, by neither way.
func keepsItsPages(t *testing.T, fd int, mapping []byte) {
	t.Helper()
	if err := punch(fd, int64(len(mapping))); err != unix.EPERM {
		t.Error("punched:", err)
	}
	if err := unix.Madvise(mapping, unix.MADV_REMOVE); err != unix.EPERM {
		t.Error("removed:", err)
	}
}

// Who touches a page while its file is punched sleeps until that is over, and can't be woken. So the client of a server can't punch, whether its
// memory was there or not, and goes on as before.
func TestClientCantFreePages(t *testing.T) {
	for name, allocated := range map[string]bool{"allocated": true, "with holes": false} {
		t.Run(name, func(t *testing.T) {
			l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			defer bystander(t, l)()
			raw := newRaw(t, l.address, true)
			if allocated {
				if err := unix.Fallocate(raw.fd, 0, 0, rawRegion); err != nil {
					t.Fatal(err)
				}
			}
			raw.connect(readTable(t))
			conn, err := l.Accept(within(t))
			if err != nil {
				t.Fatal(err)
			}
			keepsItsPages(t, raw.fd, raw.memory)
			copy(raw.memory[rawBuffers:], packetOf(1, 60))
			raw.slot(rawToPeer, 0, 0, 0, 60, rawBuffers)
			raw.head(rawToPeer, 1)
			raw.slot(rawToUs, 0, 0, 0, 2048, rawBuffers+2048)
			raw.head(rawToUs, 1)
			got := readN(t, conn.ReadBatch, 1)
			if _, err := conn.WriteBatch(got); err != nil || !bytes.Equal(raw.memory[rawBuffers+2048:][:60], packetOf(1, 60)) {
				t.Error("not what was sent:", err)
			}
		})
	}
}

// Memory whose pages can't be kept there is refused, and both sides are told why; what is shared, or any, is taken as it is.
func TestSealsOfRegions(t *testing.T) {
	for _, c := range []struct {
		files  string   // one for each region
		causes [3]error // of the last one's refusal, for each PeerMemory
	}{
		{"memory", [3]error{}},
		{"memory another-memory", [3]error{}},
		{"unsealed", [3]error{Unsealed, Unsealed, nil}},
		{"sealed-for-good", [3]error{Unsealable, nil, nil}},
		{"unwritable", [3]error{Unwritable, Unwritable, Unwritable}},
		{"write-sealed", [3]error{Unwritable, Unwritable, Unwritable}},
		{"memory memory", [3]error{Unwritable, nil, nil}},
	} {
		for which, cause := range c.causes {
			which := PeerMemory(which)
			t.Run(c.files+[]string{"", ", shared", ", any"}[which], func(t *testing.T) {
				refused := make(chan error, 1)
				config := ListenConfig{Refused: func(who Refusal) { refused <- who.Reason }}
				l, err := Listen(abstract(), config, ServerConfig{PeerMemory: which})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				defer bystander(t, l)()
				raw := newRaw(t, l.address, true)
				raw.hear([]string{"hello"})
				raw.send(readTable(t).message(t, "init"))
				raw.hear([]string{"ack"})
				files := strings.Fields(c.files)
				for i, file := range files {
					raw.send((&message{kind: msgAddRegion, index: uint16(i), size: rawRegion}).encode(), file)
					if cause == nil || i < len(files)-1 {
						raw.hear([]string{"ack"})
						continue
					}
					words := cause.Error()
					raw.hear([]string{"refused", words[:min(len(words), 95)]})
					if err := <-refused; !errors.Is(err, cause) {
						t.Error(err)
					}
				}
				if which == SealedMemory || files[0] != "memory" {
					return
				}
				seals, err := unix.FcntlInt(uintptr(raw.fd), unix.F_GET_SEALS, 0)
				if err != nil || seals != unix.F_SEAL_SHRINK {
					t.Errorf("sealed by us: %#x, %v", seals, err)
				}
			})
		}
	}
}

// Nor can a server, once the client is connected.
func TestServerCantFreePages(t *testing.T) {
	for name, huge := range map[string]HugePages{"ordinary pages": NoHugePages, "huge pages": RequireHugePages} {
		t.Run(name, func(t *testing.T) {
			server, client := socketPair(t)
			config, err := ClientConfig{HugePages: huge, RingSize: 64, BufferSize: 64}.complete()
			if err != nil {
				t.Fatal(err)
			}
			h := &clientHandshake{channel: client, config: config}
			done := make(chan error, 1)
			go func() {
				err := h.run()
				if err != nil {
					_ = client.socket.Close()
				}
				done <- err
			}()
			var memory *os.File
			for _, answer := range []string{"hello", "ack", "ack", "ack", "ack", "connected"} {
				if err := server.send(mustDecode(t, answer), nil); err != nil {
					t.Fatal(err)
				}
				if answer == "connected" {
					break
				}
				m, files, err := server.receive(true)
				if err != nil {
					if huge == RequireHugePages {
						t.Skip("no huge pages:", <-done)
					}
					t.Fatal(err, <-done)
				}
				if m.kind == msgAddRegion {
					memory = files[0]
					defer memory.Close()
				} else {
					closeFiles(files)
				}
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			conn, err := h.connection("@hostile")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := punch(int(memory.Fd()), int64(h.memory.region.Size())); err != unix.EPERM {
				t.Error("punched:", err)
			}
			if sent, err := conn.TryWriteBatch(packetsOf(3, 60)); sent != 3 || err != nil {
				t.Error(sent, err)
			}
		})
	}
}

func mustDecode(t *testing.T, name string) *message {
	t.Helper()
	m, err := decode(readTable(t).message(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}
