/* The library is loaded, used and unloaded while a thread of it has just begun: that finds its code. */
#define _GNU_SOURCE
#include <stdint.h>

#include <quiver/memif.h>

#define CHECK(condition)                                             \
    do {                                                             \
        if (!(condition))                                            \
            errx(1, "line %d: not so: %s", __LINE__, #condition);    \
    } while (0)
#include "gate.h"

#define NAME "libquiver-memif.so.0"
#define CALL(name) ((__typeof__(name) *)dlsym(library, #name))

static void *library;

static int is_up(qm_port *port)
{
    qm_info info;
    return CALL(qm_get_info_sized)(port, &info, sizeof info) == QM_OK;
}

/* A thread of its own: what the library keeps for a thread that has called it keeps the library, too. */
static void *use(void *none)
{
    char address[64];
    snprintf(address, sizeof address, "@quiver/unload-%d", getpid());
    qm_server_options server = {0};
    qm_client_options client = {.ring_size = 64, .no_huge_pages = 1};
    qm_port *both[2];
    CHECK(CALL(qm_open_server_sized)(address, &server, sizeof server, &both[0]) == QM_OK);
    CHECK(CALL(qm_open_client_sized)(address, &client, sizeof client, &both[1]) == QM_OK);
    UNTIL(CALL(qm_wait)(both, 2, 10) == QM_OK && is_up(both[0]) && is_up(both[1]));
    gate_shut = 1;
    CALL(qm_close)(both[0]), CALL(qm_close)(both[1]);
    return none;
}

int main(void)
{
    CHECK(!dlopen(NAME, RTLD_LAZY | RTLD_NOLOAD));
    for (int turn = 0; turn < 2; turn++) {
        CHECK((library = dlopen(NAME, RTLD_NOW)));
        pthread_t user;
        CHECK(!pthread_create(&user, NULL, use, NULL) && !pthread_join(user, NULL));
        CHECK(regions() > 0 && !dlclose(library));
        gate_shut = 0;
        UNTIL(!regions() && threads() == 1);
    }
    puts("ok");
}
