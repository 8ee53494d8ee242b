package shm

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// punch frees some bytes of a file.
func punch(fd int, from, length int64) error {
	return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, length)
}

// Of huge pages none can be freed either, and those that aren't there needn't be watched.
func TestPagesOfHugeMemoryStay(t *testing.T) {
	file := memory(t, huge, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB)
	if err := unix.Fallocate(int(file.Fd()), 0, 0, huge); err != nil {
		t.Skip("no huge pages:", err)
	}
	region, err := MapRegion(file, huge, SealedMemory, new(Account), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	if err := punch(int(file.Fd()), 0, huge); err != unix.EPERM {
		t.Error("punched:", err)
	}
	if err := unix.Madvise(region.bytes, unix.MADV_REMOVE); err != unix.EPERM {
		t.Error("removed:", err)
	}
}

// Pages behind the end of a file make up for none that it should have before.
func TestPagesBehindTheEndHideNoHoles(t *testing.T) {
	const size, behind = 64 << 10, unix.FALLOC_FL_KEEP_SIZE
	file, account := memory(t, size, 0), new(Account)
	defer file.Close()
	fd := int(file.Fd())
	if err := unix.Fallocate(fd, behind, size, size); err != nil {
		t.Fatal(err)
	}
	region, err := MapRegion(file, size, SealedMemory, account, size)
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	if account.Bytes() != size {
		t.Errorf("%d bytes are on the account", account.Bytes())
	}
	if err := unix.Fallocate(fd, behind, size, size); err != unix.EPERM {
		t.Error("allocated again:", err)
	}
}

// A peer that punches while its region is mapped: what it has punched by then is on the account, and nothing comes later. When that is, and how
// near to the seal, is tried.
func TestHoleIsPunchedDuringTheHandshake(t *testing.T) {
	const size, pages = 64 << 10, 16
	onAccount := 0
	started := time.Now()
	for round := 0; round < 3000 && time.Since(started) < 3*time.Second; round++ {
		file, account := memory(t, size, 0), new(Account)
		fd := int(file.Fd())
		if err := unix.Fallocate(fd, 0, 0, size); err != nil {
			t.Fatal(err)
		}
		var mapping atomic.Bool
		ready, done := make(chan struct{}), make(chan error)
		go func() {
			close(ready)
			for !mapping.Load() {
				runtime.Gosched()
			}
			for started := time.Now(); time.Since(started) < time.Duration(round%100)*200*time.Nanosecond; {
			}
			done <- punch(fd, int64(round%pages)*size/pages, size/pages)
		}()
		<-ready
		mapping.Store(true)
		region, err := MapRegion(file, size, SealedMemory, account, size)
		if err != nil {
			t.Fatal(err)
		}
		if punched := <-done == nil; punched != (account.Bytes() > 0) {
			t.Fatalf("round %d: punched %t, and %d bytes are on the account", round, punched, account.Bytes())
		} else if punched {
			onAccount++
		}
		_, _ = region.Close(), file.Close()
	}
	t.Logf("%d were in time", onAccount)
}

// Seals that are there already, or that can't be added, and whose those are afterwards.
func TestSealsOfAPeer(t *testing.T) {
	const shrink = unix.F_SEAL_SHRINK
	for seals, want := range map[int][3]error{ // for each PeerMemory
		0:                                      {ErrUnsealed, ErrUnsealed, nil},
		unix.F_SEAL_GROW:                       {ErrUnsealed, ErrUnsealed, nil},
		shrink:                                 {},
		shrink | unix.F_SEAL_GROW:              {},
		shrink | unix.F_SEAL_WRITE:             {ErrUnwritable, ErrUnwritable, ErrUnwritable},
		shrink | unix.F_SEAL_FUTURE_WRITE:      {ErrUnwritable, ErrUnwritable, ErrUnwritable},
		shrink | unix.F_SEAL_SEAL:              {ErrUnsealable, nil, nil},
		shrink | keepsPages | unix.F_SEAL_SEAL: {ErrUnwritable, ErrUnwritable, ErrUnwritable},
	} {
		for which, want := range want {
			fd, err := unix.MemfdCreate("peer", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
			if err != nil {
				t.Fatal(err)
			}
			file := os.NewFile(uintptr(fd), "peer")
			defer file.Close()
			if err := file.Truncate(4096); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
				t.Fatal(err)
			}
			region, err := MapRegion(file, 4096, PeerMemory(which), new(Account), 4096)
			if !errors.Is(err, want) {
				t.Errorf("%#x, memory %d: %v, expected %v", seals, which, err, want)
			}
			if err != nil {
				continue
			}
			expected := seals
			if PeerMemory(which) == SealedMemory {
				expected |= keepsPages
			}
			if now, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0); err != nil || now != expected {
				t.Errorf("memory %d: sealed %#x, expected %#x: %v", which, now, expected, err)
			}
			_ = region.Close()
		}
	}
}

// Why a region of ours can't be sealed is said, as the kernel says it.
func TestWhyARegionCantBeSealed(t *testing.T) {
	region, err := CreateRegion("ours", 4096, NoHugePages)
	if err != nil {
		t.Fatal(err)
	}
	defer region.Close()
	if _, err := unix.FcntlInt(region.File().Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	if err := region.KeepPages(); !errors.Is(err, ErrUnsealable) || !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}
