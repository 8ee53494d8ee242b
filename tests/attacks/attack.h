/* What all attack programs share: argument parsing, errors, the "ready" line and waiting for SIGTERM. */
#ifndef ATTACK_H
#define ATTACK_H

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

__attribute__((unused)) static void on_signal(int number) {
    (void)number;
    stopping = 1;
}

/* Ends the program with a message and the text of errno. */
__attribute__((noreturn, unused, format(printf, 1, 2))) static void die(const char *format, ...) {
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, ": %s\n", strerror(error));
    exit(1);
}

/* A decimal argument, or `otherwise` where there are fewer arguments. */
__attribute__((unused)) static long argument(int argc, char **argv, int index, long otherwise) {
    return index < argc ? strtol(argv[index], NULL, 10) : otherwise;
}

/* Raises the soft limit of open descriptors to the hard limit and returns it. */
__attribute__((unused)) static long raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
    return (long)limit.rlim_cur;
}

/* Installs the handler of SIGTERM and SIGINT. */
__attribute__((unused)) static void stop_on_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

/* Tells the harness that the attack is set up, with the intensity that the kernel allowed. */
__attribute__((unused)) static void ready(long intensity) {
    printf("ready %ld\n", intensity);
    fflush(stdout);
}

__attribute__((unused)) static void sleep_ns(long ns) {
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
}

__attribute__((unused)) static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

#endif
