package memif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// filesSpace is room for as many descriptors as the kernel lets one message have: what it found no room for it would close itself, and
// a close can take as long as the descriptor's owner likes.
const filesSpace = 253

// farewellTime bounds how long a message may take that nobody waits for.
const farewellTime = 100 * time.Millisecond

// channel is one control connection: messages and descriptors over a seqpacket socket.
type channel struct {
	socket  *net.UnixConn
	closing closing
}

func (c channel) send(m *message, file *os.File) error {
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	_, _, err := c.socket.WriteMsgUnix(m.encode(), rights, nil)
	runtime.KeepAlive(file)
	return channelError(err)
}

// receive waits for a message. The files are the caller's to close. A message that has some where none are due, or whose sender is
// beyond its share of those that wait to be closed, stays where it is.
func (c channel) receive(due bool) (*message, []*os.File, error) {
	buffer := make([]byte, messageSize+1) // one too many is seen as such
	var space []byte
	if due && !c.closing.beyondShare() {
		space = make([]byte, unix.CmsgSpace(4*filesSpace))
	} else if has, err := c.hasFiles(buffer); err != nil || has {
		if due && err == nil {
			return nil, nil, HangingDescriptors
		}
		return nil, nil, cmp.Or(channelError(err), notDue(buffer))
	}
	n, controls, flags, _, err := c.socket.ReadMsgUnix(buffer, space)
	files, failed := c.files(space[:controls])
	err = cmp.Or(err, failed)
	if err == nil && flags&unix.MSG_CTRUNC != 0 {
		err = AncillaryData
		if due && len(files) < filesSpace { // there was space for all: it is we who have no descriptors left
			err = unix.EMFILE
		}
	}
	var m *message
	if err == nil {
		m, err = decode(buffer[:n])
	}
	if err != nil {
		c.closing.closeFiles(files)
		return nil, nil, channelError(err)
	}
	return m, files, nil
}

// readable says whether there is something to receive; on a connection that is up, that is its end.
func (c channel) readable() bool { return c.polled(unix.POLLIN | unix.POLLRDHUP) }

// hungUp says whether the peer has, whatever is still to be received.
func (c channel) hungUp() bool { return c.polled(unix.POLLRDHUP) }

func (c channel) polled(events int16) (is bool) {
	err := c.control(func(fd int) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 0)
		is = n > 0 && err == nil
	})
	return is || err != nil // closed by us
}

// notDue is why a message is refused that came with files while none are due.
func notDue(buffer []byte) error {
	m, err := decode(buffer[:messageSize])
	switch {
	case err != nil:
		return err
	case m.takesFile():
		return detail(UnexpectedMessage, "%s", m.kind)
	}
	return detail(FileDescriptors, "some with %s, which has none", m.kind)
}

