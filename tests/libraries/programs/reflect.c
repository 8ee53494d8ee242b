/* Sends every packet back unchanged, on the queue of the same number. An application as libmemif's documentation has it: nothing in it
 * is known of Quiver, and it is compiled against whichever libmemif.h there is.
 *
 *     reflect SOCKET master|slave QUEUES epoll|poll [polling]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <libmemif.h>

#define BURST 256

static int epoll = -1, queues;
static memif_rx_mode_t rx_mode = MEMIF_RX_MODE_INTERRUPT;
static memif_conn_handle_t the_conn;
static int connected;

static int on_control_fd_update(memif_fd_event_t fde, void *private_ctx)
{
    (void)private_ctx;
    if (fde.type & MEMIF_FD_EVENT_DEL)
        return epoll_ctl(epoll, EPOLL_CTL_DEL, fde.fd, NULL);
    struct epoll_event event = {.data.ptr = fde.private_ctx};
    event.events = (fde.type & MEMIF_FD_EVENT_READ ? EPOLLIN : 0) | (fde.type & MEMIF_FD_EVENT_WRITE ? EPOLLOUT : 0);
    return epoll_ctl(epoll, fde.type & MEMIF_FD_EVENT_MOD ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fde.fd, &event);
}

static int reflect(memif_conn_handle_t conn, uint16_t qid)
{
    static memif_buffer_t in[BURST], out[BURST];
    uint16_t rx = 0, tx;
    int err = memif_rx_burst(conn, qid, in, BURST, &rx);
    if (err != MEMIF_ERR_SUCCESS && err != MEMIF_ERR_NOBUF)
        return err;
    for (uint16_t i = 0; i < rx;) {
        /* Room for a chain may come in pieces: whole packets only are sent, by waiting for the rest. */
        uint16_t n = 1;
        while (in[i + n - 1].flags & MEMIF_BUFFER_FLAG_NEXT && i + n < rx)
            n++;
        for (uint16_t got = 0, more; got < n; got += more) {
            err = memif_buffer_alloc(conn, qid, out + got, n - got, &more, 2048);
            if (err != MEMIF_ERR_SUCCESS && err != MEMIF_ERR_NOBUF_RING)
                return err;
        }
        for (uint16_t j = 0; j < n; j++) {
            memcpy(out[j].data, in[i + j].data, in[i + j].len);
            out[j].len = in[i + j].len;
            out[j].flags = in[i + j].flags & MEMIF_BUFFER_FLAG_NEXT;
        }
        err = memif_tx_burst(conn, qid, out, n, &tx);
        if (err != MEMIF_ERR_SUCCESS || tx != n)
            return err;
        i += n;
    }
    return rx ? memif_refill_queue(conn, qid, rx, 0) : MEMIF_ERR_SUCCESS;
}

static int on_interrupt(memif_conn_handle_t conn, void *private_ctx, uint16_t qid)
{
    (void)private_ctx;
    return reflect(conn, qid);
}

static int on_connect(memif_conn_handle_t conn, void *private_ctx)
{
    (void)private_ctx;
    for (uint16_t q = 0; q < queues; q++) {
        memif_set_rx_mode(conn, rx_mode, q);
        memif_refill_queue(conn, q, (uint16_t)-1, 0);
    }
    connected = 1;
    puts("connected");
    fflush(stdout);
    return 0;
}

static int on_disconnect(memif_conn_handle_t conn, void *private_ctx)
{
    (void)conn, (void)private_ctx;
    connected = 0;
    puts("disconnected");
    fflush(stdout);
    return 0;
}

static void own_loop(void)
{
    for (;;) {
        struct epoll_event events[16];
        int polling = connected && rx_mode == MEMIF_RX_MODE_POLLING;
        int n = epoll_wait(epoll, events, 16, polling ? 0 : -1);
        for (int i = 0; i < n; i++) {
            memif_fd_event_type_t type = 0;
            if (events[i].events & EPOLLIN)
                type |= MEMIF_FD_EVENT_READ;
            if (events[i].events & EPOLLOUT)
                type |= MEMIF_FD_EVENT_WRITE;
            if (events[i].events & (EPOLLERR | EPOLLHUP))
                type |= MEMIF_FD_EVENT_ERROR;
            memif_control_fd_handler(events[i].data.ptr, type);
        }
        for (uint16_t q = 0; polling && connected && q < queues; q++)
            reflect(the_conn, q);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    queues = atoi(argv[3]);
    if (argc > 5)
        rx_mode = MEMIF_RX_MODE_POLLING;
    memif_socket_args_t socket_args = {.app_name = "reflect"};
    snprintf(socket_args.path, sizeof socket_args.path, "%s", argv[1]);
    if (!strcmp(argv[4], "epoll")) {
        epoll = epoll_create1(0);
        socket_args.on_control_fd_update = on_control_fd_update;
    }
    int master = !strcmp(argv[2], "master");
    if (!master) {
        socket_args.connection_request_timer.it_value.tv_nsec = 100000000;
        socket_args.connection_request_timer.it_interval.tv_nsec = 100000000;
    }
    memif_socket_handle_t socket;
    int err = memif_create_socket(&socket, &socket_args, NULL);
    memif_conn_args_t args = {
        .socket = socket, .is_master = (uint8_t)master, .num_s2m_rings = (uint8_t)queues, .num_m2s_rings = (uint8_t)queues,
        .interface_name = "reflect0", .log2_ring_size = 10, .buffer_size = 2048,
    };
    if (err == MEMIF_ERR_SUCCESS)
        err = memif_create(&the_conn, &args, on_connect, on_disconnect, on_interrupt, NULL);
    if (err == MEMIF_ERR_SUCCESS && epoll >= 0)
        own_loop();
    while (err == MEMIF_ERR_SUCCESS) {
        int polling = connected && rx_mode == MEMIF_RX_MODE_POLLING;
        err = memif_poll_event(socket, polling ? 0 : -1);
        for (uint16_t q = 0; polling && connected && q < queues; q++)
            reflect(the_conn, q);
    }
    fprintf(stderr, "%s\n", memif_strerror(err));
    return 1;
}
