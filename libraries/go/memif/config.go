package memif

import (
	"fmt"
	"io/fs"
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"quiver/memif/internal/shm"
)

// Mode says what packets begin with.
type Mode uint8

const (
	// Ethernet packets begin with an Ethernet header.
	Ethernet Mode = 0
	// IP packets begin with an IPv4 or IPv6 header.
	IP Mode = 1
	// PuntInject packets do, too. The mode says what they are: received ones are a dataplane's own packets that nothing in it takes, sent
	// ones are sent as its own. The protocol gives the mode its number only; this meaning is Quiver's.
	PuntInject Mode = 2
)

func (m Mode) String() string {
	switch m {
	case Ethernet:
		return "ethernet"
	case IP:
		return "ip"
	case PuntInject:
		return "punt-inject"
	}
	return "unknown"
}

// HugePages says whether a client's region should stand on huge pages.
type HugePages = shm.HugePages

// Choices for [HugePages].
const (
	TryHugePages     = shm.TryHugePages
	NoHugePages      = shm.NoHugePages
	RequireHugePages = shm.RequireHugePages
)

// PeerMemory says which memory of clients a server takes, by what they can still do to it.
type PeerMemory = shm.PeerMemory

// Choices for [PeerMemory].
const (
	SealedMemory = shm.SealedMemory
	SharedMemory = shm.SharedMemory
	AnyMemory    = shm.AnyMemory
)

// DefaultMaxPacket is the largest IPv4 packet in an Ethernet frame with a VLAN tag, in bytes. Longer ones can't be sent, unless our own
// MaxPacket says that both sides take more.
const DefaultMaxPacket = 65535 + 18

// DefaultStallTimeout is how long a write waits for a peer that takes nothing, where the settings don't say.
const DefaultStallTimeout = 10 * time.Second

// ClientConfig is an interface that connects to a server. A field that is zero has the default of its comment.
type ClientConfig struct {
	ID          uint32        // which interface of the server
	Mode        Mode          // ethernet
	Secret      string        // if the server wants one: up to 24 bytes without NUL
	Name        string        // of the interface, told to the server: "memif"; cut to 31 bytes
	Application string        // name of this application: "memif"; cut to 31 bytes
	RxQueues    int           // queues to receive from: 1. The server may allow fewer
	TxQueues    int           // queues to send to: 1. The server may allow fewer
	RingSize    int           // descriptors of every ring, a power of two from 64 to 16384: 1024. The server may allow fewer
	BufferSize  int           // bytes of every buffer, 64 to 65536: 2048. Longer packets are chained
	MaxPacket   int           // longest packet to receive, in bytes: DefaultMaxPacket
	HugePages   HugePages     // TryHugePages
	Netns       string        // file of the network namespace that an abstract socket is in: ours
	Timeout     time.Duration // from connecting to CONNECTED: 5 s
	// StallTimeout is how long a write waits for a peer that takes nothing at all before it gives up with *PeerStalled: DefaultStallTimeout;
	// for ever, or until its deadline, if negative.
	StallTimeout time.Duration
}

