/* Waiters on a file: whoever wakes the file walks them all, in its own time.
 *
 * `descriptors` duplicates of the file are watched by each of `sets` epoll sets. Each set is itself polled `polls` times,
 * for an event (POLLPRI) that an epoll set never reports. So a single wakeup of the file calls descriptors × sets ×
 * (1 + polls) functions, and no process ever runs for it. The kernel limits nested epoll sets (fs/eventpoll.c,
 * path_limits), but neither duplicates of a descriptor nor poll(2). */
#ifndef WAITERS_H
#define WAITERS_H

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "attack.h"

struct poller {
    int set;
    long entries;
};

static void *poll_forever(void *argument) {
    struct poller poller = *(struct poller *)argument;
    struct pollfd *entries = calloc((size_t)poller.entries, sizeof *entries);
    if (!entries) die("calloc");
    for (long i = 0; i < poller.entries; i++) entries[i] = (struct pollfd){.fd = poller.set, .events = POLLPRI};
    while (!stopping) {
        if (poll(entries, (nfds_t)poller.entries, -1) < 0 && errno != EINTR) die("poll of %ld", poller.entries);
    }
    return NULL;
}

/* Polls `set` that many times, in threads that never return. */
static void poll_set(int set, long polls, long limit) {
    for (long left = polls; left > 0;) {
        struct poller *poller = malloc(sizeof *poller);
        if (!poller) die("malloc");
        *poller = (struct poller){set, left < limit ? left : limit};
        left -= poller->entries;
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        pthread_attr_setstacksize(&small, 1 << 16);
        errno = pthread_create(&thread, &small, poll_forever, poller);
        if (errno) die("pthread_create");
    }
}

/* Watches `file` for `events` as described above. Returns the number of watches. */
__attribute__((unused)) static long hang_waiters(int file, uint32_t events, long descriptors, long sets, long polls) {
    long limit = raise_descriptor_limit(), watches = 0;
    int set[sets];
    for (long i = 0; i < sets; i++) {
        set[i] = epoll_create1(0);
        if (set[i] < 0) die("epoll_create1");
    }
    for (long made = 0; made < descriptors; made++) {
        int copy = made ? dup(file) : file;
        struct epoll_event event = {.events = events};
        if (copy < 0) break;
        for (long i = 0; i < sets; i++) watches += epoll_ctl(set[i], EPOLL_CTL_ADD, copy, &event) == 0;
    }
    if (!watches) die("epoll_ctl");
    for (long i = 0; i < sets; i++) poll_set(set[i], polls, limit);
    if (polls) sleep_ns(300000000); /* until the threads are in poll */
    return watches;
}

#endif
