/* canary_memif TX_SOCKET RX_SOCKET FROM_IP TO_IP FROM_MAC TO_MAC PPS: frames from one memif to another in bursts, one a
 * millisecond, until SIGTERM; then a second for late ones and a report. Frames for which the ring to quiverd has no room are
 * "unsent": it holds 1 024, so a worker that stands still for longer than 1 024 / PPS seconds is seen. */
#include <arpa/inet.h>
#include <poll.h>

#include "canary.h"
#include "memif.h"

enum { FRAME = 64, PAYLOAD = 14 + 20 + 8 };

struct payload {
    uint64_t number;
    double sent;
};

static struct latencies latencies;
static struct memif to, from;
static uint8_t frame[FRAME];

static void mac(uint8_t *at, const char *text) {
    unsigned byte[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", byte, byte + 1, byte + 2, byte + 3, byte + 4, byte + 5) != 6) exit(2);
    for (int i = 0; i < 6; i++) at[i] = (uint8_t)byte[i];
}

static void template(char **words) {
    uint8_t header[28] = {0x45, 0, 0, FRAME - 14, 0, 0, 0, 0, 64, 17};
    if (inet_pton(AF_INET, words[0], header + 12) != 1 || inet_pton(AF_INET, words[1], header + 16) != 1) exit(2);
    uint32_t sum = 0;
    for (int i = 0; i < 20; i += 2) sum += (uint32_t)(header[i] << 8 | header[i + 1]);
    sum = (sum & 0xFFFF) + (sum >> 16);
    sum = ~(sum + (sum >> 16)) & 0xFFFF;
    header[10] = (uint8_t)(sum >> 8);
    header[11] = (uint8_t)sum;
    header[21] = header[23] = 9; /* ports; no UDP checksum */
    header[25] = FRAME - 14 - 20;
    mac(frame + 6, words[2]);
    mac(frame, words[3]);
    frame[12] = 8;
    memcpy(frame + 14, header, sizeof header);
}

/* Sends as many frames of `wanted` as there is room for, numbered from `number`; returns how many. */
static long burst(uint64_t number, long wanted) {
    uint16_t head = *word(&to, TO_SERVER, HEAD), tail = *word(&to, TO_SERVER, TAIL);
    long room = SLOTS - (uint16_t)(head - tail), sent = 0;
    for (; sent < wanted && sent < room; sent++) {
        int slot = (uint16_t)(head + sent) % SLOTS;
        uint32_t offset = (uint32_t)(BUFFERS + slot * BUFFER);
        struct payload payload = {number + (uint64_t)sent, now()};
        memcpy(to.memory + offset, frame, FRAME);
        memcpy(to.memory + offset + PAYLOAD, &payload, sizeof payload);
        struct descriptor descriptor = {.length = FRAME, .offset = offset};
        memcpy(to.memory + 128 + slot * 16, &descriptor, sizeof descriptor);
    }
    __sync_synchronize();
    *word(&to, TO_SERVER, HEAD) = (uint16_t)(head + sent);
    __sync_synchronize();
    uint64_t one = 1;
    if (sent && !(*word(&to, TO_SERVER, FLAGS) & 1) && write(to.events[TO_SERVER], &one, sizeof one) < 0) die("write");
    return sent;
}

/* Takes all frames that have come; foreign ones, such as ARP, aren't counted. */
static void receive(void) {
    uint16_t head = *word(&from, FROM_SERVER, HEAD), tail = *word(&from, FROM_SERVER, TAIL);
    double at = now();
    __sync_synchronize();
    for (uint16_t next = (uint16_t)(head - (SLOTS - 1)); next != tail; next++) {
        struct descriptor descriptor;
        struct payload payload;
        memcpy(&descriptor, from.memory + RING + 128 + next % SLOTS * 16, sizeof descriptor);
        const uint8_t *bytes = from.memory + descriptor.offset;
        if (descriptor.length != FRAME || memcmp(bytes + 26, frame + 26, 8)) continue;
        memcpy(&payload, bytes + PAYLOAD, sizeof payload);
        latency_add(&latencies, at, at - payload.sent);
    }
    memif_drain(&from, tail);
}

int main(int argc, char **argv) {
    stop_on_signals();
    if (argc < 8) return 2;
    template(argv + 3);
    double pps = strtod(argv[7], NULL), late = 0;
    memif_connect(&to, memif_socket(argv[1]));
    memif_connect(&from, memif_socket(argv[2]));
    memif_post(&from);
    ready((long)pps);
    struct pollfd waiting = {.fd = from.events[FROM_SERVER], .events = POLLIN};
    uint64_t sent = 0, unsent = 0;
    double start = now(), tick = start, end = 0;
    while (!end || now() < end) {
        if (stopping && !end) end = now() + 1;
        double left = (end ? end : tick) - now();
        if (left > 0) {
            struct timespec time = {0, (long)((left < 0.5 ? left : 0.5) * 1e9)};
            uint64_t count;
            if (ppoll(&waiting, 1, &time, NULL) > 0 && read(waiting.fd, &count, sizeof count) > 0) receive();
            continue;
        }
        if (end) break;
        receive();
        if (-left > late) late = -left;
        long due = (long)((now() - start) * pps) - (long)(sent + unsent);
        long took = burst(sent, due);
        sent += (uint64_t)took;
        /* What this process itself was late for is nobody's loss. */
        if (-left < 0.001) unsent += (uint64_t)(due - took);
        else start += (double)(due - took) / pps;
        tick += -left > 0.001 ? -left + 0.001 : 0.001;
    }
    receive();
    report(&latencies, sent, unsent, late);
    return 0;
}
