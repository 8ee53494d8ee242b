/* Plays the table of byte vectors (tests/conformance/memif/memif-2.0.txt, its first argument) against a server of this library: raw
 * messages and descriptors on a socket, raw words in shared memory. Says what differs and exits with 1. */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <quiver/memif.h>

#define REGION 65536
#define TO_SERVER 0
#define FROM_SERVER 8192
#define HEADER 128
#define WORDS 24

struct message {
    char name[64];
    uint8_t bytes[128];
} messages[64];
size_t message_count;

static char address[64];
static qm_port *server[2];
static int sock = -1, memory_fd = -1, event_fd = -1;
static uint8_t *memory;
static const char *entry = "";

static void phrase(char *word)
{
    for (; *word; word++)
        *word = *word == '-' ? ' ' : *word;
}

static void open_servers(void)
{
    static unsigned number;
    qm_server_options plain = {0};
    snprintf(address, sizeof address, "@quiver/c-conformance-%d-%u", getpid(), number++);
    if (qm_open_server(address, &plain, &server[0]) != QM_OK)
        errx(1, "%s", qm_last_error());
}

static void connect_raw(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path + 1, address + 1, strlen(address) - 1);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(sock, (struct sockaddr *)&name, (socklen_t)(sizeof name.sun_family + strlen(address))))
        err(1, "connect to %s", address);
    memory_fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (ftruncate(memory_fd, REGION) || fcntl(memory_fd, F_ADD_SEALS, F_SEAL_SHRINK))
        err(1, "memfd");
    memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    event_fd = eventfd(0, EFD_CLOEXEC);
    if (memory == MAP_FAILED || event_fd < 0)
        err(1, "memory");
    uint32_t cookie = 0x3e31f20;
    memcpy(memory + TO_SERVER, &cookie, 4);
    memcpy(memory + FROM_SERVER, &cookie, 4);
}

static void close_all(void)
{
    if (sock < 0)
        return;
    close(sock), close(memory_fd), close(event_fd);
    munmap(memory, REGION);
    qm_close(server[0]);
    sock = -1;
}

static int descriptor(const char *name)
{
    int ends[2];
    if (!strcmp(name, "memory"))
        return dup(memory_fd);
    if (!strcmp(name, "eventfd"))
        return dup(event_fd);
    if (!strcmp(name, "pipe")) {
        if (pipe(ends))
            err(1, "pipe");
        close(ends[1]);
        return ends[0];
    }
    int fd = memfd_create("unsealed", MFD_CLOEXEC);
    if (strcmp(name, "unsealed") || ftruncate(fd, REGION))
        errx(1, "no descriptor %s", name);
    return fd;
}

static void send_message(char **words, int count)
{
    struct message *m = messages;
    while (m < messages + message_count && strcmp(m->name, words[0]))
        m++;
    if (m == messages + message_count)
        errx(1, "no message %s", words[0]);
    int fds[8], n = 0;
    for (int i = 1; i < count; i++)
        fds[n++] = descriptor(words[i]);
    char control[CMSG_SPACE(sizeof fds)] = {0};
    struct iovec data = {m->bytes, sizeof m->bytes};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (n) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN((size_t)n * sizeof(int))};
        memcpy(CMSG_DATA(rights), fds, (size_t)n * sizeof(int));
    }
    sendmsg(sock, &header, MSG_NOSIGNAL); /* a server that has closed already is fine: what it said is read afterwards */
    while (n)
        close(fds[--n]);
}

