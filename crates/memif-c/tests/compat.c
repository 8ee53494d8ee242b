/* The libmemif layer: received buffers are given back in parts, oldest first, and the peer gets room for as many; they are sent as they are;
 * a thread sleeps for a queue. The peer is a port of this library in the same process. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <quiver-memif-compat/libmemif.h>
#include <quiver/memif.h>

#include "check.h"

#define RING 64

static int is_up;

static int up(memif_conn_handle_t conn, void *context)
{
    (void)context;
    is_up = 1;
    /* Buffers of a ring that the peer has made are there already. */
    return memif_refill_queue(conn, 0, UINT16_MAX, 0);
}

static int down(memif_conn_handle_t conn, void *context)
{
    (void)conn, (void)context;
    is_up = 0;
    return 0;
}

/* Sends numbers as far as there is room; gives how many. */
static size_t send_from(qm_port *port, uint32_t first, size_t count)
{
    uint32_t numbers[2 * RING];
    qm_piece pieces[2 * RING];
    size_t sent;
    CHECK(count <= 2 * RING);
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = first + i, pieces[i] = (qm_piece){&numbers[i], sizeof numbers[i], 0};
    CHECK(qm_send(port, 0, pieces, count, &sent) == QM_OK);
    return sent;
}

/* Receives that many numbers, from this one on. */
static void expect(memif_conn_handle_t conn, memif_buffer_t *buffers, uint32_t first, uint16_t count)
{
    uint16_t received;
    CHECK(memif_rx_burst(conn, 0, buffers, 2 * RING, &received) == MEMIF_ERR_SUCCESS && received == count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = first + i;
        CHECK(buffers[i].len == sizeof number && !memcmp(buffers[i].data, &number, sizeof number));
    }
}

/* A connection of the layer, up, and its peer. */
typedef struct pair {
    memif_socket_handle_t sock;
    memif_conn_handle_t conn;
    qm_port *peer;
} pair_t;

static pair_t open_pair(uint8_t is_master, const char *address)
{
    memif_socket_args_t socket_args = {.app_name = "compat"};
    snprintf(socket_args.path, sizeof socket_args.path, "%s", address);
    memif_socket_handle_t sock = NULL;
    CHECK(memif_create_socket(&sock, &socket_args, NULL) == MEMIF_ERR_SUCCESS);
    memif_conn_args_t args = {.socket = sock, .is_master = is_master, .log2_ring_size = 6};
    memif_conn_handle_t conn = NULL;
    qm_port *peer;
    if (!is_master)
        CHECK(qm_open_server(address, &(qm_server_options){0}, &peer) == QM_OK);
    CHECK(memif_create(&conn, &args, up, down, NULL, NULL) == MEMIF_ERR_SUCCESS);
    CHECK(memif_get_socket_handle(conn) == args.socket && !memif_get_socket_handle(NULL));
    if (is_master)
        CHECK(qm_open_client(address, &(qm_client_options){.ring_size = RING, .no_huge_pages = 1}, &peer) == QM_OK);
    else
        CHECK(memif_request_connection(conn) == MEMIF_ERR_SUCCESS);
    qm_info info;
    for (int i = 0; i < 20000 && (!is_up || qm_get_info(peer, &info)); i++)
        CHECK(qm_wait(&peer, 1, 5) == QM_OK && memif_poll_event(sock, 5) == MEMIF_ERR_SUCCESS);
    CHECK(is_up && qm_get_info(peer, &info) == QM_OK);
    return (pair_t){sock, conn, peer};
}

static void close_pair(pair_t *p)
{
    if (p->peer)
        qm_close(p->peer);
    CHECK(memif_delete(&p->conn) == MEMIF_ERR_SUCCESS && memif_delete_socket(&p->sock) == MEMIF_ERR_SUCCESS);
    is_up = 0;
}

