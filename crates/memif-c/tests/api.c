/* A client and a server of this library in one process: what the calls do, what they refuse, and several threads at once. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <quiver/memif.h>

#include "check.h"

static char address[64];

static qm_port *open_client(uint32_t queues)
{
    qm_client_options options = {.tx_queues = (uint16_t)queues, .rx_queues = (uint16_t)queues, .no_huge_pages = 1};
    qm_port *port;
    CHECK(qm_open_client(address, &options, &port) == QM_OK);
    return port;
}

static qm_port *open_server(void)
{
    qm_server_options options = {.name = "srv"};
    qm_port *port;
    CHECK(qm_open_server(address, &options, &port) == QM_OK);
    return port;
}

static void wait_up(qm_port *a, qm_port *b)
{
    qm_port *both[] = {a, b};
    qm_info info;
    for (int i = 0; i < 20000 && (qm_get_info(a, &info) || qm_get_info(b, &info)); i++) {
        CHECK(qm_wait(both, 2, 10) == QM_OK);
        usleep(1000); /* with events that nobody has taken it comes back at once */
    }
    CHECK(qm_get_info(a, &info) == QM_OK && qm_get_info(b, &info) == QM_OK);
}

/* What is refused names the interface, or the address. */
static void names(void)
{
    qm_port *port = NULL;
    CHECK(qm_open_server(address, &(qm_server_options){.id = 7, .mode = 9}, &port) == QM_INVALID && strstr(qm_last_error(), " id 7: "));
    /* Addresses that no socket can have. */
    char path[400], name[110];
    memset(path, 'x', sizeof path);
    memset(name, 'x', sizeof name);
    path[0] = '/', path[sizeof path - 1] = 0, name[0] = '@', name[sizeof name - 1] = 0;
    const char *none[] = {"", "@", path, name};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK(qm_open_client(none[i], &(qm_client_options){0}, &port) == QM_INVALID && !port && qm_last_errno() == EINVAL);
        CHECK(strstr(qm_last_error(), "socket address \"") && strstr(qm_last_error(), none[i]));
        CHECK(qm_open_server(none[i], &(qm_server_options){0}, &port) == QM_INVALID && strstr(qm_last_error(), none[i]));
    }
    /* Queues that there can't be, while the link is down. */
    CHECK(qm_open_client(address, &(qm_client_options){.rx_queues = 2}, &port) == QM_OK);
    qm_piece piece = {"x", 1, 0};
    size_t count;
    CHECK(qm_receive(port, 1, &piece, 1, &count) == QM_DOWN && qm_receive(port, 2, &piece, 1, &count) == QM_INVALID);
    CHECK(strstr(qm_last_error(), address) && strstr(qm_last_error(), "no queue 2 to receive from: there are 2"));
    CHECK(qm_send(port, 0, &piece, 1, &count) == QM_DOWN && qm_send(port, 1, &piece, 1, &count) == QM_INVALID);
    int is_ready;
    CHECK(qm_ready(port, 0, &is_ready) == QM_DOWN && qm_ready(port, 2, &is_ready) == QM_INVALID);
    qm_close(port);
}

