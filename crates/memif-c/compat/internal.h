/* What the files of the compatibility layer share. */
#ifndef QUIVER_COMPAT_INTERNAL_H
#define QUIVER_COMPAT_INTERNAL_H

#include <stdatomic.h>

#include <quiver/memif.h>

#include "libmemif.h"

#define MAX_CONNS 64
#define MAX_QUEUES 256

typedef struct queue {
    uint8_t *staging;    /* buffers to send: slots of size bytes */
    size_t size, slots;
    size_t next;         /* slot to give out next */
    size_t out;          /* slots given out and not sent */
    uint32_t lent;       /* received buffers that were not given back */
    int polling;         /* no interrupts */
} queue_t;

typedef struct conn conn_t;

typedef struct sock {
    char path[108];
    char name[32];
    conn_t *conns[MAX_CONNS];
    size_t count;
    atomic_int cancelled; /* set by any thread */
    memif_control_fd_update_t *on_control_fd_update; /* the application watches descriptors itself */
    void *private_ctx;
} sock_t;

struct conn {
    sock_t *sock;
    qm_port *port;
    memif_conn_args_t args;
    memif_connection_update_t *on_connect, *on_disconnect;
    memif_interrupt_t *on_interrupt;
    void *private_ctx;
    int up;
    atomic_int queue_efd; /* an application's thread sleeps on memif_get_queue_efd */
    queue_t queues[MAX_QUEUES]; /* of both directions */
};

/* The memif_err_t of a status. */
int compat_error(int status);

/* Tells the application to watch the connection's descriptor, or (MEMIF_FD_EVENT_DEL) not to any more, if it watches any. */
int compat_watch(conn_t *c, memif_fd_event_type_t type);

/* Sees to it that the descriptor becomes readable for what comes, if the application watches it. */
int compat_arm(conn_t *c);

#endif
