/* libquiver-memif: packets over shared memory with another process (memif 2.0: Quiver, DPDK, VPP, libmemif).
 *
 * A port is one interface, client or server, which connects again by itself. The usual loop:
 *
 *     qm_client_options options = {0};
 *     qm_port *port;
 *     if (qm_open_client("@quiver/app", &options, &port) != QM_OK)
 *         errx(1, "%s", qm_last_error());
 *     for (;;) {
 *         qm_piece pieces[256];
 *         size_t n = 0, sent;
 *         qm_wait(&port, 1, 1000);
 *         while (qm_receive(port, 0, pieces, 256, &n) == QM_OK && n > 0) {
 *             qm_send(port, 0, pieces, n, &sent);          // straight back
 *             qm_release(port, 0);
 *         }
 *     }
 *
 * Every call returns a qm_status; qm_last_error() says more, and names the interface. No call waits longer than its timeout,
 * whatever the peer does, and none ends the process. What a peer writes is checked before it is used: one that breaks the
 * protocol loses its connection, which is told as QM_FAULT and as QM_EVENT_DOWN.
 *
 * A port may be used by several threads at once, a queue by one at a time without contention. All that sleep in qm_wait are woken for
 * each queue: the one whose queue it isn't finds nothing and waits again. Only qm_close needs that nobody else uses the port.
 *
 * After a fork, a port is in both processes, which have one ring and one socket: only one of them may use it from then on, the parent or
 * the child, as behind daemon(3). In the other, no call for it, not even qm_close, which ends the connection for both.
 *
 * Structures are to be zeroed first; a field that is zero has the default of its comment. They may get more fields at their end: calls
 * that take or fill one are told how long it is in the program (qm_open_client is qm_open_client_sized, and so on), so that a program
 * goes on with a newer library, and with an older one as long as it uses none of the new fields. Linux, little-endian.
 */
#ifndef QUIVER_MEMIF_H
#define QUIVER_MEMIF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qm_status {
    QM_OK = 0,
    QM_INVALID = -1,   /* an argument is wrong */
    QM_DOWN = -2,      /* the link is down: wait */
    QM_FAULT = -3,     /* the peer broke the rules: the link is down now */
    QM_SYSTEM = -4,    /* the system refused something */
    QM_IN_USE = -5,    /* another process listens at the address */
    QM_TOO_LONG = -6,  /* a packet can never be sent: empty, of more than 65553 bytes, or longer than the whole ring; or it is longer
                          than qm_read's buffer */
    QM_INTERNAL = -7   /* a mistake in this library */
} qm_status;

typedef struct qm_port qm_port;

typedef enum qm_mode {
    QM_ETHERNET = 0,   /* packets begin with an Ethernet header */
    QM_IP = 1,         /* packets begin with an IPv4 or IPv6 header */
    QM_PUNT_INJECT = 2 /* as QM_IP; received are a dataplane's own packets that nothing in it takes, sent ones are sent as its own */
} qm_mode;

/* Which memory of a client a server takes, by what the client can still do to it afterwards. A client that does it loses its connection. */
typedef enum qm_peer_memory {
    QM_SEALED_MEMORY = 0, /* nothing: sealed against shrinking, and sealed by us so that no page can be freed: announced once only */
    QM_ANY_MEMORY = 1,    /* truncate it, also in the midst of our access: not sealed at all, as DPDK's zero-copy=yes has it */
    QM_SHARED_MEMORY = 2  /* free pages, and have who touches one just then wait: sealed against shrinking only, for a pool that the
                           * client shares with others, too, as trust groups and VPP's zero-copy clients (on ordinary pages) have it */
} qm_peer_memory;

typedef struct qm_client_options {
    uint32_t id;             /* which interface of the server */
    uint32_t mode;           /* a qm_mode */
    const char *name;        /* of the interface, told to the server: "memif"; cut to 31 bytes */
    const char *secret;      /* if the server wants one: up to 24 bytes */
    uint16_t rx_queues;      /* queues to receive from: 1. The server may allow fewer */
    uint16_t tx_queues;      /* queues to send to: 1. The server may allow fewer */
    uint32_t ring_size;      /* descriptors of every ring, a power of two from 64 to 16384: 1024 */
    uint32_t buffer_size;    /* bytes of every buffer, 64 to 65536: 2048. Longer packets are chained */
    uint32_t no_huge_pages;  /* 1: ordinary pages, also where huge ones could be had */
} qm_client_options;

