// Package memif exchanges packets with another process over shared memory: memif 2.0, as Quiver, DPDK's net_memif, VPP and
// libmemif speak it. Pure Go, Linux, little-endian.
//
// The client (slave) owns the memory: a memfd with rings and buffers. The server (master) listens on a unix socket, maps the
// client's memory and copies packets in and out of it. Everything the other side can write, on the socket or in shared memory,
// is checked before it is used, and read once: a peer that breaks the protocol costs one typed error and its own connection.
//
//	conn, err := memif.Dial(ctx, "@quiver/app", memif.ClientConfig{})
//	…
//	batch := memif.NewBatch(256)
//	for {
//		if _, err := conn.ReadBatch(batch); err != nil {
//			return err
//		}
//		conn.WriteBatch(batch.Packets()) // straight back
//	}
//
// [Dial] and [Listen] give a [Conn] for as long as the peer stays; a [Port] is one interface, client or server, that connects
// again by itself, and says why it isn't connected ([Port.Err]). All methods may be used by several goroutines; a [RxQueue] or
// [TxQueue] for each is the fast way. Reads sleep while there is nothing to do, by the runtime's poller; what begins with Try
// never waits, for those who poll.
//
// Every error is an [Error], which names the interface and wraps the cause: one of the constants of type [Cause], a
// [PeerError], or what the system said. Deadlines end in [os.ErrDeadlineExceeded].
package memif
