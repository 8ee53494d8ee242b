/* send_udp ADDRESS PORT PPS [COUNT]: sends small datagrams at a rate, like any client of the attacked pod. */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "attack.h"

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 4) return 2;
    double pps = strtod(argv[3], NULL);
    long count = argument(argc, argv, 4, -1), sent = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)argument(argc, argv, 2, 0))};
    if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) return 2;
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    if (udp < 0) die("socket");
    ready(0);
    double start = now();
    while (!stopping && sent != count) {
        double ahead = start + (double)sent / pps - now();
        if (ahead > 0) sleep_ns((long)(ahead * 1e9));
        /* Refused connections and full queues don't end the load. */
        if (sendto(udp, "attack", 6, MSG_DONTWAIT, (struct sockaddr *)&address, sizeof address) < 0) errno = 0;
        sent++;
    }
    while (!stopping) pause();
    return 0;
}
