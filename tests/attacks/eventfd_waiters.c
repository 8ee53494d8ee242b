/* eventfd_waiters SOCKET WHERE DESCRIPTORS SETS POLLS RATE: a memif client with waiters on an object that it shares with
 * quiverd. WHERE is
 *   tx       the eventfd that the worker writes when it has sent to us; somebody must send frames to this interface;
 *   rx       the eventfd that the worker reads when we have signaled it, RATE times a second;
 *   control  the control socket, in a handshake that is repeated RATE times a second;
 *   sigio    the same, but the socket sends a signal to a process group of DESCRIPTORS processes. */
#include <sys/prctl.h>
#include <sys/wait.h>

#include "memif.h"
#include "waiters.h"

/* Handshakes over and over, each in a process of its own whose end closes all that it opened. */
static void repeat_handshakes(const char *path, int sigio, long descriptors, long sets, long polls, long rate) {
    signal(SIGIO, SIG_IGN);
    setpgid(0, 0);
    for (long i = 0; sigio && i < descriptors; i++) {
        pid_t child = fork();
        if (child < 0) die("process %ld", i);
        if (child) continue;
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        while (!stopping) pause();
        _exit(0);
    }
    for (int first = 1; !stopping; first = 0) {
        pid_t child = fork();
        if (child == 0) {
            struct memif memif;
            int control = memif_socket(path);
            if (!sigio) hang_waiters(control, EPOLLIN | EPOLLOUT, descriptors, sets, polls);
            else if (fcntl(control, F_SETOWN, -getpgrp()) < 0 || fcntl(control, F_SETFL, O_ASYNC) < 0) die("F_SETOWN");
            memif_connect(&memif, control);
            _exit(0);
        }
        while (waitpid(child, NULL, 0) < 0 && !stopping) continue;
        if (first) ready(descriptors * sets);
        sleep_ns(1000000000 / rate);
    }
    kill(0, SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR) continue;
}

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 3) return 2;
    const char *path = argv[1], *where = argv[2];
    long descriptors = argument(argc, argv, 3, 1000), sets = argument(argc, argv, 4, 1);
    long polls = argument(argc, argv, 5, 0), rate = argument(argc, argv, 6, 10);
    if (!strcmp(where, "control") || !strcmp(where, "sigio")) {
        repeat_handshakes(path, *where == 's', descriptors, sets, polls, rate);
        return 0;
    }
    struct memif memif;
    memif_connect(&memif, memif_socket(path));
    memif_post(&memif);
    int reads = !strcmp(where, "rx");
    /* A read of an eventfd wakes those who wait to write it, so our own writes cost us nothing. */
    int event = memif.events[reads ? TO_SERVER : FROM_SERVER];
    ready(hang_waiters(event, reads ? EPOLLOUT : EPOLLIN, descriptors, sets, polls));
    long taken = 0;
    while (!stopping) {
        uint64_t one = 1;
        if (reads && write(event, &one, sizeof one) < 0 && errno != EAGAIN) die("write");
        sleep_ns(reads ? 1000000000 / rate : 1000000);
        taken += memif_drain(&memif, *word(&memif, FROM_SERVER, TAIL));
    }
    fprintf(stderr, "%ld frames received\n", taken);
    _exit(0);
}
