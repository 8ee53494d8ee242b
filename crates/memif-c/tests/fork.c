/* A process goes on with its parent's ports, as behind daemon(3): what it closes goes, also where a thread of the library was at work when it was forked, which it hasn't. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/wait.h>

#include <quiver/memif.h>

#include "check.h"
#include "gate.h"

struct link {
    qm_port *server, *client;
};

static int is_up(qm_port *port)
{
    qm_info info;
    return qm_get_info(port, &info) == QM_OK;
}

/* Of that name, which nobody else has: both ends are here. */
static struct link open_link(const char *name)
{
    struct link l;
    char address[64];
    snprintf(address, sizeof address, "@quiver/fork-%d-%s", getpid(), name);
    CHECK(qm_open_server(address, &(qm_server_options){0}, &l.server) == QM_OK);
    CHECK(qm_open_client(address, &(qm_client_options){.ring_size = 64, .no_huge_pages = 1}, &l.client) == QM_OK);
    qm_port *both[] = {l.server, l.client};
    UNTIL(qm_wait(both, 2, 10) == QM_OK && is_up(l.server) && is_up(l.client));
    return l;
}

static void close_link(struct link l)
{
    qm_close(l.client), qm_close(l.server);
}

static void carries(struct link l, uint8_t byte)
{
    uint8_t packet[60] = {byte};
    qm_piece piece = {.data = packet, .length = sizeof packet}, got;
    size_t n = 0;
    CHECK(qm_send(l.client, 0, &piece, 1, &n) == QM_OK && n == 1);
    CHECK(qm_receive(l.server, 0, &got, 1, &n) == QM_OK && n == 1);
    CHECK(got.length == sizeof packet && *(const uint8_t *)got.data == byte);
    CHECK(qm_release(l.server, 0) == QM_OK);
}

int main(void)
{
    struct link first = open_link("first"), second = open_link("second");
    carries(second, 1);
    int all = regions();
    CHECK(all > 0 && threads() == 1);

    gate_shut = 1;
    close_link(first);
    CHECK(threads() > 1 && regions() == all);
    pid_t child = fork();
    CHECK(child >= 0);
    gate_shut = 0;
    if (!child) {
        CHECK(threads() == 1 && regions() == all);
        carries(second, 2);
        close_link(second);
        UNTIL(!regions() && threads() == 1);
        /* It has ports of its own, too. */
        second = open_link("own");
        carries(second, 3);
        close_link(second);
        UNTIL(!regions());
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    /* It has closed the connection for both; the memory is this process's until it closes, too. */
    qm_event event;
    CHECK(regions() > 0);
    UNTIL(qm_wait(&second.client, 1, 10) == QM_OK && qm_next_event(second.client, &event) == QM_OK && event.kind == QM_EVENT_DOWN);
    close_link(second);
    UNTIL(!regions() && threads() == 1);
    puts("ok");
}
