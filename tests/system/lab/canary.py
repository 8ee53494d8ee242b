"""Canaries: traffic of pods that have nothing to do with an attack, and what quiverd itself shows meanwhile."""

import contextlib
import json
import re
import signal
import threading
import time

from .process import Process, eventually, run, tool

# Canaries run before everything else of their core: what they miss is not for want of a processor.
REALTIME = ("chrt", "--fifo", "50")
PING_INTERVAL = 0.01
MEMIF_PPS = 50_000
# Seconds that a packet of the memif canary may be late: those that are later count as lost.
MAX_LATE = 0.02


class PingCanary:
    """A pod that pings another, 100 times a second."""

    def __init__(self, pod, address):
        self.process = Process("ip", "netns", "exec", pod.name, *REALTIME, "ping", "-n", "-D", "-i", PING_INTERVAL, address)
        eventually(lambda: self._answers(), lambda: f"{address} answers\n{self.process.output()}")

    def _answers(self):
        """(time of the answer, sequence number, round trip in ms) of each answer."""
        found = re.findall(r"^\[([\d.]+)\] .*icmp_seq=(\d+) .*time=([\d.]+) ms", self.process.output(), re.M)
        return [(float(when), int(number), float(trip)) for when, number, trip in found]

    def finish(self):
        """Stops and returns sent, lost, p50, p99.9, greatest round trip and longest gap between answers, in ms."""
        self.process.signal(signal.SIGINT)
        self.process.wait()
        answers = self._answers()
        numbers = re.search(r"(\d+) packets transmitted", self.process.output())
        sent = int(numbers[1])
        trips = sorted(trip for _, _, trip in answers)
        times = sorted(when for when, _, _ in answers)
        gaps = [1000 * (after - before) for before, after in zip(times, times[1:], strict=False)]
        return {
            "ping_sent": sent,
            "ping_lost": sent - len({number for _, number, _ in answers}),
            "ping_p50_ms": percentile(trips, 50),
            "ping_p99_9_ms": percentile(trips, 99.9),
            "ping_max_ms": trips[-1],
            "ping_gap_ms": round(max(gaps), 1),
        }

    def close(self):
        """Ends it, if it still runs."""
        self.process.__exit__()


class MemifCanary:
    """50 000 packets a second from one memif to another (quiver-tgen)."""

    def __init__(self, lab, tx, rx, tx_number, rx_number, seconds):
        self.daemon, self.rx = lab.daemon, rx
        self.process = lab.generator(
            tx, rx, tx_number, rx_number, "--rate", MEMIF_PPS, "--seconds", seconds, "--max-late", MAX_LATE, "--ring-size", 1024
        )
        eventually(lambda: lab.daemon.counter(rx, "tx_packets") > 100, lambda: f"packets flow\n{self.process.output()}")

    def finish(self):
        """Waits for the end and returns sent, lost and never sent for want of room in the ring."""
        self.process.wait(120)
        try:
            # An error message may follow the report.
            result, _ = json.JSONDecoder().raw_decode(self.process.output().strip())
        except ValueError:
            return {"memif_error": self.process.output().strip()[-300:]}
        missed, overslept = result.get("missed") or 0, result.get("overslept") or 0
        return {
            "memif_intended": result.get("intended"),
            "memif_lost": result["lost"],
            "memif_missed": max(missed - overslept, 0),
            "memif_tgen_stall_ms": round(result["longest_stall_ns"] / 1e6, 1),
        }

    def close(self):
        """Ends it, if it still runs."""
        self.process.__exit__()


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
            done = run(*REALTIME, tool("quiver"), "--socket", self.daemon.socket, "get", check=False)
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
    return round(values[min(len(values) - 1, max(0, -(-len(values) * percent // 100) - 1).__int__())], 3)
