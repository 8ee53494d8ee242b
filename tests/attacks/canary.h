/* What canaries report: percentiles of latencies, losses, the longest gap, and how late they ran themselves. */
#ifndef CANARY_H
#define CANARY_H

#include <stdint.h>

#include "attack.h"

/* Latencies in microseconds, in buckets of 1 µs up to 100 ms and of 1 ms above. */
enum { FINE = 100000, COARSE = 100000 };

struct latencies {
    uint64_t fine[FINE], coarse[COARSE], count;
    double min, max, sum, last, gap;
};

/* Adds a latency of an answer that came at time `at`, both in seconds. */
__attribute__((unused)) static void latency_add(struct latencies *all, double at, double latency) {
    double us = latency * 1e6;
    if (us < FINE) all->fine[us < 0 ? 0 : (int)us]++;
    else all->coarse[us / 1000 < COARSE ? (int)(us / 1000) : COARSE - 1]++;
    all->count++;
    if (latency > all->max) all->max = latency;
    if (all->count == 1 || latency < all->min) all->min = latency;
    all->sum += latency;
    if (all->last > 0 && at - all->last > all->gap) all->gap = at - all->last;
    all->last = at;
}

/* A percentile in milliseconds. */
__attribute__((unused)) static double latency_at(const struct latencies *all, double percent) {
    uint64_t rank = (uint64_t)((double)all->count * percent / 100), seen = 0;
    for (int i = 0; i < FINE; i++) {
        seen += all->fine[i];
        if (seen > rank) return i / 1e3;
    }
    for (int i = 0; i < COARSE; i++) {
        seen += all->coarse[i];
        if (seen > rank) return i;
    }
    return all->max * 1e3;
}

__attribute__((unused)) static void report(const struct latencies *all, uint64_t sent, uint64_t unsent, double late) {
    printf("{\"sent\": %llu, \"received\": %llu, \"unsent\": %llu, \"p50_ms\": %.3f, \"p99_9_ms\": %.3f, \"min_ms\": %.3f, "
           "\"mean_ms\": %.3f, \"max_ms\": %.3f, \"gap_ms\": %.3f, \"own_late_ms\": %.3f}\n",
           (unsigned long long)sent, (unsigned long long)all->count, (unsigned long long)unsent, latency_at(all, 50),
           latency_at(all, 99.9), all->min * 1e3, all->count ? all->sum / (double)all->count * 1e3 : 0, all->max * 1e3, all->gap * 1e3, late * 1e3);
    fflush(stdout);
}

#endif
