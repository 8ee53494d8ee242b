package memif

import (
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Credentials say which process is at the other end, as the kernel knows it from the time when it connected; of a server, when it began
// to listen.
type Credentials struct {
	PID int32  // 0: in a process namespace that ours doesn't see into
	UID uint32 // effective user, as our user namespace numbers it
	GID uint32 // effective group, likewise
}

// credentials asks the kernel; nil where it doesn't say.
func (c channel) credentials() (peer *Credentials) {
	_ = c.control(func(fd int) {
		if u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			peer = &Credentials{PID: u.Pid, UID: u.Uid, GID: u.Gid}
		}
	})
	return peer
}

func (c channel) control(use func(fd int)) error {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { use(int(fd)) })
}

// admitPeer says whether the interface is for this process: each list that is not empty must hold it.
func (c *ServerConfig) admitPeer(peer *Credentials, ctl channel) error {
	switch {
	case len(c.AllowUIDs) == 0 && len(c.AllowGIDs) == 0 && c.AllowPIDNamespace == "":
		return nil
	case peer == nil:
		return detail(NotAllowed, "unknown process")
	case len(c.AllowUIDs) > 0 && !slices.Contains(c.AllowUIDs, peer.UID):
		return detail(NotAllowed, "user %d", peer.UID)
	case len(c.AllowGIDs) > 0 && !slices.Contains(c.AllowGIDs, peer.GID):
		return detail(NotAllowed, "group %d", peer.GID)
	case c.AllowPIDNamespace != "" && !livesIn(peer.PID, c.AllowPIDNamespace, ctl):
		return detail(NotAllowed, "process namespace")
	}
	return nil
}

// livesIn says whether a process lives in the namespace that a file stands for.
func livesIn(pid int32, namespace string, ctl channel) bool {
	if pid == 0 {
		return false
	}
	wanted, err := os.Stat(namespace)
	if err != nil {
		return false
	}
	found, err := os.Stat("/proc/" + strconv.Itoa(int(pid)) + "/ns/pid")
	return err == nil && os.SameFile(wanted, found) && !hasEnded(ctl)
}

// hasEnded says whether the process that connected has ended, so that its number may be another's by now. Before Linux 6.5 nobody can
// tell, and the number counts.
func hasEnded(ctl channel) bool {
	_, ended := peerProcess(ctl)
	return ended
}

// peerProcess gives a number that tells the process that connected from others, where the kernel has one (Linux 6.9), and whether it has ended.
func peerProcess(ctl channel) (number uint64, ended bool) {
	_ = ctl.control(func(fd int) {
		process, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if err != nil {
			ended = err != unix.ENOPROTOOPT // nobody waits for its end any more
			return
		}
		defer unix.Close(process)
		var found unix.Stat_t
		if unix.Fstat(process, &found) == nil {
			number = found.Ino
		}
		// Readable once it has ended.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
		ended = n != 0 && err != syscall.EINTR
	})
	return number, ended
}
