package memif

import (
	"errors"
	"os"

	"quiver/memif/internal/shm"
)

// limits are what HELLO announces, for all interfaces of a socket; one's own may be lower.
type limits struct{ regions, rxQueues, txQueues, ringSize int }

func (l limits) hello(application string) *message {
	return &message{
		kind: msgHello, name: application, minVersion: version, maxVersion: version,
		// As highest indices: one less than counts.
		maxRegion: uint16(l.regions - 1), maxRingToClient: uint16(l.txQueues - 1), maxRingToServer: uint16(l.rxQueues - 1),
		maxLog2: log2(l.ringSize),
	}
}

// serverHandshake is the server's side of one control channel, without I/O:
//
//	HELLO sent ─INIT→ claimed ─ADD_REGION…→ ─ADD_RING…→ ─CONNECT→ connected
//
// Every message is legal in its state only; DISCONNECT in all. After an error the channel must be closed.
type serverHandshake struct {
	// claim gives the interface of an id to this handshake, if the client may have it.
	claim func(init *message) (*ServerConfig, *shm.Account, error)
	// apart does what may hang, as that of [apart]; at once where it is nil.
	apart func(what, afterwards func()) (begun bool, err error)

	share     *share        // of the listener's quota; nil where there is none
	config    *ServerConfig // once claimed
	account   *shm.Account  // of the interface, likewise
	id        *uint32       // that was asked for
	peer      Info
	memory    uint64
	regions   []*shm.Region
	abandoned bool       // the region that was announced last is left to who maps it, with its file
	table     *shm.Table // once the first ring is announced
	rx, tx    []end
	connected bool
}

// receive takes a message and the files that came with it; gives the answer. After an error the files are still the caller's, unless they
// are abandoned.
func (h *serverHandshake) receive(m *message, files []*os.File) (*message, error) {
	wanted := 0
	if m.takesFile() {
		wanted = 1
	}
	if len(files) != wanted {
		return nil, detail(FileDescriptors, "%d with %s, expected %d", len(files), m.kind, wanted)
	}
	ack := &message{kind: msgAck}
	switch {
	case m.kind == msgDisconnect:
		return nil, &PeerError{m.code, m.reason}
	case m.kind == msgInit && h.config == nil:
		return ack, h.init(m)
	case m.kind == msgAddRegion && h.config != nil && h.table == nil:
		return ack, h.addRegion(m, files[0])
	case m.kind == msgAddRing && h.config != nil && !h.connected:
		return ack, h.addRing(m, files[0])
	case m.kind == msgConnect && h.config != nil && !h.connected:
		return &message{kind: msgConnected, name: h.config.Name}, h.connect(m)
	}
	return nil, detail(UnexpectedMessage, "%s while %s", m.kind, h.activity())
}

// takesFiles says whether the next message may have a file: a client's that has claimed an interface, and is not connected yet.
func (h *serverHandshake) takesFiles() bool { return h.config != nil && !h.connected }

func (h *serverHandshake) activity() string {
	switch {
	case h.connected:
		return "connected"
	case h.table != nil:
		return "waiting for rings and CONNECT"
	case h.config != nil:
		return "waiting for regions, rings and CONNECT"
	}
	return "waiting for INIT"
}

// init checks all that INIT says; the interface is claimed last.
func (h *serverHandshake) init(m *message) error {
	h.id = &m.id
	if m.version != version {
		return detail(Version, "%#x, this end speaks %#x", m.version, version)
	}
	config, account, err := h.claim(m)
	if err != nil {
		return err
	}
	h.config, h.account = config, account
	h.peer = Info{Role: Server, ID: m.id, Mode: config.Mode, PeerApplication: m.name}
	return nil
}

// admit says whether a client may have an interface.
func (c *ServerConfig) admit(m *message) error {
	var none, ours [secretSize]byte
	copy(ours[:], c.Secret)
	switch {
	case m.mode != uint8(c.Mode):
		return detail(ModeMismatch, "the interface is %s, the peer wants mode %d", c.Mode, m.mode)
	case c.Secret == "":
		return nil
	case m.secret == none:
		return SecretRequired
	case !sameSecret(ours, m.secret):
		return WrongSecret
	}
	return nil
}

