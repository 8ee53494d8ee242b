/* Packets of the libmemif layer. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define BURST 256

int memif_rx_burst(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *rx)
{
    conn_t *c = conn;
    if (rx)
        *rx = 0;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (!bufs || !rx)
        return MEMIF_ERR_INVAL_ARG;
    if (qid >= MAX_QUEUES)
        return MEMIF_ERR_QID;
    queue_t *q = &c->queues[qid];
    qm_piece pieces[BURST];
    while (*rx < count) {
        size_t want = count - *rx < BURST ? (size_t)(count - *rx) : BURST, n;
        int status = qm_receive(c->port, qid, pieces, want, &n);
        if (status != QM_OK)
            return *rx ? MEMIF_ERR_SUCCESS : compat_error(status);
        for (size_t i = 0; i < n; i++)
            bufs[(*rx)++] = (memif_buffer_t){
                .queue = q, .len = pieces[i].length, .data = (void *)pieces[i].data,
                .flags = pieces[i].flags & QM_MORE ? MEMIF_BUFFER_FLAG_NEXT : 0,
            };
        q->lent += n;
        if (n < want)
            break;
    }
    return MEMIF_ERR_SUCCESS;
}

int memif_refill_queue(memif_conn_handle_t conn, uint16_t qid, uint16_t count, uint16_t headroom)
{
    conn_t *c = conn;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (qid >= MAX_QUEUES)
        return MEMIF_ERR_QID;
    if (headroom)
        return MEMIF_ERR_INVAL_ARG;
    queue_t *q = &c->queues[qid];
    /* UINT16_MAX means all. */
    uint32_t back = count == UINT16_MAX || count > q->lent ? q->lent : count;
    q->lent -= back;
    return back ? compat_error(qm_release_first(c->port, qid, back)) : MEMIF_ERR_SUCCESS;
}

/* Room for as many buffers as a ring that was asked for has slots; made once, so that buffers outlive a connection. */
static int stage(conn_t *c, queue_t *q)
{
    if (!c->up)
        return MEMIF_ERR_DISCONNECTED;
    if (q->staging)
        return MEMIF_ERR_SUCCESS;
    q->size = c->args.buffer_size;
    q->slots = (size_t)1 << c->args.log2_ring_size;
    q->staging = calloc(q->slots, q->size);
    return q->staging ? MEMIF_ERR_SUCCESS : MEMIF_ERR_NOMEM;
}

int memif_buffer_alloc(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out,
                       uint16_t size)
{
    conn_t *c = conn;
    if (count_out)
        *count_out = 0;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (!bufs || !count_out)
        return MEMIF_ERR_INVAL_ARG;
    if (qid >= MAX_QUEUES)
        return MEMIF_ERR_QID;
    queue_t *q = &c->queues[qid];
    int err = stage(c, q);
    if (err)
        return err;
    size_t each = size ? (size + q->size - 1) / q->size : 1; /* a longer packet is a chain of buffers */
    while ((size_t)(count - *count_out) >= each && q->out + each <= q->slots) {
        for (size_t left = size ? size : q->size, i = 0; i < each; i++) {
            size_t part = left < q->size ? left : q->size;
            bufs[(*count_out)++] = (memif_buffer_t){
                .desc_index = (uint16_t)q->next, .queue = q, .len = (uint32_t)part, .data = q->staging + q->next * q->size,
                .flags = i + 1 < each ? MEMIF_BUFFER_FLAG_NEXT : 0,
            };
            left -= part;
            q->next = (q->next + 1) % q->slots;
            q->out++;
        }
    }
    return *count_out < count ? MEMIF_ERR_NOBUF_RING : MEMIF_ERR_SUCCESS;
}

int memif_tx_burst(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *tx)
{
    conn_t *c = conn;
    if (tx)
        *tx = 0;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (!bufs || !tx)
        return MEMIF_ERR_INVAL_ARG;
    if (qid >= MAX_QUEUES)
        return MEMIF_ERR_QID;
    queue_t *q = &c->queues[qid];
    qm_piece pieces[BURST];
    while (*tx < count) {
        size_t n = 0, sent;
        for (size_t i = *tx; i < count && n < BURST; i++, n++)
            pieces[n] = (qm_piece){bufs[i].data, bufs[i].len, bufs[i].flags & MEMIF_BUFFER_FLAG_NEXT ? QM_MORE : 0};
        while (n && pieces[n - 1].flags & QM_MORE)
            n--; /* the rest of this packet is in the next piece of the burst, or missing */
        if (!n)
            return MEMIF_ERR_INVAL_ARG;
        int status = qm_send(c->port, qid, pieces, n, &sent);
        if (status != QM_OK)
            return *tx ? MEMIF_ERR_SUCCESS : compat_error(status);
        *tx += (uint16_t)sent;
        q->out -= sent < q->out ? sent : q->out;
        if (sent < n)
            break;
    }
    return MEMIF_ERR_SUCCESS;
}