typedef struct qm_server_options {
    uint32_t id;             /* the interface's number on its socket */
    uint32_t mode;           /* a qm_mode, which the client must have, too */
    const char *name;        /* of the interface, told to the client: "memif"; cut to 31 bytes */
    const char *secret;      /* that the client must know: none */
    uint16_t max_rx_queues;  /* most queues to receive from: 256 */
    uint16_t max_tx_queues;  /* most queues to send to: 256 */
    uint32_t max_ring_size;  /* 16384 */
    uint64_t max_memory;     /* bytes of the client's regions together, and of the holes in those of all its connections, which we pay
                              * for: who is beyond that has to allocate its memory before it connects: 1 GiB */
    uint32_t file_mode;      /* of the socket file: 0660 */
    uint32_t peer_memory;    /* a qm_peer_memory */
    uint32_t file_uid;       /* user that the socket file belongs to: that of this process */
    uint32_t file_gid;       /* group that it belongs to: that of this process */
    /* The only processes that may connect, by what the kernel says of them: each of these that is set must hold the client. An abstract
     * socket can be reached by every process of its network namespace, so that they, and the secret, are all that keeps others out. */
    const uint32_t *allow_uids;      /* effective users, as our user namespace numbers them: all */
    size_t allow_uid_count;          /* up to 65536 */
    const uint32_t *allow_gids;      /* effective groups; supplementary ones don't count: all */
    size_t allow_gid_count;          /* up to 65536 */
    const char *allow_pid_namespace; /* the process namespace that the client lives in itself, as a file, "/proc/42/ns/pid": any */
} qm_server_options;

/* A packet, or a part of one. */
typedef struct qm_piece {
    const void *data;
    uint32_t length;
    uint32_t flags;
} qm_piece;

#define QM_MORE 1u /* flag of a piece: the packet goes on in the next one */

typedef enum qm_event_kind {
    QM_EVENT_UP = 1,
    QM_EVENT_DOWN = 2,        /* the port connects, or takes a new client, by itself */
    QM_EVENT_REFUSED = 3,     /* an attempt failed */
    QM_EVENT_UNREACHABLE = 4, /* there is no server, or none that may be connected to */
    QM_EVENT_ADMIN_DOWN = 5,  /* qm_admin_down was called */
    QM_EVENT_NOT_ACCEPTING = 6 /* the server is out of descriptors or memory; it tries again by itself */
} qm_event_kind;

typedef struct qm_event {
    uint32_t kind;     /* a qm_event_kind */
    char reason[160];  /* why: text, ended by NUL */
    char cause[32];    /* the same in a word, for programs: "wrong-secret", "not-allowed", "mode", "timeout", "peer", "closed",
                          "no-server", "permission-denied", …; a link that is up has none */
} qm_event;

typedef struct qm_info {
    char peer_application[32]; /* what the peer calls itself */
    char peer_interface[32];   /* what it calls the interface */
    uint32_t rx_queues;
    uint32_t tx_queues;
    uint32_t ring_size;
    uint32_t peer_known; /* 1: the kernel says which process it is, as it was when it connected (a server: when it began to listen) */
    uint32_t peer_pid;   /* 0: in a process namespace that ours doesn't see into */
    uint32_t peer_uid;   /* effective */
    uint32_t peer_gid;   /* effective */
} qm_info;

typedef enum qm_direction { QM_RX = 0, QM_TX = 1 } qm_direction;

/* What went by a queue since the link came up. */
typedef struct qm_counters {
    uint64_t packets; /* received or sent */
    uint64_t bytes;   /* of these packets */
    uint64_t full;    /* packets that found no room in the ring, to send by: again each time they are offered */
    uint64_t signals; /* taken, to receive from, or given, to send by; several that come before they are taken count as one */
} qm_counters;

/* Opens a client of the server at address: a path, or "@name" for an abstract socket. It connects during qm_wait. */
int qm_open_client_sized(const char *address, const qm_client_options *options, size_t size, qm_port **port);
static inline int qm_open_client(const char *address, const qm_client_options *options, qm_port **port)
{
    return qm_open_client_sized(address, options, sizeof *options, port);
}

/* Opens a server of one interface at address. */
int qm_open_server_sized(const char *address, const qm_server_options *options, size_t size, qm_port **port);
static inline int qm_open_server(const char *address, const qm_server_options *options, qm_port **port)
{
    return qm_open_server_sized(address, options, sizeof *options, port);
}

/* Ends the connection, telling the peer, and frees the port. Nobody may use it any more. NULL is fine. The memory of the connection goes
 * a little later, by a thread of the library. */
void qm_close(qm_port *port);

