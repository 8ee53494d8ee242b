package memif

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// origin is who answers for what a connection leaves behind: one of its fields says who, none of them is nobody in particular. By nothing
// that a process can have several of at will, such as user ids.
type origin struct {
	address           string // the server there
	device, namespace uint64 // a process namespace other than ours
	process           int32  // of our namespace, or of one that we may not look at
	hidden            uint64 // a process of a namespace that ours doesn't see into, by what else tells it from others
	// All whose process has ended: nobody can tell any more where it was. Whoever has it connect by a process that ends shares with all
	// others who do.
	ended bool
}

// originOf asks the kernel whose a connection is.
func originOf(ctl channel, peer *Credentials) (from origin) {
	if peer == nil {
		return from
	}
	var ours, theirs unix.Stat_t
	place := "/proc/" + strconv.Itoa(int(peer.PID))
	seen := peer.PID != 0 && unix.Stat("/proc/self/ns/pid", &ours) == nil
	looked := seen && unix.Stat(place+"/ns/pid", &theirs) == nil
	// Only now: as long as it hasn't ended, the number is its own.
	number, ended := peerProcess(ctl)
	switch {
	case ended, seen && !looked && unix.Stat(place, &theirs) == unix.ENOENT:
		return origin{ended: true}
	case looked && (ours.Dev != theirs.Dev || ours.Ino != theirs.Ino):
		return origin{device: theirs.Dev, namespace: theirs.Ino}
	case peer.PID != 0:
		return origin{process: peer.PID}
	}
	return origin{hidden: max(number, 1)}
}

// harmless gives the files of these descriptors; instead of each that is neither memory (which alone has seals) nor an eventfd a duplicate
// of standIn, that is refused for the same reason: a thing of a peer is not even asked what it is. It is one for all of them: whoever sends
// many mustn't have us open as many again.
func harmless(fds []int, standIn int, closing closing) ([]*os.File, error) {
	var files []*os.File
	var foreign []int
	var instead *os.File
	var failed error
	for _, fd := range fds {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		if err == nil || isEventfd(fd) {
			files = append(files, os.NewFile(uintptr(fd), "memif-peer"))
			continue
		}
		foreign = append(foreign, fd)
		if instead == nil && failed == nil {
			var own int
			if own, failed = unix.FcntlInt(uintptr(standIn), unix.F_DUPFD_CLOEXEC, 0); failed == nil {
				instead = os.NewFile(uintptr(own), "memif-stand-in")
			}
		}
		if instead != nil {
			files = append(files, instead)
		}
	}
	if len(foreign) > 0 {
		closing.close(len(foreign), func() {
			for _, fd := range foreign {
				closeForeign(fd)
			}
		})
	}
	if failed != nil {
		closing.closeFiles(files)
		return nil, failed
	}
	return files, nil
}

// isEventfd says so. The kernel tells what a descriptor is by its link's name only.
func isEventfd(fd int) bool {
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	return err == nil && name == "anon_inode:[eventfd]"
}

// closeForeign closes what a peer has sent. A socket is told not to linger.
func closeForeign(fd int) {
	// Fails where it is no socket.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	_ = unix.Close(fd)
}

// allowFiles says whether files can be sent to a socket, and to connections that begin from now on. Without effect before Linux 6.16.
func allowFiles(socket int, whether bool) {
	value := 0
	if whether {
		value = 1
	}
	_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, value)
}

// mayHaveFiles says whether files may have been sent to a socket.
func mayHaveFiles(socket int) bool {
	value, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PASSRIGHTS)
	return err != nil || value != 0
}

// acceptPause is how long nobody is accepted after that failed.
const acceptPause = 100 * time.Millisecond