static void refusals(void)
{
    qm_port *port = NULL;
    qm_client_options bad[] = {
        {.mode = 3}, {.ring_size = 63}, {.ring_size = 1u << 15}, {.buffer_size = 63}, {.rx_queues = 257},
        {.secret = "1234567890123456789012345"}, {.name = "\xff"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(qm_open_client(address, &bad[i], &port) == QM_INVALID && !port);
        CHECK(strstr(qm_last_error(), address) && strstr(qm_last_error(), " id 0: "));
    }
    CHECK(qm_open_client(NULL, &(qm_client_options){0}, &port) == QM_INVALID);
    CHECK(qm_open_client(address, NULL, &port) == QM_INVALID);
    CHECK(qm_open_client(address, &(qm_client_options){0}, NULL) == QM_INVALID);
    CHECK(qm_wait(NULL, 1, 0) == QM_INVALID && qm_wait(&port, 1, 0) == QM_INVALID);
    CHECK(qm_receive(NULL, 0, NULL, 1, NULL) == QM_INVALID && qm_send(NULL, 0, NULL, 1, NULL) == QM_INVALID);
    CHECK(qm_wake(NULL) == QM_INVALID && qm_release(NULL, 0) == QM_INVALID);
    qm_close(NULL);
    qm_port *first = open_server();
    CHECK(qm_open_server(address, &(qm_server_options){0}, &port) == QM_IN_USE && strstr(qm_last_error(), address));
    CHECK(qm_last_errno() == EADDRINUSE);
    qm_piece piece = {"x", 1, 0};
    size_t n = 7;
    CHECK(qm_send(first, 0, &piece, 1, &n) == QM_DOWN && n == 0 && qm_receive(first, 0, &piece, 1, &n) == QM_DOWN);
    CHECK(qm_wait(&first, 1, -1) == QM_INVALID);
    CHECK(!strcmp(qm_status_name(QM_DOWN), "QM_DOWN") && strstr(qm_last_error(), "timeout"));
    qm_close(first);
}

/* Every call that has a port and fails says whose it is, and why. Each way to fail that there is without a peer; faults are in hostile.c. */
#define FAILS(call, status, number, why)                                                                                  \
    CHECK((call) == (status) && qm_last_errno() == (number) && strstr(qm_last_error(), address) == qm_last_error() && strstr(qm_last_error(), " id 0: ") && \
          strstr(qm_last_error(), why))

static void every_call_names_its_port(void)
{
    qm_port *port = open_client(1), *ports[] = {port};
    qm_event event;
    qm_info info;
    qm_counters counters;
    qm_piece piece = {"x", 1, 0};
    char buffer[64];
    size_t n;
    int is;
    CHECK(qm_wait(ports, 1, 0) == QM_OK); /* it tries */
    while (qm_next_event(port, &event) == QM_OK)
        ;
    FAILS(qm_next_event(port, &event), QM_DOWN, EAGAIN, "no event");
    FAILS(qm_next_event(port, NULL), QM_INVALID, EINVAL, "event is NULL");
    FAILS(qm_next_event_sized(port, &event, 0), QM_INVALID, EINVAL, "event: size 0");
    FAILS(qm_admin_down(port, "\xff"), QM_INVALID, EINVAL, "why is not UTF-8");
    FAILS(qm_watch(port, NULL), QM_INVALID, EINVAL, "fd is NULL");
    FAILS(qm_get_info(port, &info), QM_DOWN, ENOTCONN, "the link is down");
    FAILS(qm_get_counters(port, QM_RX, 0, &counters), QM_DOWN, ENOTCONN, "the link is down");
    FAILS(qm_get_counters(port, QM_TX, 1, &counters), QM_INVALID, ENXIO, "no queue 1 to send to");
    FAILS(qm_get_counters(port, 7, 0, &counters), QM_INVALID, EINVAL, "direction 7");
    FAILS(qm_ready(port, 0, &is), QM_DOWN, ENOTCONN, "the link is down");
    FAILS(qm_ready(port, 1, &is), QM_INVALID, ENXIO, "no queue 1 to receive from");
    FAILS(qm_receive(port, 0, &piece, 1, &n), QM_DOWN, ENOTCONN, "the link is down");
    FAILS(qm_receive(port, 1, &piece, 1, &n), QM_INVALID, ENXIO, "no queue 1 to receive from");
    FAILS(qm_receive(port, 0, NULL, 1, &n), QM_INVALID, EINVAL, "pieces is NULL");
    FAILS(qm_receive(port, 0, &piece, 1, NULL), QM_INVALID, EINVAL, "count is NULL");
    FAILS(qm_release(port, 256), QM_INVALID, ENXIO, "no queue 256 to release");
    FAILS(qm_release_first(port, 256, 1), QM_INVALID, ENXIO, "no queue 256 to release");
    FAILS(qm_read(port, 0, buffer, sizeof buffer, &n), QM_DOWN, ENOTCONN, "the link is down");
    FAILS(qm_read(port, 0, NULL, sizeof buffer, &n), QM_INVALID, EINVAL, "buffer is NULL");
    FAILS(qm_send(port, 0, &piece, 1, &n), QM_DOWN, ENOTCONN, "the link is down");
    FAILS(qm_send(port, 1, &piece, 1, &n), QM_INVALID, ENXIO, "no queue 1 to send to");
    FAILS(qm_send(port, 0, NULL, 1, &n), QM_INVALID, EINVAL, "pieces is NULL");
    FAILS(qm_send(port, 0, &piece, 1, NULL), QM_INVALID, EINVAL, "sent is NULL");
    qm_close(port);
}

static void packets(void)
{
    static uint8_t sent[9000], got[9000];
    qm_port *server = open_server(), *client = open_client(1);
    wait_up(server, client);
    qm_event event;
    CHECK(qm_next_event(client, &event) == QM_OK);
    while (event.kind != QM_EVENT_UP)
        CHECK(qm_next_event(client, &event) == QM_OK);
    CHECK(qm_next_event(client, &event) == QM_DOWN);
    qm_info info;
    CHECK(qm_get_info(client, &info) == QM_OK && !strcmp(info.peer_interface, "srv") && info.ring_size == 1024);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (uint8_t)(i * 7 + i / 256);
    size_t sizes[] = {1, 31, 32, 60, 64, 65, 127, 128, 129, 1514, 2048, 2049, 9000}, n;
    for (int round = 0; round < 300; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            /* Gathered from three pieces one way, in one piece back. */
            size_t part = sizes[i] / 3;
            qm_piece pieces[] = {{sent, (uint32_t)part, QM_MORE}, {sent + part, (uint32_t)part, QM_MORE},
                                 {sent + 2 * part, (uint32_t)(sizes[i] - 2 * part), 0}};
            CHECK(qm_send(client, 0, pieces, 3, &n) == QM_OK && n == 3);
            CHECK(qm_read(server, 0, got, sizeof got, &n) == QM_OK && n == sizes[i] && !memcmp(got, sent, n));
            CHECK(qm_send(server, 0, &(qm_piece){got, (uint32_t)n, 0}, 1, &n) == QM_OK && n == 1);
            int ready = 0;
            CHECK(qm_ready(client, 0, &ready) == QM_OK && ready);
            size_t at = 0;
            for (int more = 1; more;) { /* an array of one: a packet of many goes on in the next call */
                qm_piece piece;
                CHECK(qm_receive(client, 0, &piece, 1, &n) == QM_OK && n == 1);
                CHECK(!memcmp(piece.data, sent + at, piece.length));
                at += piece.length;
                more = piece.flags & QM_MORE;
            }
            CHECK(at == sizes[i] && qm_release(client, 0) == QM_OK);
        }
    CHECK(qm_read(server, 0, got, sizeof got, &n) == QM_OK && n == 0);
    CHECK(qm_send(client, 0, &(qm_piece){sent, 100, 0}, 1, &n) == QM_OK);
    CHECK(qm_read(server, 0, got, 99, &n) == QM_TOO_LONG && qm_read(server, 0, got, 99, &n) == QM_OK && n == 0);
    CHECK(qm_last_errno() == EMSGSIZE && strstr(qm_last_error(), "id 0: packet of 100 bytes for a buffer of 99"));
    CHECK(qm_send(client, 0, &(qm_piece){sent, 0, 0}, 1, &n) == QM_TOO_LONG && n == 0);
    CHECK(qm_last_errno() == EMSGSIZE && strstr(qm_last_error(), "id 0: packet of 0 bytes: an empty one is never sent"));
    static const char huge[65554];
    CHECK(qm_send(client, 0, &(qm_piece){huge, sizeof huge, 0}, 1, &n) == QM_TOO_LONG && n == 0);
    CHECK(strstr(qm_last_error(), "id 0: packet of 65554 bytes: the longest that is sent here has 65553"));
    CHECK(qm_send(client, 0, &(qm_piece){sent, 1, QM_MORE}, 1, &n) == QM_INVALID);
    CHECK(qm_send(client, 0, &(qm_piece){NULL, 1, 0}, 1, &n) == QM_INVALID);
    CHECK(qm_send(client, 0, &(qm_piece){sent, 1, 0xf0}, 1, &n) == QM_INVALID);
    CHECK(qm_send(client, 1, &(qm_piece){sent, 1, 0}, 1, &n) == QM_INVALID && qm_release(client, 256) == QM_INVALID);
    /* What was received stays readable when the link goes down, and the next connection can be used after it is released. */
    qm_piece kept;
    CHECK(qm_send(client, 0, &(qm_piece){sent, 64, 0}, 1, &n) == QM_OK);
    CHECK(qm_receive(server, 0, &kept, 1, &n) == QM_OK && n == 1);
    qm_close(client);
    for (int i = 0; i < 20000 && qm_get_info(server, &info) == QM_OK; i++) {
        qm_wait(&server, 1, 10);
        usleep(1000);
    }
    CHECK(qm_get_info(server, &info) == QM_DOWN && !memcmp(kept.data, sent, 64));
    client = open_client(1);
    wait_up(server, client);
    CHECK(qm_receive(server, 0, &kept, 1, &n) == QM_INVALID && qm_last_errno() == EBUSY && qm_release(server, 0) == QM_OK);
    CHECK(qm_receive(server, 0, &kept, 1, &n) == QM_OK && n == 0);
    qm_close(client);
    qm_close(server);
}

/* Programs that know fewer fields than the library, or more: structures of their own length at the end of what they have. */
static void other_versions(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n;
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
    qm_port *server, *client, *none;
    for (size_t missing = 0; missing <= 32; missing += 32) {
        qm_server_options *old = (void *)(pages + page - sizeof *old + missing);
        memset(pages, 0xff, page), memset(old, 0, sizeof *old - missing);
        old->name = "old";
        CHECK(qm_open_server_sized(address, old, sizeof *old - missing, &server) == QM_OK);
        client = open_client(1);
        wait_up(server, client);
        qm_event *event = (void *)(pages + page - sizeof *event + missing);
        CHECK(qm_next_event_sized(server, event, sizeof *event - missing) == QM_OK && event->kind == QM_EVENT_UP && !*event->reason);
        qm_info *info = (void *)(pages + page - sizeof *info + missing / 2);
        CHECK(qm_get_info_sized(client, info, sizeof *info - missing / 2) == QM_OK && !strcmp(info->peer_interface, "old") && info->rx_queues == 1);
        qm_close(client);
        qm_close(server);
    }
    struct { qm_client_options known; uint64_t later; } more = {.later = 1};
    CHECK(qm_open_client_sized(address, &more.known, sizeof more, &none) == QM_INVALID && !none && strstr(qm_last_error(), "know"));
    more.later = 0;
    CHECK(qm_open_client_sized(address, &more.known, sizeof more, &client) == QM_OK);
    CHECK(qm_wait(&client, 1, 1000) == QM_OK);
    struct { qm_event known; uint64_t later; } event = {.later = 1};
    CHECK(qm_next_event_sized(client, &event.known, sizeof event) == QM_OK && event.known.kind == QM_EVENT_UNREACHABLE && !event.later);
    for (n = 0; n <= 4097; n += 4097) {
        CHECK(qm_open_client_sized(address, &more.known, n, &none) == QM_INVALID);
        CHECK(qm_next_event_sized(client, &event.known, n) == QM_INVALID);
    }
    qm_close(client);
    munmap(pages, 2 * page);
}

#define THREADS 3
#define EACH 20000

static qm_port *ends[2];

static void *sender(void *queue)
{
    for (uint32_t i = 0; i < EACH;) {
        size_t n = 0;
        CHECK(qm_send(ends[0], (unsigned)(uintptr_t)queue, &(qm_piece){&i, sizeof i, 0}, 1, &n) == QM_OK);
        i += (uint32_t)n;
    }
    return NULL;
}

static void *receiver(void *queue)
{
    for (uint32_t want = 0; want < EACH;) {
        qm_piece pieces[32];
        size_t n;
        CHECK(qm_wait(&ends[1], 1, 1000) == QM_OK);
        CHECK(qm_receive(ends[1], (unsigned)(uintptr_t)queue, pieces, 32, &n) == QM_OK);
        for (size_t i = 0; i < n; i++, want++)
            CHECK(pieces[i].length == sizeof want && !memcmp(pieces[i].data, &want, sizeof want));
        CHECK(qm_release(ends[1], (unsigned)(uintptr_t)queue) == QM_OK);
    }
    return NULL;
}

static void *waker(void *port)
{
    usleep(20000);
    CHECK(qm_wake(port) == QM_OK);
    return NULL;
}

static void threads(void)
{
    ends[1] = open_server(), ends[0] = open_client(THREADS);
    wait_up(ends[1], ends[0]);
    qm_event event;
    while (qm_next_event(ends[1], &event) == QM_OK)
        ;
    pthread_t all[2 * THREADS], one;
    CHECK(!pthread_create(&one, NULL, waker, ends[1]) && qm_wait(&ends[1], 1, 60000) == QM_OK);
    pthread_join(one, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&all[2 * i], NULL, sender, (void *)i) && !pthread_create(&all[2 * i + 1], NULL, receiver, (void *)i));
    for (int i = 0; i < 2 * THREADS; i++)
        pthread_join(all[i], NULL);
    qm_close(ends[0]);
    qm_close(ends[1]);
}

