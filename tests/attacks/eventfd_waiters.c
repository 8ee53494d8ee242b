/* eventfd_waiters SOCKET WHERE DESCRIPTORS SETS POLLS RATE: a memif client with waiters on an object that it shares with
 * quiverd. WHERE is
 *   tx       the eventfd that the worker writes when it has sent to us; somebody must send frames to this interface;
 *   rx       the eventfd that the worker reads when we have signaled it, RATE times a second;
 *   control  the control socket, in a handshake that is repeated RATE times a second. */
#include <sys/wait.h>

#include "memif.h"
#include "waiters.h"

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 3) return 2;
    const char *path = argv[1], *where = argv[2];
    long descriptors = argument(argc, argv, 3, 1000), sets = argument(argc, argv, 4, 1);
    long polls = argument(argc, argv, 5, 0), rate = argument(argc, argv, 6, 10);
    if (!strcmp(where, "control")) {
        for (int first = 1; !stopping; first = 0) {
            /* A process of its own, whose end closes all that it opened. */
            pid_t child = fork();
            if (child == 0) {
                struct memif memif;
                int control = memif_socket(path);
                hang_waiters(control, EPOLLIN | EPOLLOUT, descriptors, sets, polls);
                memif_connect(&memif, control);
                _exit(0);
            }
            while (waitpid(child, NULL, 0) < 0 && !stopping) continue;
            if (first) ready(descriptors * sets);
            sleep_ns(1000000000 / rate);
        }
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
