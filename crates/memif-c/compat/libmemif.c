/* Sockets and connections of the libmemif layer; what happens to them is in events.c, packets are in packets.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static char default_name[32] = MEMIF_DEFAULT_APP_NAME;

int compat_error(int status)
{
    if (status == QM_INVALID || status == QM_SYSTEM)
        switch (qm_last_errno()) {
        case ENXIO: return MEMIF_ERR_QID;
        case ENOTSOCK: return MEMIF_ERR_FILE_NOT_SOCK;
        case ECONNREFUSED: return MEMIF_ERR_CONNREFUSED;
        case EACCES:
        case EPERM: return MEMIF_ERR_ACCES;
        case ENOENT: return MEMIF_ERR_NO_FILE;
        case ENFILE: return MEMIF_ERR_FILE_LIMIT;
        case EMFILE: return MEMIF_ERR_PROC_FILE_LIMIT;
        case ENOMEM: return MEMIF_ERR_NOMEM;
        case EBADF: return MEMIF_ERR_BAD_FD;
        }
    switch (status) {
    case QM_OK: return MEMIF_ERR_SUCCESS;
    case QM_INVALID: return MEMIF_ERR_INVAL_ARG;
    case QM_DOWN: return MEMIF_ERR_DISCONNECTED;
    case QM_FAULT: return MEMIF_ERR_DISCONNECT;
    case QM_IN_USE: return MEMIF_ERR_CONN;
    case QM_TOO_LONG: return MEMIF_ERR_NOBUF_RING;
    default: return MEMIF_ERR_SYSCALL;
    }
}

int memif_init(memif_control_fd_update_t *on_control_fd_update, char *app_name, memif_alloc_t *alloc, memif_realloc_t *realloc,
               memif_free_t *free)
{
    (void)alloc, (void)realloc, (void)free;
    if (on_control_fd_update)
        return MEMIF_ERR_CB_FDUPDATE;
    snprintf(default_name, sizeof default_name, "%s", app_name ? app_name : MEMIF_DEFAULT_APP_NAME);
    return MEMIF_ERR_SUCCESS;
}

int memif_cleanup(void)
{
    return MEMIF_ERR_SUCCESS;
}

uint16_t memif_get_version(void)
{
    return 0x0200;
}

const char *memif_get_version_str(void)
{
    return "2.0";
}

char *memif_strerror(int err_code)
{
    static char *const texts[] = {
        [MEMIF_ERR_SUCCESS] = "success",
        [MEMIF_ERR_SYSCALL] = "system call failed: qm_last_error() says which and of what",
        [MEMIF_ERR_CONNREFUSED] = "connection refused",
        [MEMIF_ERR_ACCES] = "permission denied",
        [MEMIF_ERR_NO_FILE] = "no such file or directory",
        [MEMIF_ERR_FILE_LIMIT] = "the system has too many open files",
        [MEMIF_ERR_PROC_FILE_LIMIT] = "the process has too many open files",
        [MEMIF_ERR_ALREADY] = "already under way",
        [MEMIF_ERR_AGAIN] = "try again",
        [MEMIF_ERR_BAD_FD] = "bad file descriptor",
        [MEMIF_ERR_INVAL_ARG] = "invalid argument: qm_last_error() says which",
        [MEMIF_ERR_NOCONN] = "no such connection",
        [MEMIF_ERR_CONN] = "another process or connection uses the socket",
        [MEMIF_ERR_CB_FDUPDATE] = "the control descriptor callback failed, or is to be given to memif_create_socket",
        [MEMIF_ERR_FILE_NOT_SOCK] = "file exists and is not a socket",
        [MEMIF_ERR_NO_SHMFD] = "no shared memory",
        [MEMIF_ERR_COOKIE] = "wrong cookie on a ring",
        [MEMIF_ERR_NOBUF_RING] = "ring is full",
        [MEMIF_ERR_NOBUF] = "not enough buffers",
        [MEMIF_ERR_NOBUF_DET] = "buffer is too small for the details",
        [MEMIF_ERR_NOMEM] = "out of memory",
        [MEMIF_ERR_INT_WRITE] = "signalling failed",
        [MEMIF_ERR_MFMSG] = "malformed message",
        [MEMIF_ERR_QID] = "no such queue",
        [MEMIF_ERR_PROTO] = "incompatible protocol version",
        [MEMIF_ERR_ID] = "unmatched interface id",
        [MEMIF_ERR_ACCSLAVE] = "slaves take no connections",
        [MEMIF_ERR_ALRCONN] = "already connected",
        [MEMIF_ERR_MODE] = "interface mode is not supported",
        [MEMIF_ERR_SECRET] = "incorrect secret",
        [MEMIF_ERR_NOSECRET] = "secret required",
        [MEMIF_ERR_MAXREG] = "too many regions",
        [MEMIF_ERR_MAXRING] = "too many rings, or connections of a socket",
        [MEMIF_ERR_NO_INTFD] = "no interrupt descriptor",
        [MEMIF_ERR_UNKNOWN_MSG] = "unknown message",
        [MEMIF_ERR_MAX_RING_SIZE] = "ring is larger than 2^14",
        [MEMIF_ERR_PRIVHDR] = "private headers are not supported",
        [MEMIF_ERR_DISCONNECT] = "connection ended: the peer broke the protocol",
        [MEMIF_ERR_DISCONNECTED] = "not connected",
        [MEMIF_ERR_POLL_CANCEL] = "polling was cancelled",
    };
    if (err_code < 0 || (size_t)err_code >= sizeof texts / sizeof *texts || !texts[err_code])
        return "unknown error";
    return texts[err_code];
}

int memif_create_socket(memif_socket_handle_t *sock, memif_socket_args_t *args, void *private_ctx)
{
    if (!sock || !args)
        return MEMIF_ERR_INVAL_ARG;
    sock_t *s = calloc(1, sizeof *s);
    if (!s)
        return MEMIF_ERR_NOMEM;
    const char *path = args->path[0] ? args->path : MEMIF_DEFAULT_SOCKET_PATH;
    snprintf(s->path, sizeof s->path, "%.*s", (int)sizeof args->path, path);
    snprintf(s->name, sizeof s->name, "%.*s", (int)sizeof args->app_name, args->app_name[0] ? args->app_name : default_name);
    s->on_control_fd_update = args->on_control_fd_update;
    s->private_ctx = private_ctx;
    *sock = s;
    return MEMIF_ERR_SUCCESS;
}

int memif_delete_socket(memif_socket_handle_t *sock)
{
    sock_t *s = sock ? *sock : NULL;
    if (!s)
        return MEMIF_ERR_INVAL_ARG;
    if (s->count)
        return MEMIF_ERR_CONN; /* delete its connections first */
    free(s);
    *sock = NULL;
    return MEMIF_ERR_SUCCESS;
}

