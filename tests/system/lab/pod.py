"""A pod: a network namespace of its own."""

import collections
import contextlib
import ctypes
import itertools
import os
import re
import threading

from .process import Process, run
from .wire import Wire

_COUNT = itertools.count()
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000

Pings = collections.namedtuple("Pings", "sent received text")


class Pod:
    """A network namespace with a unique name, whose end Quiver's taps live in."""

    def __init__(self, role):
        self.name = f"qt{os.getpid()}-{next(_COUNT)}-{role}"
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.name, "link", "set", "lo", "up")

    def remove(self):
        """Takes it away."""
        run("ip", "netns", "del", self.name, check=False)

    def run(self, *command, **options):
        """Runs a command inside to its end."""
        return run("ip", "netns", "exec", self.name, *command, **options)

    def start(self, *command):
        """Runs a command inside in the background."""
        return Process("ip", "netns", "exec", self.name, *command)

    def ip(self, *arguments, **options):
        """`ip` inside."""
        return run("ip", "-n", self.name, *arguments, **options)

    def mac(self, device="eth0"):
        """Ethernet address of a device."""
        return re.search(r"link/ether (\S+)", self.ip("link", "show", device).stdout)[1]

    def ping(self, address, *options, count=3, wait=2):
        """Pings and returns what was sent, what came back, and the words."""
        done = self.run("ping", "-n", "-c", count, "-i", "0.05", "-W", wait, *options, address, check=False)
        text = done.stdout + done.stderr
        numbers = re.search(r"(\d+) packets transmitted, (\d+) received", text)
        return Pings(*(map(int, numbers.groups()) if numbers else (0, 0)), text)

    def must_ping(self, address, *options, **more):
        """Pings; every request must be answered."""
        pings = self.ping(address, *options, **more)
        assert pings.sent > 0 and pings.received == pings.sent, pings.text
        return pings

    @contextlib.contextmanager
    def entered(self):
        """This thread is inside; sockets made here stay inside."""
        home = os.open(f"/proc/self/task/{threading.get_native_id()}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set_namespace(there)
            try:
                yield
            finally:
                _set_namespace(home)
        finally:
            os.close(there)
            os.close(home)

    def wire(self, device="eth0"):
        """A raw socket on a device, for frames from and to scapy."""
        with self.entered():
            return Wire(device)


def _set_namespace(descriptor):
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
