/* Peers that hold the file of a region, so that whoever seals it waits for ever: none of these calls does, and another port loses nothing.
 * hostile_held HOLDER: the peer, crates/memif/tests/hostile_closes/holder.py. */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <quiver/memif.h>

#include "check.h"

enum { PATIENCE = 30, MESSAGE = 128 };

static const char *script;
static char address[64];

/* Both ends of a link that nobody disturbs, and the ports of a test, of which there may be none. */
static qm_port *far, *near, *port, *again;
static uint64_t sent, received;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Lets all ports work, by one thread, which never waits long: a packet goes over the other link, and comes, the next in its order. */
static void work(void)
{
    qm_port *all[4] = {far, near};
    size_t count = 2;
    if (port)
        all[count++] = port;
    if (again)
        all[count++] = again;
    double called = now();
    CHECK(qm_wait(all, count, 5) == QM_OK && now() - called < PATIENCE);
    qm_piece packet = {.data = &sent, .length = sizeof sent}, pieces[8];
    size_t n;
    if (qm_send(near, 0, &packet, 1, &n) == QM_OK)
        sent += n;
    while (qm_receive(far, 0, pieces, 8, &n) == QM_OK && n > 0) {
        for (size_t i = 0; i < n; i++, received++)
            CHECK(pieces[i].length == sizeof received && !memcmp(pieces[i].data, &received, sizeof received));
        CHECK(qm_release(far, 0) == QM_OK);
    }
    usleep(500);
}

/* Works until it is so. */
#define UNTIL(condition)                                       \
    do                                                         \
        for (double end_ = now() + PATIENCE; !(condition); work()) \
            CHECK(now() < end_);                               \
    while (0)

