/* memif_get_details of the libmemif layer. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Takes size bytes of the caller's buffer, aligned; NULL if there is no room. */
static void *take(char **buf, size_t *left, size_t size)
{
    size_t skip = (8 - (uintptr_t)*buf % 8) % 8;
    if (*left < skip + size)
        return NULL;
    void *taken = memset(*buf + skip, 0, size);
    *buf += skip + size;
    *left -= skip + size;
    return taken;
}

static uint8_t *text(char **buf, size_t *left, const char *from, size_t most)
{
    size_t length = strnlen(from, most);
    uint8_t *to = take(buf, left, length + 1);
    return to ? memcpy(to, from, length) : NULL;
}

static memif_queue_details_t *queues(char **buf, size_t *left, const conn_t *c, uint32_t count, uint32_t ring_size)
{
    memif_queue_details_t *all = take(buf, left, count * sizeof *all);
    for (uint32_t i = 0; all && i < count; i++)
        all[i] = (memif_queue_details_t){.qid = (uint8_t)i, .ring_size = ring_size, .buffer_size = c->args.buffer_size};
    return all;
}

int memif_get_details(memif_conn_handle_t conn, memif_details_t *md, char *buf, ssize_t buflen)
{
    conn_t *c = conn;
    if (!c)
        return MEMIF_ERR_NOCONN;
    if (!md || !buf || buflen < 0)
        return MEMIF_ERR_INVAL_ARG;
    size_t left = (size_t)buflen;
    qm_info info = {0};
    int up = qm_get_info(c->port, &info) == QM_OK;
    uint32_t rx = info.rx_queues < 255 ? info.rx_queues : 255, tx = info.tx_queues < 255 ? info.tx_queues : 255;
    *md = (memif_details_t){
        .if_name = text(&buf, &left, (const char *)c->args.interface_name, sizeof c->args.interface_name),
        .inst_name = text(&buf, &left, c->sock->name, sizeof c->sock->name),
        .remote_if_name = text(&buf, &left, info.peer_interface, sizeof info.peer_interface),
        .remote_inst_name = text(&buf, &left, info.peer_application, sizeof info.peer_application),
        .id = c->args.interface_id,
        .secret = text(&buf, &left, (const char *)c->args.secret, sizeof c->args.secret),
        .role = !c->args.is_master,
        .mode = (uint8_t)c->args.mode,
        .socket_path = text(&buf, &left, c->sock->path, sizeof c->sock->path),
        .rx_queues_num = (uint8_t)rx,
        .tx_queues_num = (uint8_t)tx,
        .rx_queues = queues(&buf, &left, c, rx, info.ring_size),
        .tx_queues = queues(&buf, &left, c, tx, info.ring_size),
        .link_up_down = (uint8_t)up,
    };
    int all = md->if_name && md->inst_name && md->remote_if_name && md->remote_inst_name && md->secret && md->socket_path &&
              md->rx_queues && md->tx_queues;
    return all ? MEMIF_ERR_SUCCESS : MEMIF_ERR_NOBUF_DET;
}
