"""A pod: a network namespace of its own."""

import collections
import contextlib
import ctypes
import itertools
import os
import re
import signal
import threading

from .process import HANGS, Process, eventually, run
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

    def ping(self, address, *options, count=3, wait=5):
        """Pings and returns what was sent, what came back, and the words."""
        done = self.run("ping", "-n", "-c", count, "-i", "0.05", "-W", wait, *options, address, check=False)
        text = done.stdout + done.stderr
        numbers = re.search(r"(\d+) packets transmitted, (\d+) received", text)
        return Pings(*(map(int, numbers.groups()) if numbers else (0, 0)), text)

    def must_ping(self, address, *options, count=3):
        """Pings; every one of the first requests must be answered, however late."""
        # Told a number, ping waits for two round trips after its last request, or for as many answers, whichever requests they are for:
        # what neighbour discovery held back comes behind the answer to what it didn't.
        wanted = set(range(1, count + 1))
        with self.start("ping", "-n", "-i", "0.05", *options, address) as ping:
            answered = lambda: set(_answered(ping.output()))
            eventually(lambda: wanted <= answered() or not ping.alive(), ping.output, timeout=HANGS // 2)
            ping.signal(signal.SIGINT)
            ping.wait()
            assert wanted <= answered(), ping.output()
            return Pings(count, len(_answered(ping.output())), ping.output())

    @contextlib.contextmanager
    def pinging(self, address, interval=0.01, *options):
        """Pings all the while. Of the requests up to the last that was answered, each must have been."""
        with self.start("ping", "-n", "-i", interval, *options, address) as ping:
            answered = lambda: _answered(ping.output())
            eventually(answered, lambda: f"{address} answers\n{ping.output()}")
            yield ping
            seen = len(answered())
            eventually(lambda: len(answered()) > seen, lambda: f"{address} still answers\n{ping.output()[-500:]}")
            ping.signal(signal.SIGINT)
            ping.finish()
            numbers = answered()
            # ping counts to 65535 and begins anew.
            missing = set(range(1, len(numbers) + 1)) - set(numbers) if max(numbers) < 65535 else set()
            assert not missing, (sorted(missing)[:20], len(missing), ping.output()[-500:])

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


def _answered(text):
    """Sequence numbers of the answers that ping tells of."""
    return [int(number) for number in re.findall(r"bytes from .* icmp_seq=(\d+)", text)]


def _set_namespace(descriptor):
    if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