#define CHAINS 100000
static unsigned whole;

/* Reads packets of several parts beside other threads: each is one packet, and whole. */
static void *reader(void *nothing)
{
    static __thread uint8_t bytes[8192];
    while (__atomic_load_n(&whole, __ATOMIC_RELAXED) < CHAINS) {
        size_t n;
        CHECK(qm_read(ends[1], 0, bytes, sizeof bytes, &n) == QM_OK);
        if (!n)
            continue;
        CHECK(n == 5000u + bytes[0]);
        for (size_t i = 0; i < n; i++)
            CHECK(bytes[i] == bytes[0]);
        __atomic_add_fetch(&whole, 1, __ATOMIC_RELAXED);
    }
    return nothing;
}

static void readers(void)
{
    static uint8_t bytes[8192];
    ends[1] = open_server(), ends[0] = open_client(1);
    wait_up(ends[1], ends[0]);
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        CHECK(!pthread_create(&all[i], NULL, reader, NULL));
    for (uint32_t i = 0; i < CHAINS;) {
        memset(bytes, (int)(i & 0xff), sizeof bytes);
        size_t n;
        CHECK(qm_send(ends[0], 0, &(qm_piece){bytes, 5000 + (i & 0xff), 0}, 1, &n) == QM_OK);
        i += (uint32_t)n;
    }
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
    qm_close(ends[0]);
    qm_close(ends[1]);
}