/* Sleeps until one of count ports (up to 64) has packets or events, at most timeout_ms milliseconds (0 to 3600000). QM_OK in any
 * case that is no error: look at what there is. Ports connect only while they are waited on. */
int qm_wait(qm_port *const *ports, size_t count, int timeout_ms);

/* Ends the qm_wait of another thread on this port, now or when it comes. */
int qm_wake(qm_port *port);

/* Takes the oldest event. QM_DOWN if there is none. */
int qm_next_event_sized(qm_port *port, qm_event *event, size_t size);
static inline int qm_next_event(qm_port *port, qm_event *event)
{
    return qm_next_event_sized(port, event, sizeof *event);
}

/* Takes the link down, telling the peer why in these words (up to 63 bytes, NULL is none), and keeps it down: a client doesn't connect,
 * a server turns clients away. An event tells, too. */
int qm_admin_down(qm_port *port, const char *why);

/* Lets the link come up again. */
int qm_admin_up(qm_port *port);

/* For an application with an event loop of its own: *fd, the same each time, is to be watched for reading (poll, epoll; level-triggered).
 * It becomes readable when the port has packets, events, or something to do. Then call qm_wait(&port, 1, 0), take the events, receive
 * all packets, and call qm_watch again. It is closed by qm_close. */
int qm_watch(qm_port *port, int *fd);

/* What both sides agreed on. QM_DOWN while there is no connection. */
int qm_get_info_sized(qm_port *port, qm_info *info, size_t size);
static inline int qm_get_info(qm_port *port, qm_info *info)
{
    return qm_get_info_sized(port, info, sizeof *info);
}

/* Counts of one queue; direction is a qm_direction. QM_DOWN while there is no connection. */
int qm_get_counters_sized(qm_port *port, int direction, unsigned queue, qm_counters *counters, size_t size);
static inline int qm_get_counters(qm_port *port, int direction, unsigned queue, qm_counters *counters)
{
    return qm_get_counters_sized(port, direction, queue, counters, sizeof *counters);
}

/* Whether a queue has packets: *ready is 1 or 0. */
int qm_ready(qm_port *port, unsigned queue, int *ready);

/* Receives up to max pieces of packets that are there, without waiting; *count is how many, 0 if there are none. No byte is
 * copied: the pieces lie in memory that the peer can write at any time, so copy first what you decide upon, and what must not change.
 * They stay readable until qm_release, also if the link goes down. A packet is given whole, in
 * the next call if it finds no place in this one; only one with more pieces than max goes on in the next call. */
int qm_receive(qm_port *port, unsigned queue, qm_piece *pieces, size_t max, size_t *count);

/* Gives everything back that was received from the queue; later, if packets wait for the next qm_receive. Those that wait are lost when
 * their link goes down. What is kept from an earlier connection is to be given back before qm_receive takes from the next: it says
 * QM_INVALID until then. */
int qm_release(qm_port *port, unsigned queue);

/* Gives back the count pieces that were received first of those that the application has; all, and more, is qm_release. */
int qm_release_first(qm_port *port, unsigned queue, size_t count);

/* Copies one packet that is there into buffer, and gives it back. *length is its bytes, 0 if there is none; QM_TOO_LONG if it is longer
 * than size: it is lost then. Several threads may read from a queue. Not to be mixed with pieces that aren't released. */
int qm_read(qm_port *port, unsigned queue, void *buffer, size_t size, size_t *length);

/* Sends packets as far as there is room, without waiting, and wakes the peer if it sleeps; *sent is how many pieces were taken, always
 * whole packets. Pieces that were received may be sent. QM_TOO_LONG if nothing was sent because the first packet never can be. */
int qm_send(qm_port *port, unsigned queue, const qm_piece *pieces, size_t count, size_t *sent);

/* What the last call of this thread that failed has to say; valid until the next that fails. Never NULL. */
const char *qm_last_error(void);

/* The errno that is nearest to it: of the system call that failed; EADDRINUSE, ENOTSOCK or ENOENT for addresses, ENXIO for a queue that
 * isn't there, EBUSY for what is to be given back first, EAGAIN where there is no event. Otherwise EINVAL with QM_INVALID, ENOTCONN with
 * QM_DOWN, EPROTO with QM_FAULT, EMSGSIZE with QM_TOO_LONG, EIO with QM_SYSTEM, ENOTRECOVERABLE with QM_INTERNAL. 0 before a call of the
 * thread has failed. errno itself is left alone. */
int qm_last_errno(void);

/* The name of a status, such as "QM_DOWN". Never NULL. */
const char *qm_status_name(int status);

#ifdef __cplusplus
}
#endif
#endif
