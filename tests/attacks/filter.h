/* Socket filters that take long: 4 096 instructions, which is as many as the kernel takes. */
#ifndef FILTER_H
#define FILTER_H

#include <linux/filter.h>

#include "attack.h"

static struct sock_filter code[BPF_MAXINSNS];

/* "divide" is arithmetic. "dissect" has the kernel parse the frame again for each of 3 000 instructions, which is as many
 * as a socket may hold (net.core.optmem_max) once they are translated. Nothing passes the filter. */
static struct sock_fprog long_filter(const char *kind) {
    int dissections = kind && !strcmp(kind, "dissect") ? 3000 : 0;
    for (int i = 0; i < BPF_MAXINSNS; i++) {
        code[i] = i < dissections ? (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_PAY_OFFSET)
                : i % 2           ? (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 0x10001)
                                  : (struct sock_filter)BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 0xFEDCBA98);
    }
    code[BPF_MAXINSNS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    return (struct sock_fprog){BPF_MAXINSNS, code};
}

#endif
