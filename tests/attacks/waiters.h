/* Waiters on a file: whoever wakes the file walks them all, in its own time.
 *
 * `descriptors` duplicates of the file are watched by one epoll set, which is itself polled `polls` times, for an event
 * (POLLPRI) that an epoll set never reports. So a single wakeup of the file calls descriptors × polls functions, and no
 * process ever runs for it. The kernel limits nested epoll sets (fs/eventpoll.c, path_limits), but neither duplicates
 * of a descriptor nor poll(2). */
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

/* Watches `file` for `events` as described above. Returns the number of duplicates that could be made. */
__attribute__((unused)) static long hang_waiters(int file, uint32_t events, long descriptors, long polls) {
    long limit = raise_descriptor_limit();
    int set = epoll_create1(0);
    if (set < 0) die("epoll_create1");
    long made = 0;
    for (; made < descriptors; made++) {
        int copy = made ? dup(file) : file;
        struct epoll_event event = {.events = events};
        if (copy < 0 || epoll_ctl(set, EPOLL_CTL_ADD, copy, &event) < 0) break;
    }
    if (!made) die("epoll_ctl");
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
    if (polls) sleep_ns(300000000); /* until the threads are in poll */
    return made;
}

#endif