static char last_cause[32];

static void next_event(qm_port *a, qm_port *b, qm_port *of, uint32_t kind, const char *words)
{
    qm_port *both[] = {a, b};
    qm_event event = {0};
    for (int i = 0; i < 2000; i++) {
        while (qm_next_event(of, &event) == QM_OK)
            if (event.kind == kind && strstr(event.reason, words)) {
                memcpy(last_cause, event.cause, sizeof last_cause);
                return;
            }
        CHECK(qm_wait(both, 2, 10) == QM_OK);
        usleep(1000); /* the other's events, which nobody takes here, let it come back at once */
    }
    errx(1, "no event %u \"%s\"", kind, words);
}

/* What one side's administrator does is told to both. */
static void admin(void)
{
    qm_port *server = open_server(), *client = open_client(1);
    wait_up(server, client);
    CHECK(qm_admin_down(server, "for lunch") == QM_OK && qm_admin_down(NULL, "") == QM_INVALID);
    next_event(server, client, server, QM_EVENT_ADMIN_DOWN, "administratively down: for lunch");
    next_event(server, client, client, QM_EVENT_DOWN, "administratively down: for lunch");
    next_event(server, client, client, QM_EVENT_REFUSED, "administratively down: for lunch");
    next_event(server, client, server, QM_EVENT_REFUSED, "administratively down: for lunch");
    qm_info info;
    CHECK(qm_get_info(server, &info) == QM_DOWN && strstr(qm_last_error(), address));
    CHECK(qm_admin_up(server) == QM_OK);
    wait_up(server, client);
    CHECK(qm_admin_down(client, NULL) == QM_OK);
    next_event(server, client, client, QM_EVENT_ADMIN_DOWN, "administratively down");
    next_event(server, client, server, QM_EVENT_DOWN, "administratively down");
    CHECK(qm_admin_up(client) == QM_OK && qm_admin_up(NULL) == QM_INVALID);
    wait_up(server, client);
    qm_close(client);
    qm_close(server);
}

