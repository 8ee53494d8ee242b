// A clock that says another time than the machine's: for programs that ask libc. What is added, in seconds, stands in the file that $CLOCK_FILE
// names, and may change; clocks that only run on are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long added(void)
{
	static int file = -1;
	char text[32] = "";
	if (file < 0)
		file = open(getenv("CLOCK_FILE"), O_RDONLY | O_CLOEXEC);
	return pread(file, text, sizeof text - 1, 0) > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*ask)(clockid_t, struct timespec *);
	if (!ask)
		ask = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int failed = ask(clock, now);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += added();
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;
	int failed = clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return failed;
}

time_t time(time_t *where)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (where)
		*where = now.tv_sec;
	return now.tv_sec;
}
