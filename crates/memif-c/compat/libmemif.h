/* The calls of libmemif (API version 4) that applications use, over libquiver-memif: recompile, link with -lquiver-memif-compat.
 *
 * Differences that can be seen:
 * - With on_control_fd_update an application is told one descriptor for each connection, to be watched for reading, level-triggered,
 *   from memif_create to memif_delete. Without, it calls memif_poll_event.
 * - One master (server) connection per socket; any number of slaves.
 * - Buffers to send are private memory and are copied when they are sent: as many of memif_buffer_alloc as are kept must be sent
 *   in the order in which they were got. Received buffers are shared memory, as ever. While the peer's ring is full memif_tx_burst sends
 *   fewer than were allocated.
 * - memif_buffer_enq_tx copies as well: afterwards the buffers' data is where it is sent from.
 * - memif_get_queue_efd gives one descriptor for all queues of a connection, the same until memif_delete. It is readable also when there
 *   is something else to do, and must not be read from; memif_rx_burst sees to it that it becomes readable for what comes next.
 * - What a call can't do, of which connection and why, qm_last_error() (quiver/memif.h) says in a sentence, after the code.
 * - What a peer does wrong ends its connection (on_disconnect), and is never believed.
 */
#ifndef QUIVER_COMPAT_LIBMEMIF_H
#define QUIVER_COMPAT_LIBMEMIF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/timerfd.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIBMEMIF_VERSION "4.0"
#define MEMIF_DEFAULT_SOCKET_PATH "/run/vpp/memif.sock"
#define MEMIF_DEFAULT_APP_NAME "libmemif-app"
#define MEMIF_DEFAULT_RING_SIZE 1024
#define MEMIF_DEFAULT_LOG2_RING_SIZE 10
#define MEMIF_DEFAULT_BUFFER_SIZE 2048
#define MEMIF_HAVE_CANCEL_POLL_EVENT 1

typedef enum {
    MEMIF_ERR_SUCCESS = 0,
    MEMIF_ERR_SYSCALL,
    MEMIF_ERR_CONNREFUSED,
    MEMIF_ERR_ACCES,
    MEMIF_ERR_NO_FILE,
    MEMIF_ERR_FILE_LIMIT,
    MEMIF_ERR_PROC_FILE_LIMIT,
    MEMIF_ERR_ALREADY,
    MEMIF_ERR_AGAIN,
    MEMIF_ERR_BAD_FD,
    MEMIF_ERR_NOMEM,
    MEMIF_ERR_INVAL_ARG,
    MEMIF_ERR_NOCONN,
    MEMIF_ERR_CONN,
    MEMIF_ERR_CB_FDUPDATE,
    MEMIF_ERR_FILE_NOT_SOCK,
    MEMIF_ERR_NO_SHMFD,
    MEMIF_ERR_COOKIE,
    MEMIF_ERR_NOBUF_RING,
    MEMIF_ERR_NOBUF,
    MEMIF_ERR_NOBUF_DET,
    MEMIF_ERR_INT_WRITE,
    MEMIF_ERR_MFMSG,
    MEMIF_ERR_QID,
    MEMIF_ERR_PROTO,
    MEMIF_ERR_ID,
    MEMIF_ERR_ACCSLAVE,
    MEMIF_ERR_ALRCONN,
    MEMIF_ERR_MODE,
    MEMIF_ERR_SECRET,
    MEMIF_ERR_NOSECRET,
    MEMIF_ERR_MAXREG,
    MEMIF_ERR_MAXRING,
    MEMIF_ERR_NO_INTFD,
    MEMIF_ERR_DISCONNECT,
    MEMIF_ERR_DISCONNECTED,
    MEMIF_ERR_UNKNOWN_MSG,
    MEMIF_ERR_POLL_CANCEL,
    MEMIF_ERR_MAX_RING_SIZE,
    MEMIF_ERR_PRIVHDR
} memif_err_t;

typedef void *memif_socket_handle_t;
typedef void *memif_conn_handle_t;
typedef uint32_t memif_interface_id_t;
typedef uint8_t memif_log2_ring_size_t;

typedef enum {
    MEMIF_INTERFACE_MODE_ETHERNET = 0,
    MEMIF_INTERFACE_MODE_IP = 1,
    MEMIF_INTERFACE_MODE_PUNT_INJECT = 2
} memif_interface_mode_t;

typedef enum { MEMIF_RX_MODE_INTERRUPT = 0, MEMIF_RX_MODE_POLLING } memif_rx_mode_t;

typedef enum { MEMIF_FD_EVENT_READ = 1, MEMIF_FD_EVENT_WRITE = 2, MEMIF_FD_EVENT_ERROR = 4, MEMIF_FD_EVENT_DEL = 8,
               MEMIF_FD_EVENT_MOD = 16 } memif_fd_event_type_t;

typedef struct memif_fd_event {
    int fd;
    memif_fd_event_type_t type;
    void *private_ctx;
} memif_fd_event_t;

typedef int(memif_control_fd_update_t)(memif_fd_event_t fde, void *private_ctx);
typedef int(memif_connection_update_t)(memif_conn_handle_t conn, void *private_ctx);
typedef int(memif_interrupt_t)(memif_conn_handle_t conn, void *private_ctx, uint16_t qid);
typedef void *(memif_alloc_t)(size_t size);
typedef void *(memif_realloc_t)(void *pointer, size_t size);
typedef void(memif_free_t)(void *pointer);

