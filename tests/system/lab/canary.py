"""Canaries: traffic of pods that have nothing to do with an attack, and what quiverd itself shows meanwhile."""

import contextlib
import json
import math
import signal
import threading
import time

from .attack_programs import program, until_ready
from .laboratory import peer_mac, quiver_mac
from .process import Process, run, tool

# Canaries run before everything else of their core: what they miss is not for want of a processor.
REALTIME = ("chrt", "--fifo", "50")
# Before everything else but the other canaries.
CLIENT = ("chrt", "--fifo", "40")
PING_PPS = 100
MEMIF_PPS = 50_000


class Canary:
    """A program of tests/attacks that reports latencies and losses as JSON when it is stopped."""

    def __init__(self, name, kind, *arguments, inside=()):
        self.name = name
        self.process = Process(*inside, *REALTIME, program(kind), *arguments)
        until_ready(self.process, kind)

    def finish(self):
        """Stops it and returns its figures. Late answers still count for a second."""
        self.process.signal(signal.SIGTERM)
        self.process.wait()
        try:
            figures = json.loads(self.process.output().splitlines()[-1])
        except ValueError:
            return {f"{self.name}_error": self.process.output()[-300:]}
        figures["lost"] = figures["sent"] - figures.pop("received")
        left_out = {"min_ms", "mean_ms", *([] if self.name == "memif" else ["unsent"])}
        return {f"{self.name}_{key}": value for key, value in figures.items() if key not in left_out}

    def close(self):
        """Ends it, if it still runs."""
        self.process.__exit__()


def ping_canary(pod, address, name="ping", count=1):
    """A pod that pings `count` addresses from the first in turn, 100 times a second."""
    return Canary(name, "canary_ping", address, PING_PPS, count, inside=("ip", "netns", "exec", pod.name))


def memif_canary(lab, tx, rx, tx_number, rx_number, pps=MEMIF_PPS):
    """Frames from one memif to another. What finds no room in the ring of 1 024 (20 ms at 50 000 pps) is `unsent`."""
    return Canary(
        "memif", "canary_memif", f"{lab.directory}/{tx}", f"{lab.directory}/{rx}", f"10.{tx_number}.0.2", f"10.{rx_number}.0.2",
        peer_mac(tx_number), quiver_mac(tx_number), pps,
    )  # fmt: skip


class ApiCanary:
    """Asks quiverd for its objects, again and again, and looks at its memory."""

    def __init__(self, daemon, interval=0.25):
        self.daemon, self.interval = daemon, interval
        self.times, self.failures, self.resident = [], 0, [resident(daemon.process.pid)]
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()

    def _ask(self):
        while not self.over.wait(self.interval):
            with contextlib.suppress(OSError, StopIteration):  # it has ended
                self.resident.append(resident(self.daemon.process.pid))
            before = time.monotonic()
            done = run(*CLIENT, tool("quiver"), "--socket", self.daemon.socket, "get", check=False)
            if done.returncode == 0:
                self.times.append(1000 * (time.monotonic() - before))
            else:
                self.failures += 1

    def finish(self):
        """Stops and returns the time of `quiver get` in ms and the memory of quiverd in MB."""
        self.over.set()
        self.thread.join()
        return {
            "get_p50_ms": percentile(sorted(self.times), 50),
            "get_max_ms": percentile(sorted(self.times), 100),
            "get_failed": self.failures,
            "rss_before_mb": self.resident[0],
            "rss_max_mb": max(self.resident),
            "rss_after_mb": self.resident[-1],
        }

    def close(self):
        """Ends it, if it still runs."""
        self.over.set()
        self.thread.join()


def resident(pid):
    """Memory of a process, in MB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        kilobytes = next(line for line in status if line.startswith("VmRSS:")).split()[1]
    return round(int(kilobytes) / 1024, 1)


def percentile(values, percent):
    """A percentile of sorted values, None of none: the least value that so many are not above."""
    if not values:
        return None
    return round(values[max(0, math.ceil(len(values) * percent / 100) - 1)], 3)