/* Lets the server work until it says something: a type, and for "refused" words of the reason. */
static void hear(char **words, int count)
{
    static const char *const types[] = {"none", "ack", "hello", "", "", "", "", "connected", "refused"};
    uint8_t bytes[129];
    ssize_t n = -1;
    for (int i = 0; i < 20000 && n < 0; i++) {
        if (qm_wait(server, 1, 10) != QM_OK)
            errx(1, "%s: %s", entry, qm_last_error());
        usleep(1000); /* with events that nobody has taken it comes back at once */
        n = recv(sock, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    if (n != 128 || bytes[1] || bytes[0] > 8 || strcmp(types[bytes[0]], words[0]))
        errx(1, "%s: expected %s, got %zd bytes of type %u", entry, words[0], n, bytes[0]);
    if (!strcmp(words[0], "refused") && count > 1) {
        bytes[101] = 0;
        phrase(words[1]);
        if (!strstr((char *)bytes + 6, words[1]))
            errx(1, "%s: expected \"%s\", got \"%s\"", entry, words[1], (char *)bytes + 6);
    }
}

/* With the usual rings, or with the one that is named. */
static void connect_good(char *large)
{
    char *steps[][2] = {{"init", NULL}, {"region", "memory"}, {large ? large : "ring-to-server", "eventfd"}, {"ring-from-server", "eventfd"}};
    for (size_t i = 0; i < (large ? 3 : 4); i++) {
        send_message(steps[i], steps[i][1] ? 2 : 1);
        hear((char *[]){"ack"}, 1);
    }
    send_message((char *[]){"connect"}, 1);
    hear((char *[]){"connected"}, 1);
}

static void write_word(const char *kind, char **words, size_t ring)
{
    uint64_t n[5] = {0};
    for (int i = 0; i < (*kind == 's' ? 5 : 1); i++)
        n[i] = strtoull(words[i], NULL, 0);
    size_t first = n[0], end = n[0] + 1;
    if (!strcmp(kind, "slots"))
        first = 0, end = n[0];
    if (*kind == 'h') {
        uint16_t head = (uint16_t)n[0];
        __atomic_store_n((uint16_t *)(memory + ring + 6), head, __ATOMIC_RELEASE);
        return;
    }
    uint64_t slot[2] = {n[1] | n[2] << 16 | n[3] << 32, n[4]};
    for (size_t i = first; i < end; i++)
        memcpy(memory + ring + HEADER + i * 16, slot, sizeof slot);
}

/* Receives, or sends a packet of length bytes, and compares with the words. */
static void exchange(char **words, int count, size_t length)
{
    uint8_t packet[4096];
    memset(packet, 0xab, sizeof packet);
    qm_piece pieces[64] = {{packet, (uint32_t)length, 0}};
    size_t n = 0;
    int status = length ? qm_send(server[0], 0, pieces, 1, &n) : qm_receive(server[0], 0, pieces, 64, &n);
    if (!strcmp(words[0], "fault")) {
        char *told[] = {"refused", words[1]};
        phrase(words[1]);
        if (status != QM_FAULT || !strstr(qm_last_error(), words[1]))
            errx(1, "%s: expected \"%s\", got %s: %s", entry, words[1], qm_status_name(status), qm_last_error());
        hear(told, 2);
        for (int i = 16384; length && i < REGION; i++)
            if (memory[i])
                errx(1, "%s: something was written", entry);
        return;
    }
    if (status != QM_OK)
        errx(1, "%s: %s", entry, qm_last_error());
    for (int i = 1; length && i < count; i++) {
        size_t part = length < 2048 ? length : 2048;
        if (memcmp(memory + strtoul(words[i], NULL, 0), packet, part))
            errx(1, "%s: not what was sent at %s", entry, words[i]);
        length -= part;
    }
    if (!strcmp(words[0], "sent"))
        return;
    size_t at = 0;
    for (int i = 1; i < count; i++) {
        size_t total = 0, more = 1;
        for (; more && at < n; at++) {
            total += pieces[at].length;
            more = pieces[at].flags & QM_MORE;
        }
        if (total != strtoul(words[i], NULL, 0))
            errx(1, "%s: a packet of %zu bytes, expected %s", entry, total, words[i]);
    }
    if (at != n || qm_release(server[0], 0) != QM_OK)
        errx(1, "%s: %zu pieces more", entry, n - at);
}

static void bytes_of(struct message *m, char **words, int count)
{
    size_t at = strtoul(words[0], NULL, 0);
    for (int i = 1; i < count; i++)
        for (const char *c = words[i]; c[0] && c[1]; c += 2)
            sscanf(c, "%2hhx", &m->bytes[at++]);
}

int main(int argc, char **argv)
{
    FILE *table = fopen(argc > 1 ? argv[1] : "", "r");
    if (!table)
        err(1, "table");
    char line[512], name[128] = "";
    size_t ring = TO_SERVER, length = 0, entries = 0;
    int secret = 0, skip = 0;
    while (fgets(line, sizeof line, table)) {
        line[strcspn(line, "#\n")] = 0;
        char *words[WORDS];
        int count = 0;
        for (char *word = strtok(line, " "); word && count < WORDS; word = strtok(NULL, " "))
            words[count++] = word;
        if (!count)
            continue;
        if (!strcmp(words[0], "message")) {
            snprintf(messages[message_count].name, sizeof messages[0].name, "%s", words[1]);
            message_count++, skip = 0;
        } else if (!strcmp(words[0], "reject")) {
            skip = 1; /* bytes that are no message */
        } else if (!strcmp(words[0], "bytes") && !skip) {
            bytes_of(&messages[message_count - 1], words + 1, count - 1);
        } else if (!strcmp(words[0], "handshake") || !strcmp(words[0], "receive") || !strcmp(words[0], "transmit")) {
            close_all();
            snprintf(name, sizeof name, "%s %s", words[0], words[1]);
            entry = name, entries++;
            /* A port of this library is one interface: the one with a secret has another port. */
            secret = strstr(words[1], "secret") != NULL;
            length = words[0][0] == 't' ? strtoul(words[2], NULL, 0) : 0;
            ring = length ? FROM_SERVER : TO_SERVER;
            open_servers();
            if (secret) {
                qm_server_options with = {.id = 1, .secret = "quiver"};
                qm_close(server[0]);
                if (qm_open_server(address, &with, &server[0]) != QM_OK)
                    errx(1, "%s", qm_last_error());
            }
            connect_raw();
            hear((char *[]){"hello"}, 1);
            if (words[0][0] != 'h')
                connect_good(strcmp(words[count - 1], "large") ? NULL : length ? "large-from-server" : "large-to-server");
        } else if (!strcmp(words[0], "send")) {
            send_message(words + 1, count - 1);
        } else if (!strcmp(words[0], "hear")) {
            hear(words + 1, count - 1);
        } else if (!strcmp(words[0], "slot") || !strcmp(words[0], "slots") || !strcmp(words[0], "head")) {
            write_word(words[0], words + 1, ring);
        } else if (!strcmp(words[0], "packets") || !strcmp(words[0], "fault") || !strcmp(words[0], "sent")) {
            exchange(words, count, length);
        }
    }
    close_all();
    printf("%zu entries of the table agree\n", entries);
    return entries < 40;
}
