/* socket_crowd KIND PORT COUNT: other ways to make the receipt of a datagram long. KIND is
 *   filter     a UDP socket with a filter of 4 096 instructions; no privilege
 *   sigio      a UDP socket that sends a signal to a process group of COUNT processes; no privilege
 *   multicast  COUNT UDP sockets in the group 239.66.0.1 on eth1, each of which gets a copy; no privilege
 *   raw        COUNT raw sockets, each of which gets a copy and runs a filter of 4 096 instructions; CAP_NET_RAW */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "filter.h"

static int udp_socket(long port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (udp < 0) return udp;
    setsockopt(udp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(udp, (struct sockaddr *)&address, sizeof address) < 0) die("UDP port %ld", port);
    return udp;
}

static void drain(int socket) {
    char buffer[2048];
    while (!stopping) {
        while (recv(socket, buffer, sizeof buffer, MSG_DONTWAIT) >= 0) continue;
        sleep_ns(1000000);
    }
}

/* A group of processes that ignore the signal, but are looked at for each. */
static void signal_group(long port, long count) {
    int udp = udp_socket(port);
    signal(SIGIO, SIG_IGN);
    for (long i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) die("process %ld", i);
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            while (!stopping) pause();
            _exit(0);
        }
    }
    if (fcntl(udp, F_SETOWN, -getpid()) < 0 || fcntl(udp, F_SETFL, O_ASYNC | O_NONBLOCK) < 0) die("F_SETOWN");
    ready(count);
    drain(udp);
    kill(0, SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR) continue;
}

static long open_crowd(const char *kind, long port, long count) {
    struct sock_fprog filter = long_filter("divide");
    struct ip_mreqn group = {.imr_multiaddr.s_addr = inet_addr("239.66.0.1"), .imr_ifindex = (int)if_nametoindex("eth1")};
    int raw = !strcmp(kind, "raw"), small = 2048;
    long made = 0;
    for (; made < count; made++) {
        int one = raw ? socket(AF_INET, SOCK_RAW, IPPROTO_UDP) : udp_socket(port);
        if (one < 0) break;
        setsockopt(one, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        if (raw ? setsockopt(one, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter)
                : setsockopt(one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group))
            die("socket %ld", made);
    }
    return made;
}

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 4) return 2;
    setpgid(0, 0);
    long limit = raise_descriptor_limit(), port = argument(argc, argv, 2, 0), count = argument(argc, argv, 3, 0);
    if (!strcmp(argv[1], "sigio")) {
        signal_group(port, count);
        return 0;
    }
    if (!strcmp(argv[1], "filter")) {
        struct sock_fprog filter = long_filter("dissect");
        int udp = udp_socket(port);
        if (setsockopt(udp, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) < 0) die("SO_ATTACH_FILTER");
        ready(1);
        drain(udp);
        return 0;
    }
    if (count > limit - 16) count = limit - 16;
    ready(open_crowd(argv[1], port, count));
    while (!stopping) pause();
    return 0;
}
