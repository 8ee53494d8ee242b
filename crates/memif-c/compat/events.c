/* What happens to connections of the libmemif layer: memif_poll_event, or the application's own event loop. */
#include "internal.h"

/* memif_poll_event(-1) waits in pieces of this many milliseconds. */
#define FOREVER_STEP 1000

/* Tells a connection's events and which queues have packets. What a callback returns doesn't matter. It must not delete
 * connections of the socket. */
static void tell(conn_t *c)
{
    qm_event event;
    while (qm_next_event(c->port, &event) == QM_OK) {
        int up = event.kind == QM_EVENT_UP;
        if (!up && event.kind != QM_EVENT_DOWN)
            continue;
        c->up = up;
        memif_connection_update_t *told = up ? c->on_connect : c->on_disconnect;
        if (told)
            told(c, c->private_ctx);
        /* What was received over the old connection must be given back before the new one is used. */
        for (unsigned q = 0; !up && q < MAX_QUEUES; q++) {
            c->queues[q].lent = 0;
            c->queues[q].next = c->queues[q].out = 0;
            qm_release(c->port, q);
        }
    }
    int ready = 0;
    for (unsigned q = 0; c->up && c->on_interrupt && q < MAX_QUEUES && qm_ready(c->port, q, &ready) == QM_OK; q++)
        if (ready && !c->queues[q].polling)
            c->on_interrupt(c, c->private_ctx, (uint16_t)q);
}

int memif_poll_event(memif_socket_handle_t sock, int timeout)
{
    sock_t *s = sock;
    if (!s || timeout < -1 || s->on_control_fd_update)
        return MEMIF_ERR_INVAL_ARG;
    if (!s->count)
        return MEMIF_ERR_NOCONN;
    do {
        qm_port *ports[MAX_CONNS];
        size_t count = s->count;
        for (size_t i = 0; i < count; i++)
            ports[i] = s->conns[i]->port;
        int status = qm_wait(ports, count, timeout < 0 ? FOREVER_STEP : timeout);
        if (status != QM_OK)
            return compat_error(status);
        int happened = 0, ready = 0;
        for (size_t i = 0; i < s->count; i++) {
            conn_t *c = s->conns[i];
            int was = c->up;
            tell(c);
            happened |= was != c->up || (c->up && qm_ready(c->port, 0, &ready) == QM_OK && ready);
        }
        if (atomic_exchange(&s->cancelled, 0))
            return MEMIF_ERR_POLL_CANCEL;
        if (happened)
            break;
    } while (timeout < 0);
    return MEMIF_ERR_SUCCESS;
}

int memif_cancel_poll_event(memif_socket_handle_t sock)
{
    sock_t *s = sock;
    if (!s || !s->count)
        return MEMIF_ERR_INVAL_ARG;
    s->cancelled = 1;
    return compat_error(qm_wake(s->conns[0]->port));
}

int compat_arm(conn_t *c)
{
    int fd;
    return c->sock->on_control_fd_update || c->queue_efd ? compat_error(qm_watch(c->port, &fd)) : MEMIF_ERR_SUCCESS;
}

int memif_get_queue_efd(memif_conn_handle_t conn, uint16_t qid, int *fd)
{
    conn_t *c = conn;
    qm_info info;
    if (fd)
        *fd = -1;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (!fd)
        return MEMIF_ERR_INVAL_ARG;
    if (qm_get_info(c->port, &info) != QM_OK)
        return MEMIF_ERR_DISCONNECTED;
    if (qid >= info.rx_queues)
        return MEMIF_ERR_QID;
    c->queue_efd = 1;
    return compat_error(qm_watch(c->port, fd));
}

int compat_watch(conn_t *c, memif_fd_event_type_t type)
{
    sock_t *s = c->sock;
    memif_fd_event_t event = {.type = type, .private_ctx = c};
    if (!s->on_control_fd_update)
        return MEMIF_ERR_SUCCESS;
    int err = compat_error(qm_watch(c->port, &event.fd));
    if (err != MEMIF_ERR_SUCCESS)
        return err;
    return s->on_control_fd_update(event, s->private_ctx) ? MEMIF_ERR_CB_FDUPDATE : MEMIF_ERR_SUCCESS;
}

int memif_control_fd_handler(void *ptr, memif_fd_event_type_t events)
{
    conn_t *c = ptr;
    (void)events; /* what there is to do is found out anyway */
    if (!c || !c->sock->on_control_fd_update)
        return MEMIF_ERR_INVAL_ARG;
    int err = compat_error(qm_wait(&c->port, 1, 0));
    if (err != MEMIF_ERR_SUCCESS)
        return err;
    tell(c);
    /* What a callback left unread makes the descriptor readable again. */
    return compat_arm(c);
}