static void refill(uint8_t is_master, const char *address)
{
    pair_t pair = open_pair(is_master, address);
    memif_conn_handle_t conn = pair.conn;
    qm_port *peer = pair.peer;
    memif_buffer_t held[RING], more[2 * RING];
    CHECK(send_from(peer, 0, 2 * RING) == RING);
    expect(conn, more, 0, RING);
    memcpy(held, more, sizeof held);
    uint32_t next = RING;
    /* In parts of different sizes: as many come, and what is still held is as it was. */
    for (uint16_t part = 1; part <= 9; part++) {
        CHECK(send_from(peer, next, 1) == 0);
        CHECK(memif_refill_queue(conn, 0, part, 0) == MEMIF_ERR_SUCCESS);
        CHECK(send_from(peer, next, 2 * RING) == part);
        for (uint32_t i = next - RING + part; i < RING; i++)
            CHECK(held[i].len == sizeof i && !memcmp(held[i].data, &i, sizeof i));
        expect(conn, more, next, part);
        next += part;
    }
    /* More than are held, or "all" (-1, as applications say it), is all; none is none. */
    CHECK(memif_refill_queue(conn, 0, 0, 0) == MEMIF_ERR_SUCCESS && send_from(peer, next, 1) == 0);
    CHECK(memif_refill_queue(conn, 0, 1000, 0) == MEMIF_ERR_SUCCESS);
    CHECK(send_from(peer, next, 2 * RING) == RING);
    expect(conn, more, next, RING);
    next += RING;
    CHECK(memif_refill_queue(conn, 0, (uint16_t)-1, 0) == MEMIF_ERR_SUCCESS);
    CHECK(memif_refill_queue(conn, 0, (uint16_t)-1, 0) == MEMIF_ERR_SUCCESS);
    CHECK(send_from(peer, next, 2 * RING) == RING);
    expect(conn, more, next, RING);

    CHECK(memif_refill_queue(NULL, 0, 1, 0) == MEMIF_ERR_NOCONN);
    CHECK(memif_refill_queue(conn, 256, 1, 0) == MEMIF_ERR_QID);
    CHECK(memif_refill_queue(conn, 0, 1, 128) == MEMIF_ERR_INVAL_ARG);
    qm_close(peer);
    pair.peer = NULL;
    for (int i = 0; i < 20000 && is_up; i++)
        CHECK(memif_poll_event(pair.sock, 5) == MEMIF_ERR_SUCCESS);
    /* What was held went with the link. */
    CHECK(!is_up && memif_refill_queue(conn, 0, 1, 0) == MEMIF_ERR_SUCCESS);
    close_pair(&pair);
}

/* The peer receives that many numbers, from this one on. */
static void peer_expects(qm_port *peer, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t got = 0;
        size_t length;
        CHECK(qm_read(peer, 0, &got, sizeof got, &length) == QM_OK && length == sizeof got && got == first + i);
    }
}

/* Received buffers are written to, sent without being allocated, and given back before they are sent: what comes in their place doesn't matter.
 * A master can't. */
static void send_received(uint8_t is_master, const char *address)
{
    pair_t p = open_pair(is_master, address);
    memif_buffer_t buffers[2 * RING], more[2 * RING];
    uint16_t n;
    CHECK(send_from(p.peer, 0, 2 * RING) == RING);
    expect(p.conn, buffers, 0, RING);
    if (is_master) {
        n = 7;
        CHECK(memif_buffer_enq_tx(p.conn, 0, buffers, RING, &n) == MEMIF_ERR_INVAL_ARG && n == 0);
    } else {
        for (uint32_t i = 0, number; i < RING; i++) {
            number = 1000 + i;
            memcpy(buffers[i].data, &number, sizeof number);
        }
        memcpy(more, buffers, sizeof more);
        CHECK(memif_buffer_enq_tx(p.conn, 0, buffers, RING, &n) == MEMIF_ERR_SUCCESS && n == RING);
        /* All slots are taken, and these are buffers to send already. */
        CHECK(memif_buffer_enq_tx(p.conn, 0, more, 1, &n) == MEMIF_ERR_NOBUF_RING && n == 0);
        CHECK(memif_refill_queue(p.conn, 0, RING, 0) == MEMIF_ERR_SUCCESS);
        CHECK(send_from(p.peer, 5000, RING) == RING);
        CHECK(memif_tx_burst(p.conn, 0, buffers, RING, &n) == MEMIF_ERR_SUCCESS && n == RING);
        peer_expects(p.peer, 1000, RING);
        /* A packet in two buffers goes as one; half of it doesn't. */
        expect(p.conn, more, 5000, RING);
        more[0].flags |= MEMIF_BUFFER_FLAG_NEXT;
        CHECK(memif_buffer_enq_tx(p.conn, 0, more, 1, &n) == MEMIF_ERR_INVAL_ARG && n == 0);
        CHECK(memif_buffer_enq_tx(p.conn, 0, more, 3, &n) == MEMIF_ERR_SUCCESS && n == 3);
        CHECK(memif_buffer_enq_tx(p.conn, 0, more, 3, &n) == MEMIF_ERR_INVAL_ARG && n == 0);
        CHECK(memif_tx_burst(p.conn, 0, more, 3, &n) == MEMIF_ERR_SUCCESS && n == 3);
        uint32_t two[2] = {0};
        size_t length;
        CHECK(qm_read(p.peer, 0, two, sizeof two, &length) == QM_OK && length == sizeof two && two[0] == 5000 && two[1] == 5001);
        peer_expects(p.peer, 5002, 1);
    }
    CHECK(memif_buffer_enq_tx(NULL, 0, buffers, 1, &n) == MEMIF_ERR_NOCONN);
    CHECK(memif_buffer_enq_tx(p.conn, 256, buffers, 1, &n) == MEMIF_ERR_QID);
    CHECK(memif_buffer_enq_tx(p.conn, 0, NULL, 1, &n) == MEMIF_ERR_INVAL_ARG);
    CHECK(memif_buffer_enq_tx(p.conn, 0, buffers, 1, NULL) == MEMIF_ERR_INVAL_ARG);
    close_pair(&p);
}

