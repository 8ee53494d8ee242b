package memif

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"quiver/memif/internal/shm"
)

func TestConstantsOfTheTable(t *testing.T) {
	table := readTable(t)
	here := map[string]uint64{
		"message-size": messageSize, "cookie": shm.Cookie, "ring-descriptors-at": shm.HeaderSize,
		"ring-alignment": shm.Alignment, "descriptor-size": shm.DescriptorSize,
		"descriptor-flag-next": shm.FlagNext, "log2-ring-size-max": shm.MaxLog2,
	}
	for name, value := range here {
		if there, ok := table.constants[name]; !ok || there != value {
			t.Errorf("%s: %d here, %d in the table", name, value, there)
		}
	}
	region, err := shm.CreateRegion("test", 4096, shm.NoHugePages)
	if err != nil {
		t.Fatal(err)
	}
	all := shm.NewTable([]*shm.Region{region})
	defer all.Close()
	ring, err := shm.NewRing(all, 0, 0, 6)
	if err != nil {
		t.Fatal(err)
	}
	ring.Initialise()
	ring.SetHead(0x0201)
	ring.SetTail(0x0403)
	ring.MaskInterrupt(true)
	places := map[string][]byte{
		"ring-cookie-at": binary.LittleEndian.AppendUint32(nil, uint32(table.constants["cookie"])),
		"ring-head-at":   {1, 2}, "ring-tail-at": {3, 4},
		"ring-flags-at": binary.LittleEndian.AppendUint16(nil, uint16(table.constants["ring-flag-mask-interrupt"])),
	}
	for name, want := range places {
		at, ok := table.constants[name]
		if found, _ := all.Bytes(0, uint32(at), uint32(len(want))); !ok || !bytes.Equal(found, want) {
			t.Errorf("%s: %x at %d, expected %x", name, found, at, want)
		}
	}
	for name := range table.constants {
		if _, here := here[name]; !here && places[name] == nil && name != "ring-flag-mask-interrupt" {
			t.Errorf("nobody looks at %s", name)
		}
	}
}

// fieldsOf are a message's fields under the table's names.
func fieldsOf(m *message) map[string]any {
	secret := strings.TrimRight(string(m.secret[:]), "\x00")
	return map[string]any{
		"name": m.name, "min_version": m.minVersion, "max_version": m.maxVersion, "max_region": m.maxRegion,
		"max_m2s_ring": m.maxRingToClient, "max_s2m_ring": m.maxRingToServer, "max_log2_ring_size": m.maxLog2,
		"version": m.version, "id": m.id, "mode": m.mode, "secret": secret, "index": m.index, "size": m.size,
		"flags": m.flags, "region": m.region, "offset": m.offset, "log2_ring_size": m.log2,
		"private_hdr_size": m.privateHeader, "code": m.code, "reason": m.reason,
	}
}

func TestMessagesOfTheTable(t *testing.T) {
	for _, v := range readTable(t).messages {
		m, err := decode(v.bytes)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		if m.kind.String() != v.kind {
			t.Errorf("%s is %s", v.name, m.kind)
		}
		for field, here := range fieldsOf(m) {
			want, given := v.fields[field]
			if _, text := here.(string); !text {
				want = fmt.Sprint(number(t, or(want, "0")))
			}
			if fmt.Sprint(here) != want {
				t.Errorf("%s: %s is %v, expected %q (given: %v)", v.name, field, here, want, given)
			}
		}
		if again := m.encode(); !bytes.Equal(again, v.bytes) {
			t.Errorf("%s is written as\n%s", v.name, hex.Dump(again))
		}
	}
}

