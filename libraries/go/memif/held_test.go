package memif

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hold has whoever seals a file wait: something is written to it from a page that doesn't come before let go, which is to be deferred.
func hold(t *testing.T, fd int) (letGo func()) {
	t.Helper()
	faults, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0)
	if errno != 0 {
		if os.Getenv("QUIVER_REQUIRE_ROOT") != "" {
			t.Fatal("no userfaultfd:", errno)
		}
		t.Skip("no userfaultfd:", errno)
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(page))))
	api := [3]uint64{0xaa, 0, 0}
	register := [4]uint64{start, uint64(len(page)), 1, 0}
	for _, one := range []struct {
		request uintptr
		of      unsafe.Pointer
	}{{0xc018aa3f, unsafe.Pointer(&api)}, {0xc020aa00, unsafe.Pointer(&register)}} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, faults, one.request, uintptr(one.of)); errno != 0 {
			t.Fatal(errno)
		}
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		// Not by the slice: the race detector would touch the page itself.
		_, _, _ = unix.Syscall(unix.SYS_WRITE, uintptr(fd), uintptr(start), uintptr(len(page)))
	}()
	// The fault is told: the writer has the file's lock, and waits.
	if _, err := unix.Read(int(faults), make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = unix.Close(int(faults))
		<-written
		_ = unix.Munmap(page)
	}
}