/* Threads of this process of that name. */
static int threads(const char *name)
{
    int count = 0;
    DIR *all = opendir("/proc/self/task");
    CHECK(all);
    for (struct dirent *one; (one = readdir(all));) {
        char path[sizeof one->d_name + 32], comm[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", one->d_name);
        FILE *file = fopen(path, "r");
        if (file && fgets(comm, sizeof comm, file))
            count += !strncmp(comm, name, strlen(name));
        if (file)
            fclose(file);
    }
    closedir(all);
    return count;
}

struct holder {
    pid_t pid;
    int says; /* doesn't wait */
    char line[256];
    size_t length;
};

/* At the socket of that name, with these words. It ends with this process, which couldn't end otherwise, and where that hangs by itself. */
static struct holder start(const uint8_t words[][MESSAGE], int count)
{
    int ends[2];
    CHECK(!pipe2(ends, O_CLOEXEC) && !fcntl(ends[0], F_SETFL, O_NONBLOCK));
    struct holder h = {.pid = fork(), .says = ends[0]};
    CHECK(h.pid >= 0);
    if (!h.pid) {
        static char hex[3][2 * MESSAGE + 1];
        char *command[] = {"python3", (char *)(uintptr_t)script, address + 1, hex[0], hex[1], NULL, NULL};
        for (int i = 0; i < count; i++)
            for (int k = 0; k < MESSAGE; k++)
                sprintf(hex[i] + (ptrdiff_t)2 * k, "%02x", words[i][k]);
        if (count > 2)
            command[5] = hex[2];
        prctl(PR_SET_PDEATHSIG, SIGKILL), alarm(2 * PATIENCE);
        dup2(ends[1], 1);
        execvp(command[0], command);
        _exit(127);
    }
    close(ends[1]);
    return h;
}

/* Whether it has said one line more, which is then there. */
static int says(struct holder *h)
{
    if (h->length && h->line[h->length - 1] == '\n')
        h->length = 0;
    while (h->length + 1 < sizeof h->line && read(h->says, h->line + h->length, 1) == 1) {
        h->line[++h->length] = 0;
        if (h->line[h->length - 1] == '\n')
            return 1;
    }
    return 0;
}

static void end(struct holder *h)
{
    CHECK(!kill(h->pid, SIGKILL) && waitpid(h->pid, NULL, 0) == h->pid);
    close(h->says);
}

/* What happened to the port next. */
static qm_event next(void)
{
    qm_event event;
    UNTIL(qm_next_event(port, &event) == QM_OK);
    return event;
}

static int is_up(qm_port *one)
{
    qm_info info;
    return qm_get_info(one, &info) == QM_OK;
}

static void word(uint8_t *at, uint16_t value)
{
    memcpy(at, &value, sizeof value);
}

static const qm_server_options server = {0};
static const qm_client_options client = {.ring_size = 64, .no_huge_pages = 1};

/* Nothing has come of what hung: the two connect. */
static void connects(void)
{
    UNTIL(is_up(port) && is_up(again));
    qm_close(again), qm_close(port);
    again = port = NULL;
}

/* A client announces memory that can't be sealed. 0: it can't do its part here. */
static int client_that_holds_the_file(void)
{
    CHECK(qm_open_server(address, &server, &port) == QM_OK);
    uint8_t words[2][MESSAGE] = {{3}, {4}}; /* INIT, ADD_REGION of 1 MiB */
    word(words[0] + 2, 0x200), word(words[1] + 6, (1 << 20) >> 16);
    struct holder h = start(words, 2);
    UNTIL(says(&h));
    if (strcmp(h.line, "held\n")) {
        printf("SKIPPED: %s", h.line);
        return 0;
    }
    UNTIL(threads("memif-map") == 1);

    /* It is told once, and so are we. */
    qm_event event = next();
    CHECK(event.kind == QM_EVENT_REFUSED && !strcmp(event.cause, "timeout"));
    UNTIL(says(&h));
    CHECK(!strcmp(h.line, "told handshake timed out: the file of a region is held\n"));
    UNTIL(says(&h));
    CHECK(!strcmp(h.line, "ended\n"));

    /* Its thread isn't let go by that: who comes next is turned away. */
    CHECK(qm_open_client(address, &client, &again) == QM_OK);
    event = next();
    CHECK(event.kind == QM_EVENT_REFUSED && !strcmp(event.cause, "hanging-region"));
    CHECK(threads("memif-map") == 1);
    end(&h);
    UNTIL(threads("memif-map") == 0);
    connects();
    return 1;
}

/* A server does it to the memory of its client. */
static void server_that_holds_the_file(void)
{
    uint8_t words[3][MESSAGE] = {{2}, {1}, {7}}; /* HELLO, ACK, CONNECTED */
    word(words[0] + 34, 0x200), word(words[0] + 36, 0x200); /* versions */
    word(words[0] + 38, 255), word(words[0] + 40, 255), word(words[0] + 42, 255), word(words[0] + 44, 14);
    struct holder h = start(words, 3);
    UNTIL(says(&h));
    CHECK(!strcmp(h.line, "listening\n"));
    CHECK(qm_open_client(address, &client, &port) == QM_OK);
    UNTIL(says(&h));
    CHECK(!strcmp(h.line, "held\n"));
    qm_event event = next();
    CHECK(event.kind == QM_EVENT_REFUSED && !strcmp(event.cause, "timeout"));
    event = next();
    CHECK(event.kind == QM_EVENT_UNREACHABLE && strstr(event.reason, "the server holds its file"));
    CHECK(!is_up(port) && threads("memif-seal") == 1);

    /* Nor does the end of a port wait for it. */
    qm_close(port);
    port = NULL;
    CHECK(threads("memif-seal") == 1);
    end(&h);
    UNTIL(threads("memif-seal") == 0);
    CHECK(qm_open_server(address, &server, &port) == QM_OK && qm_open_client(address, &client, &again) == QM_OK);
    connects();
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    script = argv[1];
    snprintf(address, sizeof address, "@quiver/c-bystander-%d", getpid());
    CHECK(qm_open_server(address, &server, &far) == QM_OK && qm_open_client(address, &client, &near) == QM_OK);
    UNTIL(received > 0);
    snprintf(address, sizeof address, "@quiver/c-held-%d", getpid());
    if (!client_that_holds_the_file())
        return 0;
    server_that_holds_the_file();
    UNTIL(received == sent);
    puts("ok");
}
