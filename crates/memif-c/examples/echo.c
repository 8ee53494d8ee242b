/* A host on a memif: answers ARP and ping for every IPv4 address, from an event loop of its own (epoll).
 *
 *     echo client|server ADDRESS [ID]
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <quiver/memif.h>

static const uint8_t mac[6] = {0x02, 0xfe, 0, 0, 0, 3};

/* Turns a frame into its answer (RFC 826, RFC 792); 0 if it asks for none. */
static int answer(uint8_t *f, size_t length)
{
    static const uint8_t request[] = {0, 1, 8, 0, 6, 4, 0, 1};
    if (length >= 42 && f[12] == 8 && f[13] == 6 && !memcmp(f + 14, request, sizeof request)) {
        uint8_t target[4];
        memcpy(target, f + 38, 4);
        memcpy(f + 32, f + 22, 10);
        memcpy(f + 22, mac, 6);
        memcpy(f + 28, target, 4);
        f[21] = 2;
    } else if (length >= 42 && f[12] == 8 && f[13] == 0 && f[14] == 0x45 && f[23] == 1 && f[34] == 8) {
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

static void serve(qm_port *port)
{
    static uint8_t frame[65553];
    qm_event event;
    while (qm_next_event(port, &event) == QM_OK)
        fprintf(stderr, "event %u %s\n", event.kind, event.reason);
    /* What a peer does wrong ends its connection, not this program: the next event says so. */
    size_t length, sent;
    while (qm_read(port, 0, frame, sizeof frame, &length) == QM_OK && length > 0)
        if (answer(frame, length))
            qm_send(port, 0, &(qm_piece){frame, (uint32_t)length, 0}, 1, &sent);
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "client") && strcmp(argv[1], "server")))
        errx(2, "usage: echo client|server ADDRESS [ID]");
    uint32_t id = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    qm_client_options client = {.name = "echo", .id = id};
    qm_server_options server = {.name = "echo", .id = id};
    qm_port *port;
    int status = argv[1][0] == 'c' ? qm_open_client(argv[2], &client, &port) : qm_open_server(argv[2], &server, &port);
    int fd, epoll = epoll_create1(0);
    if (status != QM_OK || qm_watch(port, &fd) != QM_OK)
        errx(1, "%s", qm_last_error());
    struct epoll_event watched = {.events = EPOLLIN, .data.ptr = port};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &watched))
        err(1, "epoll_ctl");
    for (;;) {
        struct epoll_event ready;
        if (epoll_wait(epoll, &ready, 1, -1) != 1)
            continue;
        if (qm_wait(&port, 1, 0) != QM_OK)
            errx(1, "%s", qm_last_error());
        serve(port);
        if (qm_watch(port, &fd) != QM_OK)
            errx(1, "%s", qm_last_error());
    }
}