func (a *apart) state() places {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

// announce announces memory for an interface in the name of a raw client, up to the point where the server maps it.
func (r *rawClient) announce(t *testing.T, id uint32) {
	t.Helper()
	r.hear([]string{"hello"})
	r.send((&message{kind: msgInit, version: version, id: id}).encode())
	r.hear([]string{"ack"})
	r.send(readTable(t).message(t, "region"), "memory")
}

// A client that holds the file of its region keeps the goroutine that maps it, and its handshake until that is out of time: it is told, and so
// are we. What it has stays on the quota until the file is let go, and its interface is nobody's, so that one region hangs for each and no more.
// As many as there may be of an origin keep its others out, and nobody else.
func TestRegionWhoseFileIsHeld(t *testing.T) {
	refused := make(chan error, 16)
	config := ListenConfig{Timeout: 5 * time.Second, Refused: func(who Refusal) {
		switch {
		case errors.Is(who.Reason, PeerClosed): // those that are served
		case who.ID == nil || *who.ID == 0:
			t.Error("of another interface:", who.Reason)
		default:
			refused <- who.Reason
		}
	}}
	const held, free = 1, mostOfOrigin + 1 // ids, from the first one on; 0 is for others
	var interfaces []ServerConfig
	for id := range uint32(free + 1) {
		interfaces = append(interfaces, ServerConfig{ID: id})
	}
	l, err := Listen(abstract(), config, interfaces...)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	used := l.quota.taken()
	type holder struct {
		*rawClient
		started time.Time
		letGo   func()
	}
	var holders []holder
	for n := range mostOfOrigin {
		started := time.Now()
		raw := newRaw(t, l.address, true)
		letGo := sync.OnceFunc(hold(t, raw.fd))
		defer letGo()
		holders = append(holders, holder{raw, started, letGo})
		raw.announce(t, held+uint32(n))
		eventually(t, "a goroutine is at it", func() bool { return mappings.state().taken == n+1 })
	}
	isRefused := func(raw *rawClient, words string, cause error) {
		t.Helper()
		raw.hear([]string{"refused", words})
		if err := <-refused; !errors.Is(err, cause) {
			t.Error(err)
		}
	}
	for _, one := range holders {
		isRefused(one.rawClient, "handshake timed out: the file of region 0 is held: end whoever writes to it or punches it", HandshakeTimeout)
		if took := time.Since(one.started); took < config.Timeout {
			t.Error("out of time after", took)
		}
	}
	all := places{mostOfOrigin, mostOfOrigin}
	eventually(t, "they are left", func() bool { return mappings.state() == all })
	for n := range holders {
		next := newRaw(t, l.address, true)
		next.hear([]string{"hello"})
		next.send((&message{kind: msgInit, version: version, id: held + uint32(n)}).encode())
		isRefused(next, string(HangingRegion), HangingRegion)
	}
	anotherIsServed(t, l.address)
	next := newRaw(t, l.address, true)
	next.announce(t, free)
	isRefused(next, string(HangingRegions), HangingRegions)
	anotherIsServed(t, l.address)
	if now := mappings.state(); now != all {
		t.Error(now)
	}
	want := amounts{used[ofDescriptors] + mostOfOrigin, used[ofMemory] + mostOfOrigin*rawRegion}
	eventually(t, "the quota has what hangs", func() bool { return l.quota.taken() == want })
	for _, one := range holders {
		one.letGo()
	}
	eventually(t, "all is given back", func() bool { return mappings.state() == places{} && l.quota.taken() == used })
	for n := range holders {
		join(t, l, ClientConfig{ID: held + uint32(n), RingSize: 64})
	}
	t.Cleanup(func() { eventually(t, "all is given back", func() bool { return l.quota.taken() == amounts{} }) })
}

// Nor does it keep the interface from being taken down, and up again, where it is nobody's before the file is let go. Who seals waits for the
// file, and so does who only looks for holes.
func TestHeldRegionIsTakenDown(t *testing.T) {
	for name, which := range map[string]PeerMemory{"sealed": SealedMemory, "shared": SharedMemory, "any": AnyMemory} {
		t.Run(name, func(t *testing.T) { heldRegionIsTakenDown(t, which) })
	}
}

func heldRegionIsTakenDown(t *testing.T, which PeerMemory) {
	l, err := Listen(abstract(), ListenConfig{Timeout: time.Hour}, ServerConfig{PeerMemory: which})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	raw := newRaw(t, l.address, true)
	letGo := sync.OnceFunc(hold(t, raw.fd))
	defer letGo()
	raw.announce(t, 0)
	eventually(t, "a goroutine is at it", func() bool { return mappings.state().taken == 1 })
	if err := l.AdminDown(0, "held"); err != nil {
		t.Fatal(err)
	}
	raw.hear([]string{"refused", "administratively down: held"})
	if err := l.AdminUp(0); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(within(t), l.address, ClientConfig{HugePages: NoHugePages}); !errors.Is(err, Limit) || !strings.Contains(err.Error(), string(HangingRegion)) {
		t.Error(err)
	}
	if now := mappings.state(); now != (places{1, 1}) {
		t.Error(now)
	}
	letGo()
	eventually(t, "all is given back", func() bool { return mappings.state() == places{} })
	server, client := join(t, l, ClientConfig{HugePages: NoHugePages})
	_, _ = client.Close(), server.Close()
}

// holder is a server that has the file of its client's region held, by the time that the client is connected.
func holder(t *testing.T, address string) {
	t.Helper()
	socket, err := listenSocket(address, ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		for {
			accepted, err := socket.AcceptUnix()
			if err != nil {
				return
			}
			ctl := channel{socket: accepted, closing: closing{new(closers), origin{}}}
			t.Cleanup(func() { _ = ctl.socket.Close() })
			for _, answer := range []string{"hello", "ack", "ack", "ack", "ack", "connected"} {
				if err := ctl.send(mustDecode(t, answer), nil); err != nil || answer == "connected" {
					break
				}
				m, files, err := ctl.receive(true)
				if err != nil {
					break
				}
				if m.kind == msgAddRegion {
					t.Cleanup(hold(t, int(files[0].Fd())))
				}
				closeFiles(files)
			}
		}
	}()
}

// A server that holds the file of its client's region keeps a goroutine, and no call: Dial ends with its context, or when it is out of time, the
// memory is given back once the file is let go, and as many as there may be of a server keep it out, and no other.
func TestServerThatHoldsOurRegion(t *testing.T) {
	letGo := hold(t, memfd(t, rawRegion, true)) // or be skipped
	letGo()
	l, err := Listen(abstract(), ListenConfig{}, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	t.Run("held", func(t *testing.T) {
		t.Cleanup(func() { eventually(t, "all is given back", func() bool { return mappings.state() == places{} }) })
		address, config := abstract(), ClientConfig{HugePages: NoHugePages, RingSize: 64, Timeout: patience}
		holder(t, address)
		cancelled, cancel := context.WithCancel(within(t))
		defer cancel()
		late, stop := context.WithTimeout(within(t), 5*time.Second)
		defer stop()
		var dials sync.WaitGroup
		for n := range mostOfOrigin {
			ctx, config, want := cancelled, config, context.Canceled
			switch n {
			case 0:
				ctx, want, config.Timeout = within(t), HandshakeTimeout, 5*time.Second
			case 1:
				ctx, want = late, context.DeadlineExceeded
			}
			dials.Go(func() {
				_, err := Dial(ctx, address, config)
				if !errors.Is(err, want) || !strings.Contains(err.Error(), address) {
					t.Errorf("%v, expected %v", err, want)
				}
				if n == 0 && !strings.Contains(err.Error(), "the file of region 0 is held") {
					t.Error(err)
				}
			})
		}
		eventually(t, "all are at it", func() bool { return mappings.state().taken == mostOfOrigin })
		cancel()
		dials.Wait()
		if now := mappings.state(); now != (places{mostOfOrigin, mostOfOrigin}) {
			t.Error(now)
		}
		if _, err := Dial(within(t), address, config); !errors.Is(err, HangingRegions) {
			t.Error(err)
		}
		server, client := join(t, l, ClientConfig{})
		_, _ = client.Close(), server.Close()
	})
}