/* A socket's file that we may not write to is another matter than that nobody listens. Only as root: others may connect to what is their own. */
static void permission(void)
{
    char path[64];
    qm_port *server, *client;
    qm_event event;
    if (geteuid() != 0)
        return;
    snprintf(path, sizeof path, "/tmp/quiver-memif-api-%d", (int)getpid());
    CHECK(qm_open_server(path, &(qm_server_options){.file_mode = 0600}, &server) == QM_OK);
    CHECK(qm_open_client(path, &(qm_client_options){0}, &client) == QM_OK);
    CHECK(seteuid(65534) == 0);
    CHECK(qm_wait(&client, 1, 1000) == QM_OK);
    CHECK(seteuid(0) == 0);
    CHECK(qm_next_event(client, &event) == QM_OK && event.kind == QM_EVENT_UNREACHABLE);
    CHECK(!strcmp(event.cause, "permission-denied") && strstr(event.reason, ": permission denied: its mode, owner and group must let us write"));
    qm_close(client);
    qm_close(server);
}

/* Who isn't on the list is told so, and so is the server; in a word, too. */
static void admission(void)
{
    uint32_t uid = geteuid(), gid = getegid(), other[] = {uid + 1, uid + 2};
    qm_port *server, *client;
    qm_server_options options[] = {
        {.allow_uids = other, .allow_uid_count = 2, .secret = "not asked for"},
        {.allow_uids = &uid, .allow_uid_count = 1, .allow_gids = (uint32_t[]){gid + 1}, .allow_gid_count = 1},
        {.allow_pid_namespace = "/proc/self/ns/net"},
    };
    const char *words[] = {"not allowed to connect: user ", "not allowed to connect: group ", "not allowed to connect: process namespace"};
    for (size_t i = 0; i < 3; i++) {
        CHECK(qm_open_server(address, &options[i], &server) == QM_OK);
        client = open_client(1);
        next_event(server, client, server, QM_EVENT_REFUSED, words[i]);
        CHECK(!strcmp(last_cause, "not-allowed"));
        next_event(server, client, client, QM_EVENT_REFUSED, words[i]);
        qm_close(client);
        qm_close(server);
    }
    qm_server_options good = {
        .allow_uids = (uint32_t[]){uid + 1, uid}, .allow_uid_count = 2, .allow_gids = &gid, .allow_gid_count = 1,
        .allow_pid_namespace = "/proc/self/ns/pid",
    };
    CHECK(qm_open_server(address, &good, &server) == QM_OK);
    client = open_client(1);
    wait_up(server, client);
    qm_info info;
    CHECK(qm_get_info(server, &info) == QM_OK && info.peer_known && info.peer_pid == (uint32_t)getpid());
    CHECK(info.peer_uid == uid && info.peer_gid == gid);
    qm_close(client);
    qm_close(server);
    CHECK(qm_open_server(address, &(qm_server_options){.allow_uid_count = 1}, &server) == QM_INVALID);
    CHECK(qm_open_server(address, &(qm_server_options){.allow_uids = &uid}, &server) == QM_INVALID); /* a list of nobody */
    CHECK(qm_open_server(address, &(qm_server_options){.allow_gids = &gid}, &server) == QM_INVALID);
    CHECK(qm_open_server(address, &(qm_server_options){.file_mode = 0777777}, &server) == QM_INVALID);
    CHECK(qm_open_server(address, &(qm_server_options){.allow_gids = &gid, .allow_gid_count = 65537}, &server) == QM_INVALID);
}

