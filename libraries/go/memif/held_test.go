package memif

import (
	"context"
	"errors"
	"os"
	"strings"
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

// announce announces memory in the name of a raw client, up to the point where the server maps it.
func (r *rawClient) announce(t *testing.T) {
	t.Helper()
	table := readTable(t)
	r.hear([]string{"hello"})
	r.send(table.message(t, "init"))
	r.hear([]string{"ack"})
	r.send(table.message(t, "region"), "memory")
}

// A client that holds the file of its region keeps the goroutine that maps it, and its handshake until that is out of time: it is told, so are
// we, and the interface is the next one's. What it has stays on the quota until the file is let go. As many as there may be of an origin keep
// its others out, and nobody else.
func TestRegionWhoseFileIsHeld(t *testing.T) {
	refused := make(chan error, 16)
	config := ListenConfig{Timeout: time.Second, Refused: func(id *uint32, reason error) {
		switch {
		case errors.Is(reason, PeerClosed): // those that are served
		case id == nil || *id != 0:
			t.Error("of no interface:", reason)
		default:
			refused <- reason
		}
	}}
	l, err := Listen(abstract(), config, ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer bystander(t, l)()
	used := l.quota.taken()
	for n := 1; n <= mostOfOrigin; n++ {
		raw := newRaw(t, l.address, true)
		defer hold(t, raw.fd)()
		started := time.Now()
		raw.announce(t)
		eventually(t, "a goroutine is at it", func() bool { return mappings.state().taken == n })
		raw.hear([]string{"refused", "handshake timed out: the file of region 0 is held: end whoever writes to it or punches it"})
		if took := time.Since(started); took < config.Timeout-100*time.Millisecond || took > config.Timeout+time.Second {
			t.Error("out of time after", took)
		}
		if err := <-refused; !errors.Is(err, HandshakeTimeout) {
			t.Error(err)
		}
		eventually(t, "it is left", func() bool { return mappings.state() == places{n, n} })
		now := l.quota.taken()
		if want := (amounts{used[ofDescriptors] + uint64(n), used[ofMemory] + uint64(n)*rawRegion}); now != want {
			t.Errorf("%d are held: the quota has %v, expected %v", n, now, want)
		}
		if n == 1 {
			anotherIsServed(t, l.address)
		}
	}
	raw := newRaw(t, l.address, true)
	raw.announce(t)
	raw.hear([]string{"refused", string(HangingRegions)})
	if err := <-refused; !errors.Is(err, HangingRegions) {
		t.Error(err)
	}
	anotherIsServed(t, l.address)
	t.Cleanup(func() {
		eventually(t, "all is given back", func() bool { return mappings.state() == places{} && l.quota.taken() == amounts{} })
	})
}

// Nor does it keep the interface from being taken down, and up again. Who seals waits for the file, and so does who only looks for holes.
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
	letGo := hold(t, raw.fd)
	raw.announce(t)
	eventually(t, "a goroutine is at it", func() bool { return mappings.state().taken == 1 })
	if err := l.AdminDown(0, "held"); err != nil {
		t.Fatal(err)
	}
	raw.hear([]string{"refused", "administratively down: held"})
	if err := l.AdminUp(0); err != nil {
		t.Fatal(err)
	}
	server, client := join(t, l, ClientConfig{HugePages: NoHugePages})
	_, _ = client.Close(), server.Close()
	if now := mappings.state(); now != (places{1, 1}) {
		t.Error(now)
	}
	letGo()
	eventually(t, "all is given back", func() bool { return mappings.state() == places{} })
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
		for n := 1; n <= mostOfOrigin; n++ {
			ctx, cancel := context.WithCancel(within(t))
			var want error
			switch n {
			case 1:
				want, config.Timeout = HandshakeTimeout, time.Second
			case 2:
				want, config.Timeout = context.DeadlineExceeded, patience
				ctx, cancel = context.WithTimeout(ctx, time.Second)
			default:
				want = context.Canceled
				go func() {
					for mappings.state().taken < n {
						time.Sleep(time.Millisecond)
					}
					cancel()
				}()
			}
			_, err := Dial(ctx, address, config)
			cancel()
			if !errors.Is(err, want) || !strings.Contains(err.Error(), address) {
				t.Error(n, err)
			}
			if n == 1 && !strings.Contains(err.Error(), "the file of region 0 is held") {
				t.Error(err)
			}
			if now := mappings.state(); now != (places{n, n}) {
				t.Error(n, now)
			}
		}
		if _, err := Dial(within(t), address, config); !errors.Is(err, HangingRegions) {
			t.Error(err)
		}
		server, client := join(t, l, ClientConfig{})
		_, _ = client.Close(), server.Close()
	})
}
