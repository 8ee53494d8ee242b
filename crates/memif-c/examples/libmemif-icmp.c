/* A host on a memif in the style of libmemif's own examples: answers ARP and ping for every IPv4 address.
 *
 *     libmemif-icmp SOCKET [master]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libmemif.h>

#define MAX_BURST 64

static const uint8_t mac[6] = {0x02, 0xfe, 0, 0, 0, 2};

/* Turns a frame into its answer. */
static int answer(uint8_t *f, uint32_t len)
{
    if (len >= 42 && f[12] == 8 && f[13] == 6 && f[21] == 1) { /* ARP request */
        uint8_t target[4];
        memcpy(target, f + 38, 4);
        memcpy(f + 32, f + 22, 10);
        memcpy(f + 22, mac, 6);
        memcpy(f + 28, target, 4);
        f[21] = 2;
    } else if (len >= 42 && f[12] == 8 && f[13] == 0 && f[14] == 0x45 && f[23] == 1 && f[34] == 8) { /* echo request */
        uint8_t source[4];
        memcpy(source, f + 26, 4);
        memcpy(f + 26, f + 30, 4);
        memcpy(f + 30, source, 4);
        f[34] = 0;
        uint32_t sum = (uint32_t)(f[36] << 8 | f[37]) + 0x800;
        sum += sum >> 16;
        f[36] = (uint8_t)(sum >> 8), f[37] = (uint8_t)sum;
    } else {
        return 0;
    }
    memcpy(f, f + 6, 6);
    memcpy(f + 6, mac, 6);
    return 1;
}

static int on_connect(memif_conn_handle_t conn, void *private_ctx)
{
    (void)private_ctx;
    memif_details_t md;
    char buf[4096];
    if (memif_get_details(conn, &md, buf, sizeof buf) == MEMIF_ERR_SUCCESS)
        printf("connected to %s\n", (char *)md.remote_inst_name);
    fflush(stdout);
    return memif_refill_queue(conn, 0, -1, 0);
}

static int on_disconnect(memif_conn_handle_t conn, void *private_ctx)
{
    (void)conn, (void)private_ctx;
    printf("disconnected\n");
    fflush(stdout);
    return 0;
}

static int on_interrupt(memif_conn_handle_t conn, void *private_ctx, uint16_t qid)
{
    (void)private_ctx;
    memif_buffer_t in[MAX_BURST], out[MAX_BURST];
    uint16_t rx, tx, got, n = 0;
    int err = memif_rx_burst(conn, qid, in, MAX_BURST, &rx);
    if (err != MEMIF_ERR_SUCCESS)
        return err;
    for (uint16_t i = 0; i < rx; i++) {
        uint8_t frame[2048];
        if (in[i].len > sizeof frame)
            continue;
        memcpy(frame, in[i].data, in[i].len);
        if (!answer(frame, in[i].len) || memif_buffer_alloc(conn, qid, &out[n], 1, &got, (uint16_t)in[i].len) || got != 1)
            continue;
        memcpy(out[n].data, frame, in[i].len);
        out[n++].len = in[i].len;
    }
    err = memif_refill_queue(conn, qid, rx, 0);
    if (n > 0 && err == MEMIF_ERR_SUCCESS)
        err = memif_tx_burst(conn, qid, out, n, &tx);
    return err;
}

int main(int argc, char **argv)
{
    memif_socket_handle_t sock;
    memif_conn_handle_t conn;
    memif_socket_args_t sock_args = {.app_name = "libmemif-icmp"};
    memif_conn_args_t conn_args = {.interface_id = 0, .interface_name = "memif0"};
    if (argc < 2)
        return 2;
    snprintf(sock_args.path, sizeof sock_args.path, "%s", argv[1]);
    int err = memif_create_socket(&sock, &sock_args, NULL);
    if (err == MEMIF_ERR_SUCCESS) {
        conn_args.socket = sock;
        conn_args.is_master = argc > 2;
        err = memif_create(&conn, &conn_args, on_connect, on_disconnect, on_interrupt, NULL);
    }
    while (err == MEMIF_ERR_SUCCESS)
        err = memif_poll_event(sock, -1);
    fprintf(stderr, "%s\n", memif_strerror(err));
    return 1;
}
