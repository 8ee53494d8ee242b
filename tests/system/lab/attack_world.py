"""A quiverd with canaries and with pods that attack: the stage of every attack."""

import contextlib
import os
import tempfile
import time

from .canary import MEMIF_PPS, ApiCanary, memif_canary, ping_canary
from .daemon import Daemon
from .laboratory import Laboratory


class AttackWorld:
    """Pods a and b (pinging), memifs m12 and m13 (50 kpps), the attacker's pod "bad" and its correspondent "friend"."""

    bad_address, friend_address, evil_address = "10.66.0.2", "10.67.0.2", "10.68.0.2"
    evil_socket = "@evil"

    def __init__(self, daemon):
        self.daemon = daemon
        self.lab = Laboratory(daemon)
        self.a, self.b, self.bad, self.friend = (self.lab.pod(role) for role in ("a", "b", "bad", "friend"))

    def apply(self):
        """Configures canaries and attackers."""
        lab = self.lab
        self.daemon.apply(
            lab.tap("a", self.a, "10.1.0") + lab.tap("b", self.b, "10.2.0") + lab.memif("m12", 12) + lab.memif("m13", 13)
            + lab.tap("bad", self.bad, "10.66.0") + lab.tap("friend", self.friend, "10.67.0")
            + self.evil()
        )  # fmt: skip
        for pod, address in ((self.a, "10.2.0.2"), (self.friend, self.bad_address), (self.bad, self.friend_address)):
            pod.must_ping(address)
        step_aside(self.daemon)
        return self

    def evil(self):
        """The attacker's memif, which everybody in its pod can connect to."""
        text = self.lab.memif("evil", 68, memif=f', netns = "{self.bad.name}"')
        return text.replace(f"{self.lab.directory}/evil", self.evil_socket)

    def router_mac(self, interface):
        """Ethernet address of Quiver's end of an interface."""
        return self.daemon.interface(interface)["mac"]

    @staticmethod
    def gateway(address):
        """Quiver's address in the network of a pod."""
        return address.rsplit(".", 1)[0] + ".1"

    def longest_round_ms(self):
        """The longest round of a worker since counters were cleared."""
        workers = self.daemon.show("runtime")["workers"]
        return max(worker.get("longest_round_microseconds", 0) for worker in workers) / 1000

    def measure(self, attack, seconds, memif_pps=MEMIF_PPS):
        """Runs an attack (a context manager) beside the canaries; returns what they show."""
        with contextlib.ExitStack() as stack:
            memif = memif_canary(self.lab, "m12", "m13", 12, 13, memif_pps)
            canaries = [ping_canary(self.a, "10.2.0.2"), memif, ApiCanary(self.daemon)]
            for canary in canaries:
                stack.callback(canary.close)
            self.daemon.cli("clear", "counters")
            with attack as told:
                time.sleep(seconds)
            # What is late still comes, and a round that is still going on ends.
            time.sleep(1)
            figures = dict(told) | self._state()
            for canary in canaries:
                figures |= canary.finish()
        figures["alive"] = figures["alive"] and self.daemon.process.alive()
        return figures

    def _state(self):
        done = self.daemon.cli("show", "runtime", check=False) if self.daemon.process.alive() else None
        if done is None or done.returncode != 0:
            return {"alive": self.daemon.process.alive(), "longest_round_ms": None}
        return {"alive": True, "longest_round_ms": self.longest_round_ms()}

    def close(self):
        """Removes all pods."""
        self.lab.close()


def step_aside(daemon):
    """Keeps the threads of quiverd that are no workers off the workers' cores, as quiver-bench does."""
    aside = load_cores()
    for task in os.listdir(f"/proc/{daemon.process.pid}/task"):
        with contextlib.suppress(ProcessLookupError):
            if len(os.sched_getaffinity(int(task))) > 1:
                os.sched_setaffinity(int(task), aside)


def load_cores():
    """All cores but the last, which is the worker's; the only one where there is one."""
    cores = sorted(os.sched_getaffinity(os.getppid()) | os.sched_getaffinity(0))
    return set(cores[:-1] or cores)


@contextlib.contextmanager
def attack_world():
    """A world with a daemon of its own. Everything but the worker runs on the first core."""
    before = os.sched_getaffinity(0)
    cores = ",".join(map(str, sorted(before)))
    with tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp") as directory:
        # For a process of another user, which connects to sockets in it.
        os.chmod(directory, 0o755)
        daemon = Daemon(directory, inside=("taskset", "--cpu-list", cores), workers=1)
        os.sched_setaffinity(0, sorted(before)[:-1] or before)
        world = None
        try:
            daemon.start()
            world = AttackWorld(daemon)
            yield world.apply()
        finally:
            if world:
                world.close()
            daemon.stop()
            os.sched_setaffinity(0, before)