// ServerConfig is an interface that waits for a client. A field that is zero has the default of its comment.
type ServerConfig struct {
	ID          uint32 // told apart by it on one socket
	Mode        Mode   // ethernet; the client must have the same
	Secret      string // that the client must know: none
	Name        string // of the interface, told to the client: "memif"; cut to 31 bytes
	MaxRxQueues int    // most queues to receive from, up to 256: 256
	MaxTxQueues int    // most queues to send to, up to 256: 256
	MaxRingSize int    // 16384
	MaxRegions  int    // up to 256: 256
	MaxMemory   uint64 // bytes of all regions together: 1 GiB
	// MaxHoles is the bytes that clients can make us pay for, one after the other: 1 GiB. Pages that a client left empty are charged to
	// whoever touches them first, and stay so as long as anybody keeps the memory, also when its connection has long ended. What its
	// regions with holes have grown to is therefore on the interface's account until they are gone, or that is registered anew, and
	// regions with holes for which there is no room on it are refused. A client that allocates its memory before it connects, or gives it
	// back when it goes, may come as often as it likes.
	MaxHoles  uint64
	MaxPacket int // longest packet to receive, in bytes: DefaultMaxPacket
	// PeerMemory says which memory is taken: SealedMemory. Regions must be sealed against shrinking then, and are sealed by us against
	// growing and future writing when we have mapped them: their pages can't be freed, nor the same file be announced again. SharedMemory
	// and AnyMemory can be announced by several clients, and as often as they like. One that punches holes into memory that had none loses
	// its connection (MemoryLost), where the process may have a userfaultfd, and as long as it punches it can have whoever touches the pages
	// sleep; so does one that truncates it, as AnyMemory can be.
	PeerMemory PeerMemory
	// The only processes that may connect, by what the kernel says of them: each of these that is set must hold the client. An abstract
	// socket can be reached by every process of its network namespace, so that they, and the secret, are all that keeps others out.
	AllowUIDs         []uint32 // effective users, as our user namespace numbers them: all if nil; an empty list is refused
	AllowGIDs         []uint32 // effective groups, likewise; supplementary ones don't count
	AllowPIDNamespace string   // the process namespace that the client lives in itself, as a file: /proc/42/ns/pid: any
	// StallTimeout is how long a write waits for a client that takes nothing at all before it gives up with *PeerStalled: DefaultStallTimeout;
	// for ever, or until its deadline, if negative.
	StallTimeout time.Duration
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func (c ClientConfig) complete() (ClientConfig, error) {
	c.Name, c.Application = or(c.Name, "memif"), or(c.Application, "memif")
	c.RxQueues, c.TxQueues = or(c.RxQueues, 1), or(c.TxQueues, 1)
	c.RingSize, c.BufferSize = or(c.RingSize, 1024), or(c.BufferSize, 2048)
	c.MaxPacket, c.Timeout = or(c.MaxPacket, DefaultMaxPacket), or(c.Timeout, 5*time.Second)
	c.StallTimeout = or(c.StallTimeout, DefaultStallTimeout)
	return c, firstError(
		inRange("Mode", uint64(c.Mode), 0, 2),
		checkSecret(c.Secret),
		inRange("RxQueues", uint64(c.RxQueues), 1, 256),
		inRange("TxQueues", uint64(c.TxQueues), 1, 256),
		checkRingSize("RingSize", c.RingSize),
		inRange("BufferSize", uint64(c.BufferSize), 64, 65536),
		inRange("MaxPacket", uint64(c.MaxPacket), 1, 1<<31),
		inRange("HugePages", uint64(c.HugePages), uint64(TryHugePages), uint64(RequireHugePages)),
		positive("Timeout", c.Timeout),
		checkMemory(c),
	)
}

// checkMemory refuses what no region can hold, also where a server would allow less: that isn't known before. All else is in range.
func checkMemory(c ClientConfig) error {
	size := layout{c.TxQueues, c.RxQueues, log2(c.RingSize), uint32(c.BufferSize)}.size()
	if size > shm.MaxRegion {
		return detail(BadSetting, "%d queues of %d buffers of %d bytes need %d bytes, at most %d can be had: take fewer queues, smaller rings or buffers",
			c.RxQueues+c.TxQueues, c.RingSize, c.BufferSize, size, uint64(shm.MaxRegion))
	}
	return nil
}

func (c ServerConfig) complete() (ServerConfig, error) {
	c.Name = or(c.Name, "memif")
	c.MaxRxQueues, c.MaxTxQueues = or(c.MaxRxQueues, 256), or(c.MaxTxQueues, 256)
	c.MaxRingSize, c.MaxRegions = or(c.MaxRingSize, 1<<shm.MaxLog2), or(c.MaxRegions, 256)
	c.MaxMemory, c.MaxPacket = or(c.MaxMemory, 1<<30), or(c.MaxPacket, DefaultMaxPacket)
	c.MaxHoles, c.StallTimeout = or(c.MaxHoles, 1<<30), or(c.StallTimeout, DefaultStallTimeout)
	return c, firstError(
		inRange("Mode", uint64(c.Mode), 0, 2),
		checkSecret(c.Secret),
		inRange("MaxRxQueues", uint64(c.MaxRxQueues), 1, 256),
		inRange("MaxTxQueues", uint64(c.MaxTxQueues), 1, 256),
		checkRingSize("MaxRingSize", c.MaxRingSize),
		inRange("MaxRegions", uint64(c.MaxRegions), 1, 256),
		inRange("PeerMemory", uint64(c.PeerMemory), uint64(SealedMemory), uint64(AnyMemory)),
		inRange("MaxPacket", uint64(c.MaxPacket), 1, 1<<31),
		checkList("AllowUIDs", c.AllowUIDs),
		checkList("AllowGIDs", c.AllowGIDs),
		checkNamespace("AllowPIDNamespace", c.AllowPIDNamespace),
	)
}

// checkList refuses an empty list that was set: whoever meant to let nobody in would let everybody in.
func checkList(name string, list []uint32) error {
	if list != nil && len(list) == 0 {
		return detail(BadSetting, "%s is empty: nobody could connect; nil is for all", name)
	}
	return nil
}

// checkNamespace says whether a file, if any is named, stands for a process namespace.
func checkNamespace(name, path string) error {
	if path == "" {
		return nil
	}
	var system unix.Statfs_t
	err := unix.Statfs(path, &system)
	if err == nil && system.Type != unix.NSFS_MAGIC { // not to be opened
		return detail(BadSetting, "%s %q is no process namespace", name, path)
	}
	if err == nil {
		var fd, kind int
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			defer unix.Close(fd)
			kind, err = unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
		}
		if err == nil && kind != unix.CLONE_NEWPID {
			return detail(BadSetting, "%s %q is a namespace of another kind", name, path)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s %q: %w", BadSetting, name, path, err)
	}
	return nil
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// inRange checks a number; one that was negative is very large here.
func inRange(name string, value, least, most uint64) error {
	if value < least || value > most {
		return detail(BadSetting, "%s %d is not in %d..=%d", name, int64(value), least, most)
	}
	return nil
}

func positive(name string, value time.Duration) error {
	if value <= 0 {
		return detail(BadSetting, "%s %v is not longer than 0s", name, value)
	}
	return nil
}

func checkRingSize(name string, size int) error {
	if err := inRange(name, uint64(size), 1<<shm.MinLog2, 1<<shm.MaxLog2); err != nil {
		return err
	}
	if size&(size-1) != 0 {
		return detail(BadSetting, "%s %d is not a power of two", name, size)
	}
	return nil
}

func log2(size int) uint8 { return uint8(bits.Len(uint(size)) - 1) }

// ListenConfig is how a [Listener] behaves, besides its interfaces. A field that is zero has the default of its comment.
type ListenConfig struct {
	Application   string        // name of this application, told to peers: "memif"; cut to 31 bytes
	FileMode      fs.FileMode   // of the socket file: 0660
	FileUID       int           // user that the socket file belongs to: ours
	FileGID       int           // group that it belongs to: ours
	Netns         string        // file of the network namespace of an abstract socket: ours
	Timeout       time.Duration // from accepting a connection to its CONNECT: 5 s
	MaxHandshakes int           // connections in handshake: 64. One more ends the oldest of the container or process that has most: others are kept out by nobody
	// MaxDescriptors is how many regions and rings all clients together may have, each of which keeps a descriptor of this process open, and
	// each region a mapping: 8192; never more than a quarter of what the process may open (RLIMIT_NOFILE) and half of what it may map
	// (vm.max_map_count), which all its listeners share. Half of it is kept for the interfaces, an equal part for each.
	MaxDescriptors int
	// MaxMemory is the bytes of all clients' regions together, which are mapped here: 256 GiB. Half is kept in the same way.
	MaxMemory uint64
	// Refused is told of peers that were turned away before their link was up. It must not block.
	Refused func(Refusal)
	// NotAccepting is told that no connection can be accepted, for want of descriptors or memory; once, until one was accepted
	// again. It must not block.
	NotAccepting func(reason error)
}

// Refusal is a peer that was turned away before its link was up.
type Refusal struct {
	ID     *uint32      // interface that it asked for, nil if it didn't come as far; there need be none of that number
	Peer   *Credentials // its process; nil where the kernel doesn't tell
	Reason error
}
