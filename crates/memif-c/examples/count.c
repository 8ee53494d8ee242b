/* Counts what comes in on a memif, sends packets of N bytes ("send N"), or sends back what came ("echo"). Polls: takes a core.
 *
 *     count client|server ADDRESS [send N | echo]
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <quiver/memif.h>

#define BURST 256

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "client") && strcmp(argv[1], "server")))
        errx(2, "usage: count client|server ADDRESS [send N | echo]");
    qm_port *port;
    qm_client_options client = {.name = "count"};
    qm_server_options server = {.name = "count"};
    int status = argv[1][0] == 'c' ? qm_open_client(argv[2], &client, &port) : qm_open_server(argv[2], &server, &port);
    if (status != QM_OK)
        errx(1, "%s", qm_last_error());
    int echo = argc > 3 && !strcmp(argv[3], "echo");
    size_t size = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    char *packet = calloc(1, size + 1);
    qm_piece same[BURST], pieces[BURST];
    for (int i = 0; i < BURST; i++)
        same[i] = (qm_piece){packet, (uint32_t)size, 0};
    unsigned long received = 0, bytes = 0, sent = 0;
    for (double since = now();;) {
        for (int i = 0; i < 1000; i++) {
            size_t n = 0, m = 0;
            if (qm_receive(port, 0, pieces, BURST, &n) != QM_OK) {
                qm_wait(&port, 1, 100); /* connects */
                break;
            }
            for (size_t k = 0; k < n; k++) {
                bytes += pieces[k].length;
                received += !(pieces[k].flags & QM_MORE);
            }
            if (echo && n)
                qm_send(port, 0, pieces, n, &m);
            qm_release(port, 0);
            if (size)
                qm_send(port, 0, same, BURST, &m);
            sent += m;
        }
        qm_wait(&port, 1, 0);
        for (qm_event event; qm_next_event(port, &event) == QM_OK;)
            fprintf(stderr, "%s %s\n", event.kind == QM_EVENT_UP ? "link up" : "no link:", event.reason);
        double passed = now() - since;
        if (passed >= 1) {
            printf("received %.3f Mpps, %.3f Gbit/s; sent %.3f Mpps\n", (double)received / passed / 1e6,
                   (double)bytes * 8 / passed / 1e9, (double)sent / passed / 1e6);
            fflush(stdout);
            received = bytes = sent = 0;
            since = now();
        }
    }
}
