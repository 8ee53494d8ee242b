/* The libmemif layer: received buffers are given back in parts, oldest first, and the peer gets room for as many. The peer is a port of
 * this library in the same process. */
#define _GNU_SOURCE
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <quiver-memif-compat/libmemif.h>
#include <quiver/memif.h>

#define RING 64
#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition))                                                                  \
            errx(1, "line %d: not so: %s (%s)", __LINE__, #condition, qm_last_error());    \
    } while (0)

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

static void refill(uint8_t is_master, const char *address)
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
    if (is_master)
        CHECK(qm_open_client(address, &(qm_client_options){.ring_size = RING, .no_huge_pages = 1}, &peer) == QM_OK);
    else
        CHECK(memif_request_connection(conn) == MEMIF_ERR_SUCCESS);
    qm_info info;
    for (int i = 0; i < 2000 && (!is_up || qm_get_info(peer, &info)); i++)
        CHECK(qm_wait(&peer, 1, 5) == QM_OK && memif_poll_event(sock, 5) == MEMIF_ERR_SUCCESS);
    CHECK(is_up && qm_get_info(peer, &info) == QM_OK);

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
    for (int i = 0; i < 2000 && is_up; i++)
        CHECK(memif_poll_event(sock, 5) == MEMIF_ERR_SUCCESS);
    /* What was held went with the link. */
    CHECK(!is_up && memif_refill_queue(conn, 0, 1, 0) == MEMIF_ERR_SUCCESS);
    CHECK(memif_delete(&conn) == MEMIF_ERR_SUCCESS && memif_delete_socket(&sock) == MEMIF_ERR_SUCCESS);
}

int main(void)
{
    char address[64];
    for (uint8_t is_master = 0; is_master < 2; is_master++) {
        snprintf(address, sizeof address, "@quiver/c-compat-%d-%d", getpid(), is_master);
        refill(is_master, address);
    }
    puts("ok");
}
