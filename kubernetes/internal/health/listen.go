package health

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a listener.
type Limits struct {
	// Connections of all clients, and of one.
	Connections, OfOne int
}

// Listen listens at an address. Every connection is accepted at once; where there are too many, the client with the most loses its oldest one that hasn't sent
// anything, or else its oldest. A client is an address, or at a unix socket a process; the addresses of 127.0.0.0/8, of an IPv4 /24 and of an IPv6 /64, and the
// processes of a user are counted together as well.
func Listen(network, address string, limits Limits) (net.Listener, error) {
	listener, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &fair{Listener: listener, limits: limits}, nil
}

// fair is a listener whose connections have limits.
type fair struct {
	net.Listener
	limits Limits
	lock   sync.Mutex
	// All connections, oldest first.
	all []*connection
}

// connection is one of them.
type connection struct {
	net.Conn
	from   *fair
	client string
	group  string
	// Whether it has sent something; kept by the lock.
	spoke bool
}

// Accept waits for the next connection.
func (f *fair) Accept() (net.Conn, error) {
	accepted, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	made := &connection{Conn: accepted, from: f}
	made.client, made.group = owner(accepted)
	if victim := f.add(made); victim != nil {
		victim.Conn.Close()
	}
	return made, nil
}

// add adds a connection, and removes one for which there is no room.
func (f *fair) add(made *connection) (victim *connection) {
	f.lock.Lock()
	defer f.lock.Unlock()
	of := 0
	for _, one := range f.all {
		if one.client == made.client {
			of++
		}
	}
	switch {
	case of >= f.limits.OfOne:
		victim = first(f.all, func(one *connection) bool { return one.client == made.client })
	case len(f.all) >= f.limits.Connections:
		victim = f.hog(made)
	}
	f.remove(victim)
	f.all = append(f.all, made)
	return victim
}

// hog is what to close of those with the most connections, where made is one more.
func (f *fair) hog(made *connection) *connection {
	groups, clients := map[string]int{made.group: 1}, map[string]int{made.client: 1}
	for _, one := range f.all {
		groups[one.group]++
		clients[one.client]++
	}
	most := 0
	for _, count := range groups {
		most = max(most, count)
	}
	large := func(one *connection) bool { return groups[one.group] == most }
	mine := 0
	if large(made) {
		mine = clients[made.client]
	}
	for _, one := range f.all {
		if large(one) {
			mine = max(mine, clients[one.client])
		}
	}
	return first(f.all, func(one *connection) bool { return large(one) && clients[one.client] == mine })
}

// first is the oldest silent connection of those, or else the oldest.
func first(all []*connection, is func(*connection) bool) (found *connection) {
	for _, one := range all {
		if is(one) && (found == nil || found.spoke && !one.spoke) {
			found = one
		}
	}
	return found
}

func (f *fair) remove(one *connection) {
	for i, other := range f.all {
		if other == one {
			f.all = append(f.all[:i:i], f.all[i+1:]...)
			return
		}
	}
}

// Read notes that the client speaks.
func (c *connection) Read(to []byte) (int, error) {
	read, err := c.Conn.Read(to)
	if read > 0 {
		c.from.lock.Lock()
		c.spoke = true
		c.from.lock.Unlock()
	}
	return read, err
}

// Close makes room.
func (c *connection) Close() error {
	c.from.lock.Lock()
	c.from.remove(c)
	c.from.lock.Unlock()
	return c.Conn.Close()
}

// owner is the client of a connection, and its group; both empty where they aren't known.
func owner(connection net.Conn) (client, of string) {
	if peer, err := netip.ParseAddrPort(connection.RemoteAddr().String()); err == nil {
		address := peer.Addr().Unmap().WithZone("")
		return address.String(), group(address).String()
	}
	local, is := connection.(*net.UnixConn)
	if !is {
		return "", ""
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return "", ""
	}
	_ = raw.Control(func(socket uintptr) {
		if peer, err := unix.GetsockoptUcred(int(socket), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			client, of = fmt.Sprintf("process %d", peer.Pid), fmt.Sprintf("user %d", peer.Uid)
		}
	})
	return client, of
}

// group are the addresses that one owner may have.
func group(address netip.Addr) netip.Prefix {
	bits := 24
	switch {
	case address.Is4() && address.IsLoopback():
		bits = 8
	case !address.Is4():
		bits = 64
	}
	prefix, _ := address.Prefix(bits)
	return prefix
}

// HeadTime is how long a request may take until it is complete.
const HeadTime = 2 * time.Second
