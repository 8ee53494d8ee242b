/* The client side of memif 2.0, just enough for a link with one ring each way (see tests/system/lab/raw_memif.py). */
#ifndef ATTACK_MEMIF_H
#define ATTACK_MEMIF_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "attack.h"

enum { ACK = 1, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED };
/* Descriptors of a ring, as a power of two; 14 is the most that quiverd offers. Set before memif_connect. */
static unsigned memif_log2 = 10;
#define SLOTS (1 << memif_log2)
#define BUFFER 2048
#define RING (128 + 16 * SLOTS)
#define BUFFERS ((2 * RING + 4095) & ~4095)
/* Rings by index: frames to the server, and from it. */
enum { TO_SERVER, FROM_SERVER };

struct memif {
    int control;
    int events[2];
    uint8_t *memory;
};

static volatile uint16_t *word(struct memif *memif, int ring, int offset) {
    return (volatile uint16_t *)(memif->memory + ring * RING + offset);
}
#define FLAGS 4
#define HEAD 6
#define TAIL 64
/* Of descriptors: the frame goes on in the next one. */
#define NEXT 1

/* Connects to a path, or to an abstract socket that begins with @. */
static int memif_socket(const char *path) {
    int control = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (control < 0) die("socket");
    memcpy(address.sun_path, path, length);
    if (*path == '@') address.sun_path[0] = 0;
    if (connect(control, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        die("%s", path);
    return control;
}

static void memif_send(int control, uint16_t kind, const void *payload, size_t length, int descriptor) {
    uint8_t message[128] = {0};
    memcpy(message, &kind, 2);
    memcpy(message + 2, payload, length);
    struct iovec part = {message, sizeof message};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } ancillary = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        header.msg_control = &ancillary;
        header.msg_controllen = sizeof ancillary.bytes;
        ancillary.header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&ancillary.header), &descriptor, sizeof descriptor);
    }
    if (sendmsg(control, &header, MSG_NOSIGNAL) < 0) die("sendmsg");
}

static void memif_expect(int control, uint16_t kind) {
    uint8_t message[256] = {0};
    uint16_t came;
    ssize_t length;
    while ((length = recv(control, message, sizeof message, 0)) < 0 && errno == EINTR && !stopping) continue;
    memcpy(&came, message, 2);
    if (length != 128 || came != kind) {
        fprintf(stderr, "memif: message %d instead of %d: %.96s\n", came, kind, length > 6 ? (char *)message + 6 : "");
        exit(1);
    }
}

struct __attribute__((packed)) init {
    uint16_t version;
    uint32_t id;
    uint8_t mode;
    char secret[24], name[32];
};
struct __attribute__((packed)) region {
    uint16_t index;
    uint64_t size;
};
struct __attribute__((packed)) ring {
    uint16_t flags, index, region;
    uint32_t offset;
    uint8_t log2;
    uint16_t private_header;
};
struct __attribute__((packed)) descriptor {
    uint16_t flags, region;
    uint32_t length, offset, metadata;
};

/* The whole handshake on a connected control socket. */
__attribute__((unused)) static void memif_connect(struct memif *memif, int control) {
    size_t size = (size_t)BUFFERS + 2 * (size_t)SLOTS * BUFFER;
    int memory = memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 || ftruncate(memory, (off_t)size) < 0 || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) < 0) die("memfd");
    memif->control = control;
    memif->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (memif->memory == MAP_FAILED) die("mmap");
    memif_expect(control, HELLO);
    struct init init = {.version = 0x0200, .name = "attack"};
    memif_send(control, INIT, &init, sizeof init, -1);
    memif_expect(control, ACK);
    struct region region = {0, size};
    memif_send(control, ADD_REGION, &region, sizeof region, memory);
    memif_expect(control, ACK);
    for (int index = 0; index < 2; index++) {
        uint32_t cookie = 0x3E31F20;
        memcpy(memif->memory + index * RING, &cookie, sizeof cookie);
        memif->events[index] = eventfd(0, EFD_NONBLOCK);
        if (memif->events[index] < 0) die("eventfd");
        struct ring ring = {.flags = index == TO_SERVER, .offset = (uint32_t)(index * RING), .log2 = (uint8_t)memif_log2};
        memif_send(control, ADD_RING, &ring, sizeof ring, memif->events[index]);
        memif_expect(control, ACK);
    }
    memif_send(control, CONNECT, "attack", 7, -1);
    memif_expect(control, CONNECTED);
}

/* Posts a buffer in every slot of the ring from the server, and asks for interrupts. */
__attribute__((unused)) static void memif_post(struct memif *memif) {
    for (int slot = 0; slot < SLOTS; slot++) {
        struct descriptor empty = {.length = BUFFER, .offset = (uint32_t)(BUFFERS + (SLOTS + slot) * BUFFER)};
        memcpy(memif->memory + RING + 128 + slot * 16, &empty, sizeof empty);
    }
    *word(memif, FROM_SERVER, FLAGS) = 0;
    *word(memif, FROM_SERVER, HEAD) = SLOTS - 1;
}

/* Gives the buffers of received frames back, up to `tail` of the ring. Returns how many there were. */
__attribute__((unused)) static int memif_drain(struct memif *memif, uint16_t tail) {
    uint16_t before = *word(memif, FROM_SERVER, HEAD);
    uint16_t after = (uint16_t)(tail + SLOTS - 1);
    for (uint16_t head = before; head != after; head++) {
        int slot = head % SLOTS;
        struct descriptor empty = {.length = BUFFER, .offset = (uint32_t)(BUFFERS + (SLOTS + slot) * BUFFER)};
        memcpy(memif->memory + RING + 128 + slot * 16, &empty, sizeof empty);
    }
    __sync_synchronize();
    *word(memif, FROM_SERVER, HEAD) = after;
    return (uint16_t)(after - before);
}

/* Sends a frame, in as many buffers as it takes, if there is room, and wakes the server if it sleeps. */
__attribute__((unused)) static void memif_transmit(struct memif *memif, const uint8_t *bytes, size_t count) {
    uint16_t head = *word(memif, TO_SERVER, HEAD), used = (uint16_t)(head - *word(memif, TO_SERVER, TAIL));
    if (used + (count + BUFFER - 1) / BUFFER > (size_t)SLOTS) return;
    while (count) {
        size_t piece = count < BUFFER ? count : BUFFER;
        int slot = head++ % SLOTS;
        struct descriptor full = {.length = (uint32_t)piece, .offset = (uint32_t)(BUFFERS + slot * BUFFER)};
        memcpy(memif->memory + full.offset, bytes, piece);
        bytes += piece;
        count -= piece;
        full.flags = count ? NEXT : 0;
        memcpy(memif->memory + 128 + slot * 16, &full, sizeof full);
    }
    __sync_synchronize();
    *word(memif, TO_SERVER, HEAD) = head;
    __sync_synchronize();
    uint64_t one = 1;
    if (!(*word(memif, TO_SERVER, FLAGS) & 1) && write(memif->events[TO_SERVER], &one, sizeof one) < 0 && errno != EAGAIN)
        die("write");
}

#endif
