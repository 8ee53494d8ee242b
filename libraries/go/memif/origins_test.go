package memif

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// container is a process namespace of its own whose first process keeps connections: each is made by a child, under another user, that ends at
// once ("ends") or stays ("stays"). It makes as many as its input has lines, and says of each what it was told first.
type container struct {
	in   io.WriteCloser
	said *bufio.Reader
}

const containerProgram = `
import os, socket, struct, sys, time
kept = []
for number, line in enumerate(sys.stdin):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept.append(s)
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(1000 + number)
        os.setuid(1000 + number)
        s.connect("\0" + sys.argv[1][1:])
        os.write(tell, b"x")
        if sys.argv[2] == "ends":
            os._exit(0)
        time.sleep(1000)
    os.read(told, 1)
    if sys.argv[2] == "ends":
        os.waitpid(child, 0)
    message = s.recv(128)
    print("hello" if struct.unpack("<H", message[:2])[0] == 2 else message[6:102].split(b"\0")[0].decode(), flush=True)
`

func newContainer(t *testing.T, address, children string) *container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: no process namespace can be made")
	}
	command := exec.Command("unshare", "--pid", "--fork", "--kill-child", "python3", "-c", containerProgram, address, children)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = command.Process.Kill(), command.Wait() })
	return &container{in, bufio.NewReader(out)}
}

// connect makes one more connection; gives what it was told.
func (c *container) connect(t *testing.T) string {
	t.Helper()
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		t.Fatal(err)
	}
	line, err := c.said.ReadString('\n')
	if err != nil {
		t.Fatal(line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// origins counts the handshakes that are under way.
func (l *Listener) origins() map[origin]int {
	l.handshakes.mu.Lock()
	defer l.handshakes.mu.Unlock()
	all := map[origin]int{}
	for _, one := range l.handshakes.list {
		all[one.channel.closing.origin]++
	}
	return all
}

// A container that has its connections made by processes that end, of as many users as it likes, is one origin all the same: what it may leave
// to be closed is one share, and its storm pushes nobody else out of a handshake, however old.
func TestContainerIsOneOrigin(t *testing.T) {
	for _, children := range []string{"ends", "stays"} {
		t.Run(children, func(t *testing.T) {
			l, err := Listen(abstract(), ListenConfig{MaxHandshakes: 4}, ServerConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			defer bystander(t, l)()
			slow := startSlowClient(t, l.address)
			before := l.origins()
			bad := newContainer(t, l.address, children)
			for range 12 {
				if told := bad.connect(t); told != "hello" {
					t.Fatal(told)
				}
			}
			// Who connected may not have ended yet when it was accepted: then it is known where it is.
			var theirs []origin
			for one := range l.origins() {
				switch {
				case before[one] > 0:
				case one.ended && children == "ends", one.namespace != 0:
					theirs = append(theirs, one)
				default:
					t.Errorf("%+v", one)
				}
			}
			if len(theirs) == 0 || len(theirs) > 2 || children == "stays" && len(theirs) > 1 {
				t.Errorf("%+v", theirs)
			}
			slow.isServed(t)
			hang := make(chan struct{})
			defer close(hang)
			for _, one := range theirs {
				closing{&l.closers, one}.close(mostShare, func() { <-hang })
			}
			refused := 0
			for range 4 {
				if bad.connect(t) == string(HangingDescriptors) {
					refused++
				}
			}
			if refused == 0 {
				t.Error("it goes on under another name")
			}
			anotherIsServed(t, l.address)
		})
	}
}
