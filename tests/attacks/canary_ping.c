/* canary_ping ADDRESS PPS [COUNT]: echo requests to COUNT addresses in turn, until SIGTERM; then a second for late answers
 * and a report. Arrivals are the kernel's timestamps, so a latency has nothing of how late this process runs. */
#include <arpa/inet.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>

#include "canary.h"

/* Answers are found by number: requests of longer ago are not told from new ones. */
enum { REMEMBERED = 1 << 20 };

struct request {
    struct icmphdr header;
    uint32_t number;
};

static struct latencies latencies;
static double sent_at[REMEMBERED];
static uint16_t id;

static double wall(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static unsigned checksum(const void *data, size_t count) {
    const uint16_t *words = data;
    uint32_t sum = 0;
    for (size_t i = 0; i < count / 2; i++) sum += words[i];
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return ~sum & 0xFFFF;
}

/* Takes all answers that have come. */
static void receive(int icmp) {
    for (;;) {
        uint8_t packet[256];
        char ancillary[256];
        struct iovec part = {packet, sizeof packet};
        struct msghdr message = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = ancillary, .msg_controllen = sizeof ancillary};
        ssize_t length = recvmsg(icmp, &message, MSG_DONTWAIT);
        if (length < 0) return;
        struct request answer;
        if (length < 20 + (ssize_t)sizeof answer) continue;
        memcpy(&answer, packet + 20, sizeof answer);
        if (answer.header.type != ICMP_ECHOREPLY || answer.header.un.echo.id != id) continue;
        double *sent = &sent_at[answer.number % REMEMBERED];
        if (*sent == 0) continue; /* it was answered before */
        for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one; one = CMSG_NXTHDR(&message, one)) {
            if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS) continue;
            struct timespec time;
            memcpy(&time, CMSG_DATA(one), sizeof time);
            double at = (double)time.tv_sec + (double)time.tv_nsec / 1e9;
            latency_add(&latencies, at, at - *sent);
            *sent = 0;
        }
    }
}

int main(int argc, char **argv) {
    stop_on_signals();
    struct sockaddr_in to = {.sin_family = AF_INET};
    if (argc < 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) return 2;
    double pps = strtod(argv[2], NULL), late = 0;
    uint32_t first = ntohl(to.sin_addr.s_addr), count = (uint32_t)argument(argc, argv, 3, 1), number = 0;
    id = (uint16_t)getpid();
    int icmp = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), on = 1, room = 4 << 20;
    if (icmp < 0) die("socket");
    setsockopt(icmp, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    setsockopt(icmp, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    ready(count);
    struct pollfd waiting = {.fd = icmp, .events = POLLIN};
    double start = now(), end = 0;
    while (!end || now() < end) {
        if (stopping && !end) end = now() + 1;
        double due = end ? end : start + (double)number / pps, left = due - now();
        if (left > 0) {
            struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
            if (ppoll(&waiting, 1, &time, NULL) > 0) receive(icmp);
            continue;
        }
        if (end) break;
        if (-left > late) late = -left;
        struct request request = {.header = {.type = ICMP_ECHO, .un.echo = {.id = id}}, .number = number};
        request.header.checksum = (uint16_t)checksum(&request, sizeof request);
        to.sin_addr.s_addr = htonl(first + number % count);
        sent_at[number % REMEMBERED] = wall();
        /* A full queue of the device is a loss like any other. */
        if (sendto(icmp, &request, sizeof request, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof to) < 0) errno = 0;
        number++;
    }
    receive(icmp);
    report(&latencies, number, 0, late);
    return 0;
}