/* Received buffers are sent as they are while all buffers to send are filled and wait: these stay out. */
static void send_past_staged(uint8_t is_master, const char *address)
{
    pair_t p = open_pair(is_master, address);
    memif_buffer_t received[2 * RING], staged[RING], more;
    uint16_t n;
    CHECK(send_from(p.peer, 0, 2 * RING) == RING);
    expect(p.conn, received, 0, RING);
    CHECK(memif_buffer_alloc(p.conn, 0, staged, RING, &n, sizeof(uint32_t)) == MEMIF_ERR_SUCCESS && n == RING);
    for (uint32_t i = 0, number; i < RING; i++) {
        number = 2000 + i;
        memcpy(staged[i].data, &number, sizeof number);
    }
    CHECK(memif_tx_burst(p.conn, 0, received, RING / 2, &n) == MEMIF_ERR_SUCCESS && n == RING / 2);
    CHECK(memif_buffer_alloc(p.conn, 0, &more, 1, &n, 0) == MEMIF_ERR_NOBUF_RING && n == 0);
    peer_expects(p.peer, 0, RING / 2);
    /* Both kinds in one burst: as many slots are free as were sent. */
    memif_buffer_t mixed[4] = {staged[0], received[RING / 2], received[RING / 2 + 1], staged[1]};
    CHECK(memif_tx_burst(p.conn, 0, mixed, 4, &n) == MEMIF_ERR_SUCCESS && n == 4);
    CHECK(memif_buffer_alloc(p.conn, 0, received, 3, &n, 0) == MEMIF_ERR_NOBUF_RING && n == 2);
    peer_expects(p.peer, 2000, 1);
    peer_expects(p.peer, RING / 2, 2);
    peer_expects(p.peer, 2001, 1);
    CHECK(memif_tx_burst(p.conn, 0, staged + 2, RING - 2, &n) == MEMIF_ERR_SUCCESS && n == RING - 2);
    peer_expects(p.peer, 2002, RING - 2);
    close_pair(&p);
}

/* The older name of memif_refill_queue, which says how many. */
static void free_buffers(uint8_t is_master, const char *address)
{
    pair_t p = open_pair(is_master, address);
    memif_buffer_t buffers[2 * RING], out;
    uint16_t n;
    CHECK(send_from(p.peer, 0, 2 * RING) == RING);
    expect(p.conn, buffers, 0, RING);
    CHECK(memif_buffer_free(p.conn, 0, buffers, 5, &n) == MEMIF_ERR_SUCCESS && n == 5);
    CHECK(send_from(p.peer, RING, 2 * RING) == 5);
    CHECK(memif_buffer_free(p.conn, 0, buffers + 5, RING - 5, &n) == MEMIF_ERR_SUCCESS && n == RING - 5);
    expect(p.conn, buffers, RING, 5);
    CHECK(memif_buffer_alloc(p.conn, 0, &out, 1, &n, 4) == MEMIF_ERR_SUCCESS && n == 1);
    CHECK(memif_buffer_free(p.conn, 0, &out, 1, &n) == MEMIF_ERR_INVAL_ARG && n == 0);
    /* No more than there are. */
    CHECK(memif_buffer_free(p.conn, 0, buffers, RING, &n) == MEMIF_ERR_SUCCESS && n == 5);
    CHECK(memif_buffer_free(p.conn, 0, buffers, RING, &n) == MEMIF_ERR_SUCCESS && n == 0);
    CHECK(memif_buffer_free(NULL, 0, buffers, 1, &n) == MEMIF_ERR_NOCONN);
    CHECK(memif_buffer_free(p.conn, 256, buffers, 1, &n) == MEMIF_ERR_QID);
    close_pair(&p);
}

static int readable(int fd, int timeout)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout) == 1;
}