/* Both ends of both queues count the same packets. */
static void counters(void)
{
    qm_port *server = open_server(), *client = open_client(2);
    qm_counters tx, rx, none = {0};
    CHECK(qm_get_counters(client, QM_TX, 0, &tx) == QM_DOWN);
    wait_up(server, client);
    static uint8_t bytes[5000];
    size_t n;
    for (unsigned queue = 0; queue < 2; queue++) {
        for (uint32_t i = 0; i < 300; i++) {
            uint32_t length = i % 3 == 2 ? 5000 : 60 + queue;
            CHECK(qm_send(client, queue, &(qm_piece){bytes, length, 0}, 1, &n) == QM_OK && n == 1);
            CHECK(qm_read(server, queue, bytes, sizeof bytes, &n) == QM_OK && n == length);
        }
        CHECK(qm_get_counters(client, QM_TX, queue, &tx) == QM_OK && qm_get_counters(server, QM_RX, queue, &rx) == QM_OK);
        CHECK(tx.packets == 300 && tx.bytes == 100 * 5000 + 200 * (60 + queue) && tx.full == 0);
        CHECK(rx.packets == tx.packets && rx.bytes == tx.bytes && rx.full == 0);
        CHECK(qm_get_counters(server, QM_TX, queue, &tx) == QM_OK && !memcmp(&tx, &none, sizeof none));
    }
    static qm_piece many[2000];
    for (size_t i = 0; i < 2000; i++)
        many[i] = (qm_piece){bytes, 1, 0};
    CHECK(qm_send(client, 0, many, 2000, &n) == QM_OK && n == 1024);
    CHECK(qm_get_counters(client, QM_TX, 0, &tx) == QM_OK && tx.packets == 300 + 1024 && tx.full == 2000 - 1024);
    CHECK(qm_get_counters(client, QM_TX, 2, &tx) == QM_INVALID && qm_get_counters(client, 2, 0, &tx) == QM_INVALID);
    CHECK(qm_get_counters(NULL, QM_TX, 0, &tx) == QM_INVALID && qm_get_counters(client, QM_TX, 0, NULL) == QM_INVALID);
    qm_close(client);
    qm_close(server);
}

