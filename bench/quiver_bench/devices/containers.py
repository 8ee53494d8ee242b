"""Containers that packets pass through besides the device, one after the other (CSIT's NFV density).

Each is a ``dpdk-testpmd`` with two memif clients (servers, where the device connects to them) that hands packets on unchanged, in
network, IPC and host name namespaces of its own where we may make them. In a **chain** packets come back to the device after every
container; in a **pipeline** they go straight from one container to the next, and the device sees them first and last only.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from quiver_bench.devices.base import Device
from quiver_bench.errors import Missing
from quiver_bench.suites.model import Case

CHAIN, PIPELINE = "chain", "pipeline"

#: Megabytes and packet buffers of a container.
MEMORY_MB, BUFFERS = 128, 8192


def legs(case: Case) -> list[tuple[str, str]]:
    """Pairs of the device's ports between which it forwards, from left to right."""
    count = case.containers
    if not count:
        return [("left", "right")]
    if case.layout == PIPELINE:
        return [("left", "c1a"), (f"c{count}b", "right")]
    between = [(f"c{n}b", f"c{n + 1}a") for n in range(1, count)]
    return [("left", "c1a"), *between, (f"c{count}b", "right")]


def sockets(case: Case, listening: bool = False) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """For each container its left and right end: role and socket. ``listening`` are its ends towards the device."""
    count = case.containers
    outer = "server" if listening else "client"
    ends = []
    for n in range(1, count + 1):
        first, last = n == 1 or case.layout == CHAIN, n == count or case.layout == CHAIN
        left = (outer, f"c{n}a") if first else ("client", f"p{n - 1}")
        right = (outer, f"c{n}b") if last else ("server", f"p{n}")
        ends.append((left, right))
    return ends


def require() -> None:
    """Raises :class:`Missing` where what runs in them isn't there."""
    if not shutil.which("dpdk-testpmd"):
        raise Missing("containers run dpdk-testpmd, which is missing: apt-get install dpdk-dev")


def start(device: Device, listening: bool = False) -> None:
    """Starts the suite's containers beside a device whose sockets are there, or that comes to theirs; they end with it."""
    own = ["unshare", "--net", "--ipc", "--uts"] if os.geteuid() == 0 else []
    for number, (ends, core) in enumerate(
        zip(sockets(device.suite.case, listening), device.setup.cores.containers, strict=True), start=1
    ):
        vdevs = [
            f"--vdev=net_memif{n},role={role},id=0,socket={device.dir}/{socket},socket-abstract=no"
            for n, (role, socket) in enumerate(ends)
        ]
        log = f"container{number}"
        device.start(
            *own,
            *("dpdk-testpmd", f"--lcores=0@{core},1@{core}", "--no-pci", "--no-huge", "-m", MEMORY_MB, "--no-shconf"),
            *("--file-prefix", f"{device.dir.name}-{number}", *vdevs, "--", "--forward-mode=io", "--auto-start"),
            *("--total-num-mbufs", BUFFERS, "--stats-period", "3600"),
            log=log,
            helper=True,
        )
        for role, socket in ends:
            if role == "server":  # the next container asks for it once
                device.wait_for(f"memif socket of container {number}", (device.dir / socket).exists)
        device.wait_for(f"container {number}", partial(_forwards, device.dir / log))


def _forwards(log: Path) -> bool:
    return "packet forwarding" in log.read_text(errors="replace")