const char *memif_get_socket_path(memif_socket_handle_t sock)
{
    return sock ? ((sock_t *)sock)->path : NULL;
}

memif_socket_handle_t memif_get_socket_handle(memif_conn_handle_t conn)
{
    return conn ? ((conn_t *)conn)->sock : NULL;
}

static int open_port(conn_t *c, const char *name, const char *secret)
{
    const memif_conn_args_t *a = &c->args;
    if (a->is_master) {
        /* Of a server these are what it accepts. */
        qm_server_options options = {.id = a->interface_id, .mode = a->mode, .name = name, .secret = secret};
        return qm_open_server(c->sock->path, &options, &c->port);
    }
    qm_client_options options = {
        .id = a->interface_id, .mode = a->mode, .name = name, .secret = secret, .rx_queues = a->num_m2s_rings,
        .tx_queues = a->num_s2m_rings, .buffer_size = a->buffer_size, .ring_size = 1u << a->log2_ring_size,
    };
    return qm_open_client(c->sock->path, &options, &c->port);
}

int memif_create(memif_conn_handle_t *conn, memif_conn_args_t *args, memif_connection_update_t *on_connect,
                 memif_connection_update_t *on_disconnect, memif_interrupt_t *on_interrupt, void *private_ctx)
{
    if (!conn || !args || !args->socket)
        return MEMIF_ERR_INVAL_ARG;
    if (args->mode > MEMIF_INTERFACE_MODE_PUNT_INJECT)
        return MEMIF_ERR_MODE;
    if (args->log2_ring_size > 14)
        return MEMIF_ERR_MAX_RING_SIZE;
    sock_t *s = args->socket;
    if (s->count == MAX_CONNS)
        return MEMIF_ERR_MAXRING;
    conn_t *c = calloc(1, sizeof *c);
    if (!c)
        return MEMIF_ERR_NOMEM;
    *c = (conn_t){.sock = s, .args = *args, .on_connect = on_connect, .on_disconnect = on_disconnect,
                  .on_interrupt = on_interrupt, .private_ctx = private_ctx};
    if (!c->args.log2_ring_size)
        c->args.log2_ring_size = MEMIF_DEFAULT_LOG2_RING_SIZE;
    if (!c->args.buffer_size)
        c->args.buffer_size = MEMIF_DEFAULT_BUFFER_SIZE;
    char name[33], secret[25];
    snprintf(name, sizeof name, "%.*s", (int)sizeof args->interface_name, (const char *)args->interface_name);
    snprintf(secret, sizeof secret, "%.*s", (int)sizeof args->secret, (const char *)args->secret);
    int status = open_port(c, name[0] ? name : s->name, secret);
    if (status != QM_OK) {
        free(c);
        return compat_error(status);
    }
    s->conns[s->count++] = c;
    *conn = c;
    int err = compat_watch(c, MEMIF_FD_EVENT_READ);
    if (err != MEMIF_ERR_SUCCESS)
        memif_delete(conn);
    return err;
}

int memif_delete(memif_conn_handle_t *conn)
{
    conn_t *c = conn ? *conn : NULL;
    if (!c)
        return MEMIF_ERR_NOCONN;
    sock_t *s = c->sock;
    compat_watch(c, MEMIF_FD_EVENT_DEL);
    for (size_t i = 0; i < s->count; i++)
        if (s->conns[i] == c)
            s->conns[i] = s->conns[--s->count];
    qm_close(c->port);
    for (size_t i = 0; i < MAX_QUEUES; i++)
        free(c->queues[i].staging);
    free(c);
    *conn = NULL;
    return MEMIF_ERR_SUCCESS;
}

int memif_request_connection(memif_conn_handle_t conn)
{
    conn_t *c = conn;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (c->up)
        return MEMIF_ERR_ALRCONN;
    int err = compat_error(qm_wait(&c->port, 1, 0)); /* it connects anyway: this tries now */
    return err == MEMIF_ERR_SUCCESS ? compat_arm(c) : err;
}

int memif_set_rx_mode(memif_conn_handle_t conn, memif_rx_mode_t rx_mode, uint16_t qid)
{
    conn_t *c = conn;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (qid >= MAX_QUEUES)
        return MEMIF_ERR_QID;
    c->queues[qid].polling = rx_mode == MEMIF_RX_MODE_POLLING;
    return MEMIF_ERR_SUCCESS;
}