static int readable(int fd, int timeout)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout) == 1;
}

/* An event loop of the application's own: it connects, receives and hears of the end by its descriptor alone. */
static void watched(void)
{
    qm_port *server = open_server(), *client = open_client(1);
    qm_port *ports[] = {server, client};
    int fds[2], fd;
    qm_info info;
    CHECK(qm_watch(NULL, &fd) == QM_INVALID && qm_watch(server, NULL) == QM_INVALID);
    for (int i = 0; i < 2; i++)
        CHECK(qm_watch(ports[i], &fds[i]) == QM_OK && fds[i] >= 0);
    while (qm_get_info(server, &info) || qm_get_info(client, &info))
        for (int i = 0; i < 2; i++)
            if (readable(fds[i], 1)) {
                CHECK(qm_wait(&ports[i], 1, 0) == QM_OK);
                CHECK(qm_watch(ports[i], &fd) == QM_OK && fd == fds[i]);
            }
    qm_event event;
    while (qm_next_event(server, &event) == QM_OK)
        ;
    for (uint32_t round = 0; round < 200; round++) {
        size_t n;
        uint32_t got;
        CHECK(qm_send(client, 0, &(qm_piece){&round, sizeof round, 0}, 1, &n) == QM_OK && n == 1);
        do {
            CHECK(readable(fds[0], 20000));
            CHECK(qm_wait(&server, 1, 0) == QM_OK && qm_read(server, 0, &got, sizeof got, &n) == QM_OK);
            CHECK(qm_watch(server, &fd) == QM_OK);
        } while (n == 0);
        CHECK(n == sizeof got && got == round);
    }
    qm_close(client);
    while (qm_get_info(server, &info) == QM_OK) {
        CHECK(readable(fds[0], 20000) && qm_wait(&server, 1, 0) == QM_OK);
        CHECK(qm_watch(server, &fd) == QM_OK);
    }
    qm_close(server);
}