// hasFiles waits for a message and says whether files came with it, without taking either.
func (c channel) hasFiles(buffer []byte) (has bool, failed error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return false, err
	}
	err = raw.Read(func(fd uintptr) bool {
		var flags int
		_, _, flags, _, failed = unix.Recvmsg(int(fd), buffer, nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		has = flags&unix.MSG_CTRUNC != 0
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	return has, cmp.Or(err, failed)
}

// close ends the channel. What the peer has left in it is taken first, or it would be told of that instead of why; it can keep that
// waiting for as long as it likes, so others do it.
func (c channel) close() {
	left := true
	_ = c.control(func(fd int) {
		// From now on nothing comes, and a message, even an empty one, is told from the end by its sender's credentials.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		_, _, flags, _, err := unix.Recvmsg(fd, make([]byte, 1), nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err != nil { // told once
			_, _, flags, _, err = unix.Recvmsg(fd, make([]byte, 1), nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		}
		// What was never let in can't be left.
		left = mayHaveFiles(fd) && (err != nil || flags&unix.MSG_CTRUNC != 0)
	})
	if !left {
		_ = c.socket.Close()
		return
	}
	c.closing.close(1, func() {
		_ = c.control(empty)
		_ = c.socket.Close()
	})
}

// empty takes all messages out of a socket to which nothing comes any more.
func empty(fd int) {
	space := make([]byte, unix.CmsgSpace(4*filesSpace)+unix.CmsgSpace(unix.SizeofUcred))
	for errs := 0; errs <= 1; {
		_, n, _, _, err := unix.Recvmsg(fd, make([]byte, 1), space, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != nil { // that the other end didn't listen is told once, and first
			errs++
			continue
		}
		if n == 0 {
			return
		}
		for _, fd := range parseRights(space[:n]) {
			closeForeign(fd)
		}
	}
}

// farewell tells the peer why it is over, if that is news to it.
func (c channel) farewell(reason error) {
	var peer *PeerError
	if !errors.As(reason, &peer) && !errors.Is(reason, PeerClosed) {
		_ = c.socket.SetWriteDeadline(time.Now().Add(farewellTime))
		_ = c.send(&message{kind: msgDisconnect, code: codeOf(reason), reason: reason.Error()}, nil)
	}
}

// files takes all descriptors, so that whatever is not used is closed.
func (c channel) files(space []byte) (files []*os.File, err error) {
	fds := parseRights(space)
	if len(fds) == 0 {
		return nil, nil
	}
	failed := c.control(func(own int) { files, err = harmless(fds, own, c.closing) })
	if failed != nil { // closed by us
		c.closing.close(len(fds), func() {
			for _, fd := range fds {
				closeForeign(fd)
			}
		})
	}
	return files, cmp.Or(failed, err)
}

func parseRights(space []byte) (all []int) {
	controls, err := unix.ParseSocketControlMessage(space)
	if err != nil {
		return nil
	}
	for _, control := range controls {
		if rights, err := unix.ParseUnixRights(&control); err == nil {
			all = append(all, rights...)
		}
	}
	return all
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

func channelError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return PeerClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return HandshakeTimeout
	}
	return err
}

const network = "unixpacket" // SOCK_SEQPACKET

// withAddress uses an address as the system wants it. A socket address holds 108 bytes, paths of Kubernetes volumes are longer: these
// go through the directory's descriptor.
func withAddress(address string, use func(string) error) error {
	const longest = 107
	if len(address) <= longest || strings.HasPrefix(address, "@") {
		return use(address)
	}
	slash := strings.LastIndexByte(address, '/')
	if slash < 0 {
		return use(address) // and be told that it is too long
	}
	directory, err := os.Open(address[:slash+1])
	if err != nil {
		return err
	}
	defer directory.Close()
	return use("/proc/self/fd/" + strconv.Itoa(int(directory.Fd())) + address[slash:])
}

// inNetns makes a socket in another network namespace: one stays in that of the thread that made it, and abstract names are looked
// up there. So a thread that ends right afterwards goes there; others stay where they are.
func inNetns(netns string, open func() error) error {
	if netns == "" {
		return open()
	}
	if !strings.Contains(netns, "/") {
		netns = "/run/netns/" + netns
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		done <- func() error {
			// Whatever it is: a pipe would wait for who writes to it.
			file, err := os.OpenFile(netns, os.O_RDONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				return fmt.Errorf("%w: Netns: %w", BadSetting, err)
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("%w: Netns %q: setns: %w", BadSetting, netns, err)
			}
			return open()
		}()
	}()
	return <-done
}

func dialChannel(ctx context.Context, address, netns string) (channel, error) {
	var conn net.Conn
	err := inNetns(netns, func() error {
		return withAddress(address, func(name string) (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, network, name)
			return err
		})
	})
	if err != nil {
		return channel{}, err
	}
	return channel{conn.(*net.UnixConn), closing{&servers, serverAt(address, netns)}}, nil
}

// serverAt is the origin that the server at an address is.
func serverAt(address, netns string) origin { return origin{address: netns + " " + address} }

func listenSocket(address string, settings ListenConfig) (*net.UnixListener, error) {
	var listener net.Listener
	file, mode := !strings.HasPrefix(address, "@"), settings.FileMode
	config := net.ListenConfig{}
	if file {
		if err := removeStale(address); err != nil {
			return nil, err
		}
		// A socket file is born with the mode of its socket, less the umask: never more open than asked for.
		config.Control = func(_, _ string, raw syscall.RawConn) error {
			var failed error
			err := raw.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), uint32(mode.Perm())) })
			return errors.Join(err, failed)
		}
	}
	err := inNetns(settings.Netns, func() error {
		return withAddress(address, func(name string) (err error) {
			listener, err = config.Listen(context.Background(), network, name)
			return err
		})
	})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, InUse
	case file && errors.Is(err, unix.ENOENT) && !errors.Is(err, BadSetting):
		return nil, fmt.Errorf("%w %s: create it first", NoDirectory, address)
	}
	if err != nil {
		return nil, err
	}
	socket := listener.(*net.UnixListener)
	socket.SetUnlinkOnClose(false) // Listener does, if the file is still ours
	if file {
		if err := settle(address, settings); err != nil {
			return nil, errors.Join(err, socket.Close())
		}
	}
	return socket, nil
}

// settle gives a socket file that was just made its owner and mode. Who may write to its directory may have put something else in its
// place: whatever isn't a new socket of ours, under one name, is left alone.
func settle(path string, settings ListenConfig) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var found unix.Stat_t
	if err := unix.Fstat(fd, &found); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if found.Mode&unix.S_IFMT != unix.S_IFSOCK || found.Nlink != 1 || int(found.Uid) != os.Geteuid() {
		return Replaced
	}
	if uid, gid := or(settings.FileUID, -1), or(settings.FileGID, -1); uid != -1 || gid != -1 {
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return &os.PathError{Op: "chown", Path: path, Err: err}
		}
	}
	// The file that is open, whatever the path leads to by now.
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), settings.FileMode)
}

// checkAddress says whether there can be such a socket at all.
func checkAddress(address string) error {
	name, abstract := strings.CutPrefix(address, "@")
	slash := strings.LastIndexByte(name, '/')
	long, file := len(name) > 107, len(name)-1-slash // what is long goes through its directory's descriptor
	var why string
	switch {
	case name == "":
		why = "it is empty"
	case strings.IndexByte(name, 0) >= 0:
		why = "it contains a NUL"
	case long && abstract:
		why = "an abstract name has at most 107 bytes"
	case long && (slash < 0 || file == 0):
		why = "a path of more than 107 bytes must name a directory and a file in it"
	case long && file > 80:
		why = "a file in a directory, with a path of more than 107 bytes, has a name of at most 80"
	default:
		return nil
	}
	return detail(BadSetting, "socket address %q: %s", address, why)
}

// removeStale removes a socket file that nobody listens at.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s %w: remove it or choose another path", path, NotASocket)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	channel, err := dialChannel(ctx, path, "")
	if err == nil {
		channel.close()
		return InUse
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return InUse // by another protocol, or with a full backlog
	}
	return os.Remove(path)
}