/* A thread of an application that sleeps for packets by itself, and calls nothing but memif_rx_burst. */
static void sleep_for_queue(uint8_t is_master, const char *address)
{
    pair_t p = open_pair(is_master, address);
    memif_buffer_t buffers[2 * RING];
    uint16_t n;
    int fd = 7, again;
    CHECK(memif_get_queue_efd(NULL, 0, &fd) == MEMIF_ERR_NOCONN && fd == -1);
    CHECK(memif_get_queue_efd(p.conn, 1, &fd) == MEMIF_ERR_QID && fd == -1);
    CHECK(memif_get_queue_efd(p.conn, 0, NULL) == MEMIF_ERR_INVAL_ARG);
    CHECK(memif_get_queue_efd(p.conn, 0, &fd) == MEMIF_ERR_SUCCESS && fd >= 0);
    CHECK(memif_get_queue_efd(p.conn, 0, &again) == MEMIF_ERR_SUCCESS && again == fd);
    int slept = 0;
    for (uint32_t round = 0; slept < 100; round++) {
        CHECK(round < 10000);
        CHECK(memif_rx_burst(p.conn, 0, buffers, 2 * RING, &n) == MEMIF_ERR_SUCCESS && n == 0);
        slept += !readable(fd, 0);
        CHECK(send_from(p.peer, round, 1) == 1);
        /* It may wake for nothing. */
        for (n = 0; n == 0;)
            CHECK(readable(fd, 20000) && memif_rx_burst(p.conn, 0, buffers, 2 * RING, &n) == MEMIF_ERR_SUCCESS);
        CHECK(n == 1 && !memcmp(buffers[0].data, &round, sizeof round));
        CHECK(memif_refill_queue(p.conn, 0, n, 0) == MEMIF_ERR_SUCCESS);
    }
    /* The end wakes it, too. */
    qm_close(p.peer);
    p.peer = NULL;
    int err = MEMIF_ERR_SUCCESS;
    while (err == MEMIF_ERR_SUCCESS)
        CHECK(readable(fd, 20000) && (err = memif_rx_burst(p.conn, 0, buffers, 2 * RING, &n), n == 0));
    CHECK(err == MEMIF_ERR_DISCONNECTED && memif_get_queue_efd(p.conn, 0, &again) == MEMIF_ERR_DISCONNECTED);
    close_pair(&p);
}

/* What can't be opened, or used, has the code that libmemif has for it, and the sentence says of what. */
static void codes(void)
{
    char directory[] = "/tmp/quiver-compat-XXXXXX", file[64], missing[64];
    CHECK(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(missing, sizeof missing, "%s/none/m.sock", directory);
    FILE *made = fopen(file, "w");
    CHECK(made && !fclose(made));
    const struct {
        const char *path;
        int code;
        const char *says;
    } cases[] = {
        {file, MEMIF_ERR_FILE_NOT_SOCK, "is not a socket"},
        {missing, MEMIF_ERR_NO_FILE, "create it first"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memif_socket_args_t socket_args = {.app_name = "codes"};
        snprintf(socket_args.path, sizeof socket_args.path, "%s", cases[i].path);
        memif_socket_handle_t sock = NULL;
        memif_conn_handle_t conn = NULL;
        CHECK(memif_create_socket(&sock, &socket_args, NULL) == MEMIF_ERR_SUCCESS);
        memif_conn_args_t args = {.socket = sock, .is_master = 1};
        CHECK(memif_create(&conn, &args, up, down, NULL, NULL) == cases[i].code && !conn);
        CHECK(strstr(qm_last_error(), cases[i].path) && strstr(qm_last_error(), cases[i].says));
        CHECK(memif_delete_socket(&sock) == MEMIF_ERR_SUCCESS);
    }
    CHECK(!remove(file) && !remove(directory));
    char address[64];
    snprintf(address, sizeof address, "@quiver-compat-codes-%d", getpid());
    pair_t pair = open_pair(0, address);
    memif_buffer_t buffer;
    uint16_t count;
    CHECK(memif_rx_burst(pair.conn, 5, &buffer, 1, &count) == MEMIF_ERR_QID && strstr(qm_last_error(), "no queue 5"));
    qm_port *second;
    CHECK(qm_open_server(address, &(qm_server_options){0}, &second) == QM_IN_USE && qm_last_errno() == EADDRINUSE);
    close_pair(&pair);
}

int main(void)
{
    codes();
    char address[64];
    for (uint8_t is_master = 0; is_master < 2; is_master++) {
        snprintf(address, sizeof address, "@quiver/c-compat-%d-%d", getpid(), is_master);
        refill(is_master, address);
        send_received(is_master, address);
        send_past_staged(is_master, address);
        free_buffers(is_master, address);
        sleep_for_queue(is_master, address);
    }
    puts("ok");
}