/* What was received first is given back first, in parts; the peer gets room for as much, and the rest stays as it is. */
static void in_parts(void)
{
    for (int reversed = 0; reversed < 2; reversed++) {
        qm_port *server = open_server(), *client;
        qm_client_options small = {.ring_size = 64, .no_huge_pages = 1};
        CHECK(qm_open_client(address, &small, &client) == QM_OK);
        wait_up(server, client);
        qm_port *from = reversed ? server : client, *to = reversed ? client : server;
        uint32_t numbers[200];
        qm_piece out[200], in[200];
        for (uint32_t i = 0; i < 200; i++)
            numbers[i] = i, out[i] = (qm_piece){&numbers[i], sizeof numbers[i], 0};
        size_t n, had, sent = 64;
        CHECK(qm_send(from, 0, out, 200, &n) == QM_OK && n == 64);
        CHECK(qm_receive(to, 0, in, 200, &had) == QM_OK && had == 64);
        for (size_t back = 1; sent + back <= 200; sent += back++) {
            CHECK(qm_send(from, 0, out + sent, 1, &n) == QM_OK && n == 0);
            CHECK(qm_release_first(to, 0, back) == QM_OK);
            CHECK(qm_send(from, 0, out + sent, 200 - sent, &n) == QM_OK && n == back);
            CHECK(qm_receive(to, 0, in + had, 200 - had, &n) == QM_OK && n == back);
            had += n;
            for (size_t i = had - 64; i < had; i++)
                CHECK(in[i].length == 4 && !memcmp(in[i].data, &numbers[i], 4));
        }
        CHECK(sent > 180 && qm_release_first(to, 0, 1000) == QM_OK && qm_release_first(to, 0, 1) == QM_OK);
        CHECK(qm_send(from, 0, out, 200, &n) == QM_OK && n == 64);
        CHECK(qm_release_first(to, 256, 1) == QM_INVALID && qm_release_first(NULL, 0, 1) == QM_INVALID);
        qm_close(client);
        qm_close(server);
    }
}

int main(void)
{
    snprintf(address, sizeof address, "@quiver/c-api-%d", getpid());
    names();
    refusals();
    every_call_names_its_port();
    packets();
    in_parts();
    other_versions();
    threads();
    readers();
    admin();
    admission();
    permission();
    counters();
    watched();
    puts("ok");
}
