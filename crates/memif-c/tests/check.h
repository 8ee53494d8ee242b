/* What tests in C ask for. */
#pragma once
#include <err.h>

#include <quiver/memif.h>

/* Ends the program where it isn't so, with what the library said last in this thread. */
#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition))                                                                  \
            errx(1, "line %d: not so: %s (%s)", __LINE__, #condition, qm_last_error());    \
    } while (0)
