/* A server of this library and peers that break the rules, go away in the middle, or send little while several threads wait. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <quiver/memif.h>

#include "check.h"

#define SLOTS 64
#define REGION (64u << 20) /* so large that its address is free once it is unmapped */
#define HEADER 128         /* of a ring */

enum { INIT = 3, ADD_REGION = 4, ADD_RING = 5, CONNECT = 6, CONNECTED = 7, DISCONNECT = 8 };

static char address[64];
static qm_port *server;

/* A client that says and writes what it is told to: one region, rings to the server of 64 slots at its beginning. */
struct raw {
    int sock, memory_fd, event_fd;
    uint8_t *memory;
};

static void say(struct raw *r, const void *bytes, size_t size, int fd)
{
    uint8_t message[128] = {0};
    memcpy(message, bytes, size);
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec data = {message, sizeof message};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = control, header.msg_controllen = sizeof control;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    }
    CHECK(sendmsg(r->sock, &header, MSG_NOSIGNAL) == sizeof message);
}

/* With these seals on its memory. */
static struct raw connect_raw_of(unsigned rings, int seals)
{
    struct raw r = {.sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), .event_fd = eventfd(0, EFD_CLOEXEC)};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path + 1, address + 1, strlen(address) - 1);
    CHECK(!connect(r.sock, (struct sockaddr *)&name, (socklen_t)(sizeof name.sun_family + strlen(address))));
    r.memory_fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(!ftruncate(r.memory_fd, REGION) && !fcntl(r.memory_fd, F_ADD_SEALS, seals));
    r.memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, r.memory_fd, 0);
    CHECK(r.memory != MAP_FAILED);
    uint16_t init[4] = {INIT, 0x200}, region[6] = {ADD_REGION, 0, 0, REGION >> 16};
    say(&r, init, sizeof init, -1);
    say(&r, region, sizeof region, r.memory_fd);
    for (unsigned i = 0; i < rings; i++) {
        uint32_t offset = i * 4096, cookie = 0x3e31f20;
        memcpy(r.memory + offset, &cookie, sizeof cookie);
        uint16_t ring[7] = {ADD_RING, 1, (uint16_t)i, 0, (uint16_t)offset, (uint16_t)(offset >> 16), 6};
        say(&r, ring, sizeof ring, r.event_fd);
    }
    return r;
}

