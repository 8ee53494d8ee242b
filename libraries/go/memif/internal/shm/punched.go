package shm

import (
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What userfaultfd(2) takes.
type (
	uffdAPI      struct{ api, features, ioctls uint64 }
	uffdRegister struct{ start, length, mode, ioctls uint64 }
)

const (
	uffdVersion         = 0xaa
	uffdioAPI           = 0xc018aa3f
	uffdioRegister      = 0xc020aa00
	uffdRegisterMissing = 1
	// Faults are answered with a signal at once, also those in system calls, which fail with EFAULT.
	uffdFeatureSigbus = 1 << 7
	// What needs no privilege: faults of the kernel's own accesses can't be held up.
	uffdUserModeOnly = 1
)

// userfault is one for the process: a mapping that is registered stays so until it is unmapped.
var userfault = sync.OnceValues(func() (uintptr, error) {
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserModeOnly, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	api := uffdAPI{api: uffdVersion, features: uffdFeatureSigbus}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdioAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		_ = unix.Close(int(fd))
		return 0, errno
	}
	return fd, nil
})

// NoticesPunchedHoles says why they aren't noticed, where the process may have no userfaultfd.
func NoticesPunchedHoles() error {
	_, err := userfault()
	return err
}

// forbidHoles has every touch of a page of a mapping that its file doesn't have be a SIGBUS, and so ErrLost: we would pay for what we touch
// there. For regions of huge pages, whatever holes they have, and for all without holes: a peer may punch some into a file that we don't seal, and
// one that we do seal has none to touch. Needs no privilege (Linux 5.11), but there are seccomp profiles that refuse the system call.
func forbidHoles(mapping []byte) error {
	fd, err := userfault()
	if err != nil {
		return err
	}
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mapping))))
	register := uffdRegister{start: start, length: uint64(len(mapping)), mode: uffdRegisterMissing}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdioRegister, uintptr(unsafe.Pointer(&register)))
	runtime.KeepAlive(mapping)
	if errno != 0 {
		return errno
	}
	return nil
}
