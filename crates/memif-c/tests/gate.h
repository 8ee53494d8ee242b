/* Threads that are begun while the gate is shut wait there; and what this process has of the library. */
#pragma once
#include <dirent.h>
#include <dlfcn.h>
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int gate_shut;

struct gate_thread {
    void *(*run)(void *);
    void *with;
};

static void *gate_pass(void *raw)
{
    struct gate_thread it = *(struct gate_thread *)raw;
    free(raw);
    while (gate_shut)
        usleep(1000);
    return it.run(it.with);
}

/* In the place of the C library's: the library finds this one first. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *with)
{
    int (*begin)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&begin = dlsym(RTLD_NEXT, "pthread_create");
    struct gate_thread *it = malloc(sizeof *it);
    if (!begin || !it)
        errx(1, "no thread");
    *it = (struct gate_thread){run, with};
    return begin(thread, attributes, gate_pass, it);
}

/* Lines of this process's maps with that word. */
static int mapped(const char *word)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps)
        err(1, "maps");
    while (fgets(line, sizeof line, maps))
        count += strstr(line, word) != NULL;
    fclose(maps);
    return count;
}

/* Memory of connections. */
static int regions(void)
{
    return mapped("/memfd:");
}

/* Threads of this process. */
static int threads(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/task");
    if (!all)
        err(1, "task");
    for (struct dirent *one; (one = readdir(all));)
        count += one->d_name[0] != '.';
    closedir(all);
    return count;
}

/* Waits until it is so, a minute at most. */
#define UNTIL(condition)                   \
    do                                     \
        for (int i_ = 0; !(condition); i_++) { \
            CHECK(i_ < 60000);             \
            usleep(1000);                  \
        }                                  \
    while (0)
