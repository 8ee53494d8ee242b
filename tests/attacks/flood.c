/* flood WHERE PPS KIND …: sends frames, PPS a second or (0) as fast as it can. WHERE is a device, through a packet socket
 * (which needs CAP_NET_RAW), or the socket of a memif (a path, or @NAME).
 *   super     TO_MAC FROM_IP TO_IP BYTES                 TCP super-frames, to be segmented further on
 *   long      TO_MAC FROM_IP TO_IP BYTES                 UDP datagrams without a checksum, to be fragmented further on
 *   nested    TO_MAC FROM_IP TO_IP VNI TUNNEL_MAC LAYERS VXLAN within VXLAN, each for the same end of the same tunnel
 *   strangers TO_MAC FROM_IP FIRST_IP COUNT OTHER_IP…    datagrams to other addresses in turn, and each 16th to one of COUNT
 *   macs      COUNT                                      frames from COUNT Ethernet addresses in turn, for the sender itself
 *   thief     MAC                                        frames from somebody else's Ethernet address */
#include <linux/if_packet.h>
#include <net/if.h>

#include "frames.h"
#include "memif.h"

static uint8_t own[6] = {2, 0, 0, 0, 0x66, 0x66};
static struct memif peer;
static int packet = -1;

static void open_packet_socket(const char *device) {
    int on = 1;
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(device)};
    packet = socket(AF_PACKET, SOCK_RAW, 0);
    if (packet < 0 || bind(packet, (struct sockaddr *)&address, sizeof address) < 0) die("packet socket on %s", device);
    socklen_t size = sizeof address;
    if (getsockname(packet, (struct sockaddr *)&address, &size) < 0) die("getsockname");
    if (setsockopt(packet, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0) die("PACKET_VNET_HDR");
    memcpy(own, address.sll_addr, sizeof own);
}

/* Sends the frame; what there is no room for is not sent. */
static void send_frame(void) {
    if (packet < 0) {
        memif_transmit(&peer, frame, length);
        return;
    }
    struct iovec parts[2] = {{&offload, sizeof offload}, {frame, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (sendmsg(packet, &message, 0) < 0 && errno != ENOBUFS && errno != EINTR) die("sendmsg of %zu bytes", length);
}

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 5) return 2;
    double pps = strtod(argv[2], NULL);
    const char *kind = argv[3];
    char **words = argv + 4;
    int strangers = !strcmp(kind, "strangers"), macs = !strcmp(kind, "macs");
    int wanted = !strcmp(kind, "super") || !strcmp(kind, "long") ? 4 : strangers ? 5 : !strcmp(kind, "nested") ? 6 : 1;
    if (argc - 4 < wanted) return 2;
    memif_log2 = 14;
    if (strchr("@/", *argv[1])) memif_connect(&peer, memif_socket(argv[1]));
    else open_packet_socket(argv[1]);
    if (!strcmp(kind, "super")) super_frame(own, words);
    if (!strcmp(kind, "long")) long_packet(own, words);
    if (!strcmp(kind, "nested")) nested(own, words);
    if (!strcmp(kind, "thief")) {
        uint8_t victim[6];
        mac(victim, words[0]);
        station(own, victim);
    }
    ready(atol(words[wanted - 1]));
    double start = now();
    for (long sent = 0; !stopping; sent++) {
        if (strangers) stranger(own, words, argc - 8, sent);
        if (macs) {
            uint8_t from[6] = {0x02, 0x66};
            put32(from + 2, (uint32_t)(sent % atol(words[0])));
            station(own, from);
        }
        double ahead = pps > 0 ? start + (double)sent / pps - now() : 0;
        if (ahead > 0) sleep_ns((long)(ahead * 1e9));
        send_frame();
    }
    return 0;
}