typedef struct {
    char path[108];                                  /* '@' first: abstract */
    char app_name[32];
    struct itimerspec connection_request_timer;      /* not used: 50 ms to 2 s */
    memif_control_fd_update_t *on_control_fd_update; /* NULL: memif_poll_event is called */
    memif_alloc_t *alloc;                            /* not used */
    memif_realloc_t *realloc;
    memif_free_t *free;
} memif_socket_args_t;

typedef struct {
    memif_socket_handle_t socket;
    uint8_t secret[24];
    uint8_t num_s2m_rings;                 /* 0: 1 */
    uint8_t num_m2s_rings;                 /* 0: 1 */
    uint16_t buffer_size;                  /* 0: 2048 */
    memif_log2_ring_size_t log2_ring_size; /* 0: 10 */
    uint8_t is_master;
    memif_interface_id_t interface_id;
    uint8_t interface_name[32];
    memif_interface_mode_t mode;
} memif_conn_args_t;

#define MEMIF_BUFFER_FLAG_NEXT (1 << 0) /* the packet goes on in the next buffer */

typedef struct {
    uint16_t desc_index;
    void *queue;
    uint32_t len;
    uint8_t flags;
    void *data;
} memif_buffer_t;

typedef struct {
    uint8_t qid;
    uint32_t ring_size;
    uint16_t flags;
    uint16_t head;
    uint16_t tail;
    uint16_t buffer_size;
} memif_queue_details_t;

typedef struct {
    uint8_t *if_name;
    uint8_t *inst_name;
    uint8_t *remote_if_name;
    uint8_t *remote_inst_name;
    uint32_t id;
    uint8_t *secret;
    uint8_t role; /* 0: master, 1: slave */
    uint8_t mode;
    uint8_t *socket_path;
    uint8_t rx_queues_num;
    uint8_t tx_queues_num;
    memif_queue_details_t *rx_queues;
    memif_queue_details_t *tx_queues;
    uint8_t link_up_down; /* 1: up */
} memif_details_t;

/* Version 3 began with this; since version 4 there is nothing to initialise. Sets the name of sockets that have none. */
int memif_init(memif_control_fd_update_t *on_control_fd_update, char *app_name, memif_alloc_t *alloc, memif_realloc_t *realloc,
               memif_free_t *free);
int memif_cleanup(void);
uint16_t memif_get_version(void);
const char *memif_get_version_str(void);
char *memif_strerror(int err_code);

int memif_create_socket(memif_socket_handle_t *sock, memif_socket_args_t *args, void *private_ctx);
int memif_delete_socket(memif_socket_handle_t *sock);
const char *memif_get_socket_path(memif_socket_handle_t sock);
memif_socket_handle_t memif_get_socket_handle(memif_conn_handle_t conn);

int memif_create(memif_conn_handle_t *conn, memif_conn_args_t *args, memif_connection_update_t *on_connect,
                 memif_connection_update_t *on_disconnect, memif_interrupt_t *on_interrupt, void *private_ctx);
int memif_delete(memif_conn_handle_t *conn);
int memif_request_connection(memif_conn_handle_t conn);
int memif_set_rx_mode(memif_conn_handle_t conn, memif_rx_mode_t rx_mode, uint16_t qid);

/* A descriptor to be watched for reading by who sleeps for a queue's packets, level-triggered, and then calls memif_rx_burst until there are
 * none. What happens to the connection is told as ever: by memif_poll_event or memif_control_fd_handler, which somebody must call as well. */
int memif_get_queue_efd(memif_conn_handle_t conn, uint16_t qid, int *fd);
int memif_get_details(memif_conn_handle_t conn, memif_details_t *md, char *buf, ssize_t buflen);

/* timeout in milliseconds; -1 waits until an event or memif_cancel_poll_event. Calls on_connect, on_disconnect, on_interrupt. */
int memif_poll_event(memif_socket_handle_t sock, int timeout);
int memif_cancel_poll_event(memif_socket_handle_t sock);

/* To be called when a descriptor told to on_control_fd_update is readable, with its private_ctx. Calls on_connect, on_disconnect,
 * on_interrupt, which must not delete the connection. */
int memif_control_fd_handler(void *ptr, memif_fd_event_type_t events);

int memif_rx_burst(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *rx);
int memif_refill_queue(memif_conn_handle_t conn, uint16_t qid, uint16_t count, uint16_t headroom);
int memif_buffer_alloc(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out,
                       uint16_t size);
/* Makes received buffers buffers to send, as if memif_buffer_alloc had given them: to be refilled, and sent by memif_tx_burst, in any order.
 * *count_out is how many, whole packets only; MEMIF_ERR_NOBUF_RING if there was no room for the rest. Of a master MEMIF_ERR_INVAL_ARG. */
int memif_buffer_enq_tx(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out);

/* memif_refill_queue as it was called before version 3: gives count received buffers back, those that were received first. */
int memif_buffer_free(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out);
int memif_tx_burst(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *tx);

#ifdef __cplusplus
}
#endif
#endif