static struct raw connect_raw(unsigned rings)
{
    return connect_raw_of(rings, F_SEAL_SHRINK);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Lets the server work for a moment. Where events wait that nobody has taken, qm_wait itself doesn't wait. */
static void let_work(void)
{
    qm_wait(&server, 1, 10);
    usleep(500);
}

/* What the server says next, letting it work until then; 0 if it has closed. */
static int hear(struct raw *r)
{
    uint8_t message[128];
    for (double end = now() + 20; now() < end; let_work()) {
        ssize_t n = recv(r->sock, message, sizeof message, MSG_DONTWAIT);
        if (n >= 0)
            return n ? message[0] : 0;
    }
    errx(1, "the server says nothing: %s", qm_last_error());
}

static void establish(struct raw *r)
{
    uint16_t message = CONNECT;
    say(r, &message, sizeof message, -1);
    int heard = 0;
    while (heard != CONNECTED) {
        heard = hear(r);
        CHECK(heard != 0 && heard != DISCONNECT);
    }
    qm_event event;
    do
        CHECK(qm_next_event(server, &event) == QM_OK);
    while (event.kind != QM_EVENT_UP);
}

static struct raw connected(unsigned rings)
{
    struct raw r = connect_raw(rings);
    establish(&r);
    return r;
}

static void gone(struct raw *r)
{
    close(r->sock), close(r->memory_fd), close(r->event_fd);
    munmap(r->memory, REGION);
    qm_info info;
    for (double end = now() + 20; now() < end && qm_get_info(server, &info) == QM_OK;)
        let_work();
    CHECK(qm_get_info(server, &info) == QM_DOWN);
}

static void slot(struct raw *r, unsigned index, uint16_t more, uint16_t region, uint32_t length, uint32_t offset)
{
    uint8_t *d = r->memory + HEADER + index % SLOTS * 16;
    memcpy(d, &more, 2), memcpy(d + 2, &region, 2), memcpy(d + 4, &length, 4), memcpy(d + 8, &offset, 4);
}

static void head(struct raw *r, uint16_t head)
{
    __atomic_store_n((uint16_t *)(void *)(r->memory + 6), head, __ATOMIC_SEQ_CST);
}

static int masked(struct raw *r)
{
    return __atomic_load_n((uint16_t *)(void *)(r->memory + 4), __ATOMIC_SEQ_CST) & 1;
}

/* One packet of 60 bytes comes over a new connection, and only that. */
static void works(void)
{
    struct raw r = connected(1);
    qm_piece pieces[4];
    size_t n;
    CHECK(qm_release(server, 0) == QM_OK);
    slot(&r, 0, 0, 0, 60, 1 << 20);
    memset(r.memory + (1 << 20), 7, 60);
    head(&r, 1);
    CHECK(qm_receive(server, 0, pieces, 4, &n) == QM_OK && n == 1 && pieces[0].length == 60);
    CHECK(((const uint8_t *)pieces[0].data)[59] == 7);
    CHECK(qm_receive(server, 0, pieces, 4, &n) == QM_OK && n == 0 && qm_release(server, 0) == QM_OK);
    gone(&r);
}

/* A chain that finds no place, and something wrong behind it: none of its parts is given out later, when its memory has gone. */
static void fault_behind_parts_that_wait(void)
{
    struct raw r = connected(1);
    for (unsigned i = 0; i < 3; i++)
        slot(&r, i, i < 2, 0, 100, (60 << 20) + 2048 * i);
    slot(&r, 3, 0, 9, 100, 0);
    head(&r, 4);
    qm_piece pieces[2];
    size_t n = 7;
    CHECK(qm_receive(server, 0, pieces, 2, &n) == QM_FAULT && n == 0);
    CHECK(strstr(qm_last_error(), address) == qm_last_error() && strstr(qm_last_error(), " id 0: descriptor points outside"));
    gone(&r);
    struct raw next = connected(1);
    for (int i = 0; i < 3; i++) {
        CHECK(qm_receive(server, 0, pieces, 2, &n) == QM_OK);
        for (size_t k = 0; k < n; k++) /* read, to see that it is there */
            CHECK(((volatile const uint8_t *)pieces[k].data)[pieces[k].length - 1] == 0);
        CHECK(n == 0);
    }
    gone(&next);
    works();
}

/* The peer restarts while parts of a packet wait: what was given out stays readable until it is released, and the queue works again. */
static void restart_while_parts_wait(void)
{
    for (int kept = 0; kept < 2; kept++) {
        struct raw r = connected(1);
        for (unsigned i = 0; i < 6; i++)
            slot(&r, i, i % 3 < 2, 0, 100, (60 << 20) + 2048 * i);
        memset(r.memory + (60 << 20), 5, 100);
        head(&r, 6);
        qm_piece pieces[4];
        size_t n;
        CHECK(qm_receive(server, 0, pieces, 4, &n) == QM_OK && n == 3);
        CHECK(kept || qm_release(server, 0) == QM_OK);
        gone(&r);
        struct raw next = connected(1);
        if (kept) {
            CHECK(qm_receive(server, 0, &pieces[3], 1, &n) == QM_INVALID && *(const uint8_t *)pieces[0].data == 5);
            CHECK(qm_release(server, 0) == QM_OK);
        }
        CHECK(qm_receive(server, 0, pieces, 4, &n) == QM_OK && n == 0);
        gone(&next);
        works();
    }
}

/* A link that this side finds no descriptors for is told so, and is no link; the next one is. */
static void out_of_descriptors(void)
{
    struct raw r = connect_raw(1);
    for (int i = 0; i < 3; i++) /* HELLO and two ACKs: the ring is announced */
        CHECK(hear(&r) > 0);
    CHECK(hear(&r) > 0);
    uint16_t message = CONNECT;
    say(&r, &message, sizeof message, -1);
    struct rlimit before, few;
    int full[64], count = 0;
    CHECK(!getrlimit(RLIMIT_NOFILE, &before));
    few = before, few.rlim_cur = 64;
    CHECK(!setrlimit(RLIMIT_NOFILE, &few));
    while (count < 64 && (full[count] = dup(0)) >= 0)
        count++;
    CHECK(count < 64 && qm_wait(&server, 1, 0) == QM_SYSTEM && qm_last_errno() == EMFILE);
    while (count)
        close(full[--count]);
    CHECK(!setrlimit(RLIMIT_NOFILE, &before));
    int heard = hear(&r);
    while (heard == CONNECTED)
        heard = hear(&r);
    CHECK(heard == DISCONNECT && hear(&r) == 0);
    gone(&r);
    works();
}

static atomic_int stop;

static void *looks(void *unused)
{
    (void)unused;
    while (!stop) {
        CHECK(qm_wait(&server, 1, 1) == QM_OK);
        usleep(20000); /* busy with what it found */
    }
    return NULL;
}

static void *sleeps(void *unused)
{
    (void)unused;
    CHECK(qm_wait(&server, 1, 60000) == QM_OK);
    return NULL;
}

static struct raw sender;

static void *sends(void *number)
{
    usleep(5000 + 300 * (unsigned)((uintptr_t)number % 97)); /* the other thread sleeps, or doesn't */
    slot(&sender, (unsigned)(uintptr_t)number, 0, 0, 60, 1 << 20);
    head(&sender, (uint16_t)((uintptr_t)number + 1));
    uint64_t one = 1;
    if (!masked(&sender))
        CHECK(write(sender.event_fd, &one, sizeof one) == sizeof one);
    return NULL;
}

/* One thread's waiting and looking takes nothing from another's sleep. */
static void several_threads(void)
{
    sender = connected(1);
    pthread_t other, producer;
    /* Who looks without sleeping leaves the signals wanted that another sleeps for. */
    CHECK(!pthread_create(&other, NULL, sleeps, NULL));
    while (masked(&sender))
        usleep(100);
    double end = now() + 20;
    for (int wanted = 0, ready; wanted < 100; usleep(1000)) {
        CHECK(now() < end);
        if (masked(&sender)) /* it is awake by itself */
            continue;
        CHECK(qm_ready(server, 0, &ready) == QM_OK && !ready && qm_wait(&server, 1, 0) == QM_OK);
        wanted += !masked(&sender);
    }
    CHECK(qm_wake(server) == QM_OK);
    pthread_join(other, NULL);

    /* And a sleeper hears of each packet, not only when it looks by itself, 100 ms after it began to sleep or later. So may one that hears on
     * a busy machine: but not for ever. */
    CHECK(!pthread_create(&other, NULL, looks, NULL));
    end = now() + 20;
    int heard = 0; /* one after the other */
    for (uintptr_t i = 0; heard < 20; i++) {
        CHECK(now() < end);
        CHECK(!pthread_create(&producer, NULL, sends, (void *)i));
        double began = now();
        qm_piece pieces[8];
        for (size_t n = 0; n == 0;)
            CHECK(qm_wait(&server, 1, 1000) == QM_OK && qm_receive(server, 0, pieces, 8, &n) == QM_OK);
        heard = now() - began < 0.1 ? heard + 1 : 0;
        CHECK(qm_release(server, 0) == QM_OK);
        pthread_join(producer, NULL);
    }
    stop = 1;
    pthread_join(other, NULL);
    gone(&sender);
}

static void *receives_with_all_signals_blocked(void *unused)
{
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
    qm_piece pieces[4];
    size_t n;
    CHECK(qm_receive(server, 0, pieces, 4, &n) == QM_FAULT && qm_last_errno() == EPROTO);
    CHECK(strstr(qm_last_error(), "shared memory was truncated"));
    /* The others stay as they were. */
    CHECK(!pthread_sigmask(SIG_SETMASK, NULL, &all));
    CHECK(!sigismember(&all, SIGBUS) && sigismember(&all, SIGTERM) && sigismember(&all, SIGSEGV));
    return NULL;
}

/* A peer takes its memory away, and the thread that touches it next has blocked all signals, as threads of many programs have. */
static void memory_taken_from_a_thread_without_signals(void)
{
    qm_server_options trusting = {.peer_memory = QM_ANY_MEMORY};
    qm_close(server);
    CHECK(qm_open_server(address, &trusting, &server) == QM_OK);
    struct raw r = connect_raw_of(1, 0);
    establish(&r);
    slot(&r, 0, 0, 0, 60, 1 << 20);
    head(&r, 1);
    CHECK(!ftruncate(r.memory_fd, 0));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, receives_with_all_signals_blocked, NULL));
    pthread_join(thread, NULL);
    gone(&r);
    works();
}

int main(void)
{
    snprintf(address, sizeof address, "@quiver/c-hostile-%d", getpid());
    qm_server_options options = {0};
    CHECK(qm_open_server(address, &options, &server) == QM_OK);
    works();
    fault_behind_parts_that_wait();
    restart_while_parts_wait();
    out_of_descriptors();
    several_threads();
    memory_taken_from_a_thread_without_signals();
    qm_close(server);
    puts("ok");
}