func TestRejectsOfTheTable(t *testing.T) {
	for _, v := range readTable(t).rejects {
		if _, err := decode(v.bytes); err == nil || !strings.Contains(err.Error(), v.kind) {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

func TestDescriptorsOfTheTable(t *testing.T) {
	region, err := shm.CreateRegion("test", 4096, shm.NoHugePages)
	if err != nil {
		t.Fatal(err)
	}
	table := shm.NewTable([]*shm.Region{region})
	defer table.Close()
	ring, err := shm.NewRing(table, 0, 0, 6)
	if err != nil {
		t.Fatal(err)
	}
	for i, words := range readTable(t).descriptors {
		n := func(i int) uint64 { return number(t, words[i]) }
		d := shm.Descriptor{Flags: uint16(n(0)), Region: uint16(n(1)), Length: uint32(n(2)), Offset: uint32(n(3))}
		ring.SetDescriptor(uint16(i), d)
		at, _ := table.Bytes(0, uint32(shm.HeaderSize+i*shm.DescriptorSize), shm.DescriptorSize)
		if hex.EncodeToString(at) != words[4] || ring.Descriptor(uint16(i)) != d {
			t.Errorf("%v is written as %x, read as %v", words, at, ring.Descriptor(uint16(i)))
		}
	}
}

// tableServer is what the table speaks of, with a bystander.
func tableServer(t *testing.T) *Listener {
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{}, ServerConfig{ID: 1, Secret: "quiver"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Cleanup(bystander(t, l))
	return l
}

func TestHandshakesOfTheTable(t *testing.T) {
	table := readTable(t)
	for _, handshake := range table.handshakes {
		t.Run(handshake.words[0], func(t *testing.T) {
			raw := newRaw(t, tableServer(t).address, true)
			raw.hear([]string{"hello"})
			for _, words := range handshake.lines {
				if words[0] == "send" {
					raw.send(table.message(t, words[1]), words[2:]...)
				} else {
					raw.hear(words[1:])
				}
			}
		})
	}
}

// connected is a server's connection with a raw client that has the usual rings, or these.
func connected(t *testing.T, table *table, rings ...string) (*Conn, *rawClient) {
	l := tableServer(t)
	raw := newRaw(t, l.address, true)
	raw.connect(table, rings...)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return conn, raw
}

// checkFault wants an error with the phrase, and the peer to be told the same.
func checkFault(t *testing.T, raw *rawClient, err error, word string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), phrase(word)) {
		t.Fatalf("expected %q, got %v", phrase(word), err)
	}
	raw.hear([]string{"refused", word})
}

func TestReceptionsOfTheTable(t *testing.T) {
	table := readTable(t)
	for _, entry := range table.receives {
		t.Run(entry.words[0], func(t *testing.T) {
			var large []string
			if entry.large() {
				large = []string{"large-to-server"}
			}
			conn, raw := connected(t, table, large...)
			for i := range raw.memory[rawBuffers:] {
				raw.memory[rawBuffers+i] = byte(i)
			}
			expected := raw.write(rawToPeer, entry.lines)
			batch := NewBatch(64)
			_, err := conn.TryReadBatch(batch)
			if expected[0] == "fault" {
				checkFault(t, raw, err, expected[1])
				return
			}
			if err != nil || batch.Len() != len(expected)-1 {
				t.Fatalf("%d packets, %v", batch.Len(), err)
			}
			for i, packet := range batch.Packets() {
				if uint64(len(packet)) != number(t, expected[i+1]) {
					t.Errorf("packet of %d bytes, expected %s", len(packet), expected[i+1])
				}
			}
		})
	}
}

func TestTransmissionsOfTheTable(t *testing.T) {
	table := readTable(t)
	for _, entry := range table.transmits {
		t.Run(entry.words[0], func(t *testing.T) {
			var large []string
			if entry.large() {
				large = []string{"large-from-server"}
			}
			conn, raw := connected(t, table, large...)
			expected := raw.write(rawToUs, entry.lines)
			before := bytes.Clone(raw.memory[rawBuffers:])
			packet := packetOf(1, int(number(t, entry.words[1])))
			sent, err := conn.TryWriteBatch([][]byte{packet})
			if expected[0] == "fault" {
				checkFault(t, raw, err, expected[1])
				if !bytes.Equal(before, raw.memory[rawBuffers:]) {
					t.Error("something was written")
				}
				return
			}
			if err != nil || sent != 1 {
				t.Fatalf("%d sent, %v", sent, err)
			}
			for _, word := range expected[1:] {
				at := number(t, word)
				n := min(2048, len(packet))
				if !bytes.Equal(raw.memory[at:at+uint64(n)], packet[:n]) {
					t.Errorf("not what was sent at %d", at)
				}
				packet = packet[n:]
			}
		})
	}
}

// packetOf is a packet whose bytes say which it is and where each belongs.
func packetOf(n, length int) []byte {
	packet := make([]byte, length)
	for i := range packet {
		packet[i] = byte(n*131 + i*7 + i/256)
	}
	return packet
}
