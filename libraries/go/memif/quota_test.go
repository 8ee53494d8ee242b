package memif

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestQuotaOfAllClients: what one interface's client has of the socket's bounds another's can't have, until it is given back.
func TestQuotaOfAllClients(t *testing.T) {
	for _, c := range []struct {
		name   string
		config ListenConfig
		cause  Cause
		option string
	}{
		// One region and a ring each way.
		{"descriptors", ListenConfig{MaxDescriptors: 5}, QuotaOfDescriptors, "MaxDescriptors"},
		{"memory", ListenConfig{MaxMemory: 3 << 19}, QuotaOfMemory, "MaxMemory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			type refusal struct {
				id  *uint32
				err error
			}
			refused := make(chan refusal, 1)
			c.config.Refused = func(id *uint32, err error) { refused <- refusal{id, err} }
			l, err := Listen(abstract(), c.config, ServerConfig{}, ServerConfig{ID: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			// Somewhat less than 1 MiB of region each.
			config := ClientConfig{RingSize: 512, BufferSize: 960, HugePages: NoHugePages}
			dial := func(id uint32) (*Conn, error) {
				config.ID = id
				return Dial(within(t), l.address, config)
			}
			first, err := dial(0)
			if err != nil {
				t.Fatal(err)
			}
			server, err := l.Accept(within(t))
			if err != nil {
				t.Fatal(err)
			}
			_, err = dial(1)
			if !errors.Is(err, Limit) || !strings.Contains(err.Error(), "id 1") || !strings.Contains(err.Error(), c.option) {
				t.Error("the client is told:", err)
			}
			if got := <-refused; got.id == nil || *got.id != 1 || !errors.Is(got.err, c.cause) || !strings.Contains(got.err.Error(), c.option) {
				t.Error("the server is told:", got)
			}
			if _, err := first.WritePacket(make([]byte, 60)); err != nil {
				t.Error("who was there first:", err)
			}
			if _, err := server.ReadPacket(make([]byte, 60)); err != nil {
				t.Error("who was there first:", err)
			}
			_ = first.Close()
			<-server.Done()
			eventually(t, "all is given back", func() bool {
				l.quota.mu.Lock()
				defer l.quota.mu.Unlock()
				return l.quota.descriptors == 0 && l.quota.memory == 0
			})
			second, err := dial(1)
			if err != nil {
				t.Fatal(err)
			}
			_ = second.Close()
		})
	}
}

// TestQuotaIsNoMoreThanThereAre: half of what the process may open, whatever was asked for.
func TestQuotaIsNoMoreThanThereAre(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1000, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	if q := newQuota(8192, 1); q.mostDescriptors != 500 {
		t.Error(q.mostDescriptors)
	}
	if _, err := Listen(abstract(), ListenConfig{MaxDescriptors: -1}); !errors.Is(err, BadSetting) {
		t.Error(err)
	}
}

// TestQuotaOfRingsIsGivenBackFirst: regions can wait to be closed, the descriptors of rings don't.
func TestQuotaOfRingsIsGivenBackFirst(t *testing.T) {
	q := newQuota(3, 100)
	one, other := &share{of: q}, &share{of: q}
	for _, memory := range []uint64{60, 0, 0} {
		if err := one.take(memory); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.take(0); !errors.Is(err, QuotaOfDescriptors) {
		t.Error(err)
	}
	one.closeRings(2)
	if q.descriptors != 1 || q.memory != 60 {
		t.Error(q.descriptors, q.memory)
	}
	if err := other.take(40); err != nil {
		t.Error(err)
	}
	one.close()
	other.close()
	if q.descriptors != 0 || q.memory != 0 {
		t.Error(q.descriptors, q.memory)
	}
}
