"""What waits for a descriptor in such numbers that each wake-up takes long: the kernel calls all of it, one after the other."""

import contextlib
import os
import resource
import select
import threading
import time


def flat(descriptor, watches):
    """So many entries of epoll sets; ends as a context."""
    return _Waiters(descriptor, sets=max(1, watches // 400), copies=400)


def nested(descriptor, sets=450, entries=4000, threads=4):
    """Sets within a set for which threads wait, each by many descriptors: their product is called at each wake-up."""
    return _Waiters(descriptor, sets=sets, copies=1, entries=entries, threads=threads)


class _Waiters(contextlib.ExitStack):
    def __init__(self, descriptor, sets, copies, entries=0, threads=0):
        super().__init__()
        _raise_limit(sets + copies + entries + 1000)
        watched = [self._own(os.dup(descriptor)) for _ in range(copies)]
        inner = [self._set(watched) for _ in range(sets)]
        if threads:
            outer = self._set([one.fileno() for one in inner])
            waited_for = [self._own(os.dup(outer.fileno())) for _ in range(entries)]
            self._ends = threading.Event()
            for _ in range(threads):
                thread = threading.Thread(target=self._wait, args=(waited_for,))
                thread.start()
                self.callback(thread.join)
            self.callback(self._ends.set)

    def _own(self, descriptor):
        self.callback(os.close, descriptor)
        return descriptor

    def _set(self, descriptors):
        epoll = self.enter_context(select.epoll())
        for descriptor in descriptors:
            epoll.register(descriptor, select.EPOLLIN | select.EPOLLET)
        return epoll

    def _wait(self, descriptors):
        poll = select.poll()
        for descriptor in descriptors:
            # Nothing that ever comes: the thread is called, and waits on.
            poll.register(descriptor, select.POLLPRI)
        while not self._ends.is_set():
            poll.poll(100)


def _raise_limit(descriptors):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, max(hard, descriptors)))


def cost(descriptor):
    """Seconds that one signal of an eventfd takes whoever gives it."""
    begun = time.thread_time()
    os.eventfd_write(descriptor, 1)
    return time.thread_time() - begun
