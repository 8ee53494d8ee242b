/* socket_waiters PORT DESCRIPTORS POLLS: hangs waiters on an ordinary UDP socket. They are walked in softirq by whoever
 * delivers a datagram: the process that writes it to the pod's device. No privilege is needed. */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "waiters.h"

int main(int argc, char **argv) {
    stop_on_signals();
    long port = argument(argc, argv, 1, 4000);
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (udp < 0 || bind(udp, (struct sockaddr *)&address, sizeof address) < 0) die("UDP port %ld", port);
    ready(hang_waiters(udp, EPOLLIN, argument(argc, argv, 2, 1000), 1, argument(argc, argv, 3, 90000)));
    char buffer[2048];
    /* A full receive buffer would end the wakeups. */
    while (!stopping) {
        while (recv(udp, buffer, sizeof buffer, 0) >= 0) continue;
        sleep_ns(1000000);
    }
    /* The pollers never return. */
    _exit(0);
}
