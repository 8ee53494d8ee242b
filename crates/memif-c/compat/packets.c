/* Packets of the libmemif layer. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define BURST 256

/* What the calls for bursts have in common: arguments, and none of the buffers done yet. */
static int check(conn_t *c, uint16_t qid, const memif_buffer_t *bufs, uint16_t *done)
{
    if (done)
        *done = 0;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (!bufs || !done)
        return MEMIF_ERR_INVAL_ARG;
    return qid >= MAX_QUEUES ? MEMIF_ERR_QID : MEMIF_ERR_SUCCESS;
}

static int receive(conn_t *c, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *rx)
{
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

int memif_rx_burst(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *rx)
{
    conn_t *c = conn;
    int err = check(c, qid, bufs, rx);
    if (err)
        return err;
    err = receive(c, qid, bufs, count, rx);
    /* Who sleeps on memif_get_queue_efd does nothing else before it sleeps again. */
    int armed = c->queue_efd ? compat_arm(c) : MEMIF_ERR_SUCCESS;
    return err ? err : armed;
}

/* Whether a buffer is one to send, and not a received one. */
static int is_staged(const queue_t *q, const memif_buffer_t *buffer)
{
    uintptr_t at = (uintptr_t)buffer->data, first = (uintptr_t)q->staging;
    return q->staging && at >= first && at - first < q->slots * q->size;
}

int memif_buffer_free(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out)
{
    conn_t *c = conn;
    int err = check(c, qid, bufs, count_out);
    if (err)
        return err;
    queue_t *q = &c->queues[qid];
    uint16_t back = 0;
    while (back < count && back < q->lent && !is_staged(bufs[back].queue ? bufs[back].queue : q, &bufs[back]))
        back++;
    if (back < count && back < q->lent)
        return MEMIF_ERR_INVAL_ARG;
    q->lent -= back;
    *count_out = back;
    return back ? compat_error(qm_release_first(c->port, qid, back)) : MEMIF_ERR_SUCCESS;
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

/* The next buffer to send, of so many bytes. There is one. */
static memif_buffer_t next_slot(queue_t *q, uint32_t length, int flags)
{
    memif_buffer_t slot = {
        .desc_index = (uint16_t)q->next, .queue = q, .len = length, .data = q->staging + q->next * q->size, .flags = (uint8_t)flags,
    };
    q->next = (q->next + 1) % q->slots;
    q->out++;
    return slot;
}

int memif_buffer_alloc(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out,
                       uint16_t size)
{
    conn_t *c = conn;
    int err = check(c, qid, bufs, count_out);
    if (err)
        return err;
    queue_t *q = &c->queues[qid];
    err = stage(c, q);
    if (err)
        return err;
    size_t each = size ? (size + q->size - 1) / q->size : 1; /* a longer packet is a chain of buffers */
    while ((size_t)(count - *count_out) >= each && q->out + each <= q->slots) {
        for (size_t left = size ? size : q->size, i = 0; i < each; i++) {
            size_t part = left < q->size ? left : q->size;
            bufs[(*count_out)++] = next_slot(q, (uint32_t)part, i + 1 < each ? MEMIF_BUFFER_FLAG_NEXT : 0);
            left -= part;
        }
    }
    return *count_out < count ? MEMIF_ERR_NOBUF_RING : MEMIF_ERR_SUCCESS;
}

int memif_buffer_enq_tx(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *count_out)
{
    conn_t *c = conn;
    int err = check(c, qid, bufs, count_out);
    if (err)
        return err;
    queue_t *q = &c->queues[qid];
    if (c->args.is_master)
        return MEMIF_ERR_INVAL_ARG; /* the slave is who has buffers */
    err = stage(c, q);
    if (err)
        return err;
    while (*count_out < count) {
        /* Whole packets only. */
        size_t parts = 1;
        memif_buffer_t *first = &bufs[*count_out];
        while (first[parts - 1].flags & MEMIF_BUFFER_FLAG_NEXT) {
            if (*count_out + parts == count)
                return MEMIF_ERR_INVAL_ARG;
            parts++;
        }
        if (q->out + parts > q->slots)
            return MEMIF_ERR_NOBUF_RING;
        for (size_t i = 0; i < parts; i++)
            if (first[i].len > q->size || is_staged(q, &first[i]))
                return MEMIF_ERR_INVAL_ARG;
        for (size_t i = 0; i < parts; i++) {
            memif_buffer_t to = next_slot(q, first[i].len, first[i].flags & MEMIF_BUFFER_FLAG_NEXT);
            memcpy(to.data, first[i].data, to.len);
            bufs[(*count_out)++] = to;
        }
    }
    return MEMIF_ERR_SUCCESS;
}

int memif_tx_burst(memif_conn_handle_t conn, uint16_t qid, memif_buffer_t *bufs, uint16_t count, uint16_t *tx)
{
    conn_t *c = conn;
    int err = check(c, qid, bufs, tx);
    if (err)
        return err;
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
        /* Received buffers may be sent as they are: they take no slot. */
        for (size_t i = 0; i < sent; i++)
            q->out -= q->out && is_staged(q, &bufs[*tx + i]);
        *tx += (uint16_t)sent;
        if (sent < n)
            break;
    }
    return MEMIF_ERR_SUCCESS;
}