func (h *serverHandshake) addRegion(m *message, file *os.File) error {
	total := h.memory + m.size
	var err error
	switch {
	case int(m.index) != len(h.regions):
		err = detail(RegionIndex, "%d, expected %d", m.index, len(h.regions))
	case len(h.regions) >= h.config.MaxRegions:
		err = detail(TooManyRegions, "at most %d", h.config.MaxRegions)
	case total < m.size || total > h.config.MaxMemory:
		err = detail(TooMuchMemory, "%d bytes more than %d, at most %d", m.size, h.memory, h.config.MaxMemory)
	}
	// For itself, as long as the region isn't ours.
	part := h.share.another()
	if err == nil {
		err = part.take(1, m.size)
	}
	if err != nil {
		return err
	}
	region, err := h.mapRegion(m, file, part)
	if err != nil {
		return err
	}
	h.share.join(part)
	h.memory, h.regions = total, append(h.regions, region)
	return nil
}

// mapRegion maps a region, or leaves that, the file and the part of the quota to others when it takes too long.
func (h *serverHandshake) mapRegion(m *message, file *os.File, part *share) (*shm.Region, error) {
	var region *shm.Region
	var failed error
	config, account := h.config, h.account
	what := func() {
		region, failed = shm.MapRegion(file, m.size, config.PeerMemory, account, config.MaxHoles)
	}
	afterwards := func() {
		if failed == nil {
			_ = region.Close()
		} else {
			_ = file.Close()
		}
		part.close()
	}
	begun, err := true, error(nil)
	if h.apart == nil {
		what()
	} else {
		begun, err = h.apart(what, afterwards)
	}
	switch {
	case err != nil && begun: // what they have is theirs
		h.abandoned = true
		return nil, held(err, m.index)
	case err == nil:
		err = failed
	}
	if err != nil {
		part.close()
		return nil, err
	}
	return region, nil
}

// held says of which region the file is held, where that is all there is to say.
func held(err error, region uint16) error {
	if errors.Is(err, HandshakeTimeout) {
		return detail(HandshakeTimeout, "the file of region %d is held: end whoever writes to it or punches it", region)
	}
	return err
}

func (h *serverHandshake) addRing(m *message, file *os.File) error {
	rings, most, cost := &h.tx, h.config.MaxTxQueues, 1
	if m.flags&ringToServer != 0 {
		rings, most = &h.rx, h.config.MaxRxQueues
		cost = costOfRings(len(h.rx)+1, 0) - costOfRings(len(h.rx), 0)
	}
	var err error
	switch {
	case m.flags&^ringToServer != 0:
		err = detail(RingFlags, "%#x", m.flags)
	case m.privateHeader != 0:
		err = PrivateHeader
	case int(m.index) != len(*rings):
		err = detail(RingIndex, "%d, expected %d", m.index, len(*rings))
	case len(*rings) >= most:
		err = detail(TooManyRings, "at most %d", most)
	case m.log2 < shm.MinLog2 || m.log2 > log2(h.config.MaxRingSize):
		err = detail(RingSize, "2^%d, allowed are 2^%d to 2^%d", m.log2, shm.MinLog2, log2(h.config.MaxRingSize))
	}
	if err == nil {
		err = h.share.take(cost, 0)
	}
	if err != nil {
		return err
	}
	if h.table == nil { // no more regions from here on
		h.table, h.regions = shm.NewTable(h.regions), nil
		h.table.Closed = h.share.close
	}
	ring, err := shm.NewRing(h.table, m.region, m.offset, m.log2)
	if err != nil {
		return err
	}
	event, err := shm.PeerEvent(file)
	if err != nil {
		return err
	}
	*rings = append(*rings, end{ring: ring, table: h.table, event: event, cursor: cursor{size: ring.Size()}})
	return nil
}

func (h *serverHandshake) connect(m *message) error {
	if h.table == nil {
		return NoRings
	}
	err := h.table.Guard(func() error {
		for _, e := range append(append([]end{}, h.rx...), h.tx...) {
			if err := e.ring.CheckCookie(); err != nil {
				return err
			}
		}
		return nil
	})
	h.peer.PeerInterface = m.name
	h.connected = err == nil
	return err
}

// descriptors are those that close closes.
func (h *serverHandshake) descriptors() int {
	if h.table != nil {
		return h.table.Len() + len(h.rx) + len(h.tx)
	}
	return len(h.regions)
}

// close gives up what was announced, after an error.
func (h *serverHandshake) close() {
	for _, e := range append(h.rx, h.tx...) {
		_ = e.event.Close()
	}
	if h.table != nil {
		_ = h.table.Close()
	}
	for _, region := range h.regions {
		_ = region.Close()
	}
	h.share.close()
}
