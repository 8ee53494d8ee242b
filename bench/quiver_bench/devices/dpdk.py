"""DPDK: testpmd, and l3fwd where its sources are, as memif servers (Debian packages ``dpdk-dev``, ``dpdk-doc``)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from quiver_bench.devices.base import Device, Setup, call
from quiver_bench.errors import Missing, Unsupported
from quiver_bench.machine import core_list, huge_pages_free
from quiver_bench.suites import Suite, traffic

#: Huge pages of 2 MiB that one of them takes.
HUGE_PAGES = 256

#: Where dpdk-doc puts l3fwd's sources.
L3FWD_SOURCES = Path("/usr/share/dpdk/examples")


class Dpdk(Device):
    """What testpmd and l3fwd have in common."""

    dut_type = "dpdk"

    @classmethod
    def require(cls, suite: Suite) -> None:
        """Frames of 9000 bytes: its driver checks for room once a frame, and these take more slots than it then finds."""
        super().require(suite)
        if suite.frame == "9000b":
            raise Unsupported(
                f"{cls.name} writes past the ring's free slots with frames of so many buffers: {suite.name}"
            )

    def eal(self, cores: str, main: int) -> list[str]:
        """Arguments of the environment abstraction layer: two memif servers, memory of its own."""
        huge = huge_pages_free() >= HUGE_PAGES
        self.remarks = (
            [] if huge else [f"fewer than {HUGE_PAGES} huge pages of 2 MiB were free: its memory lay on pages of 4 KiB"]
        )
        # The two ways of leaving nothing behind exclude each other.
        memory = ["--in-memory"] if huge else ["--no-huge", "-m", "1024", "--no-shconf"]
        vdevs = [
            f"--vdev=net_memif{n},role=server,id=0,socket={self.dir}/{side},socket-abstract=no,mac={mac}"
            for n, side, mac in (
                (0, "left", traffic.DEVICE_LEFT_MAC),
                (1, "right", traffic.DEVICE_RIGHT_MAC),
            )
        ]
        return [
            *("-l", cores, "--main-lcore", str(main), "--no-pci", *memory),
            *("--file-prefix", self.dir.name, *vdevs),
        ]

    def version(self) -> str:
        """As ``dpkg`` knows it; without Debian, as its environment abstraction layer says."""
        with contextlib.suppress(FileNotFoundError):
            asked = ["dpkg-query", "-W", "-f=${Version}", "dpdk-dev"]
            shown = subprocess.run(asked, capture_output=True, text=True, check=False)
            if shown.returncode == 0 and shown.stdout:  # a package that is known and not installed has none
                return shown.stdout
        out = subprocess.run(["dpdk-testpmd", "-v"], input="", capture_output=True, text=True, check=False)
        match = re.search(r"DPDK ([\d.]+)", out.stdout + out.stderr)
        return match[1] if match else "unknown"


class Testpmd(Dpdk):
    """testpmd, io forwarding: hands packets on without looking at them."""

    name = "dpdk-testpmd"
    forwards = frozenset({"l2xc", "l2bd", "ip4", "ip6"})
    note = "io forwarding: no tables, no IP, copies twice"
    mode = "io"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        if not shutil.which("dpdk-testpmd"):
            raise Missing("dpdk-testpmd is missing: apt-get install dpdk-dev")

    def up(self) -> None:
        """Starts it."""
        cores = self.setup.cores
        queues = len(cores.workers)
        self.start(
            "dpdk-testpmd",
            *self.eal(core_list((cores.generator, *cores.workers)), cores.generator),
            *("--", f"--forward-mode={self.mode}", "--auto-start", "--stats-period", "3600"),
            *("--nb-cores", queues, "--rxq", queues, "--txq", queues),
        )
        self.wait_for("memif socket", (self.dir / "right").exists)
        self.wait_for("forwarding", lambda: "packet forwarding" in self.log())
        time.sleep(0.2)  # its worker starts after the line that says so


class TestpmdMac(Testpmd):
    """testpmd, mac forwarding: writes new addresses into every frame."""

    name = "dpdk-testpmd-mac"
    note = "mac forwarding: rewrites Ethernet addresses, no tables, no IP, copies twice"
    mode = "mac"


class L3fwd(Dpdk):
    """DPDK's l3fwd: longest prefix match, compiled from the sources in Debian's ``dpdk-doc``.

    Debian ships no program. As published it insists on checksum offload, which memif doesn't have: that line is changed.
    """

    name = "dpdk-l3fwd"
    forwards = frozenset({"ip4", "ip6"})
    note = (
        "rewrites Ethernet addresses and TTL; its one line that asks for checksum offload is changed, as memif has none"
    )

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.program = l3fwd_program()

    @classmethod
    def require(cls, suite: Suite) -> None:
        """Its tables hold 1024 rules."""
        super().require(suite)
        if suite.case.routes > 1 or suite.case.table:
            raise Unsupported(f"{cls.name} holds 1024 routes, {suite.name} is about more")
        if suite.cores > 1:
            raise Unsupported(f"{cls.name} needs a send queue per core, which the generator doesn't offer: choose 1c")

    def up(self) -> None:
        """Writes its rules and starts it."""
        for version, ipv6 in ((4, False), (6, True)):
            rules = []
            behind = self.suite.traffic.prefixes if version == 4 else ([], [])
            for port, (side, prefixes) in enumerate(zip(traffic.sides(ipv6), behind, strict=True)):
                network = side.peer.rsplit("." if version == 4 else "::", 1)[0]
                rules.append(f"R{network}.0/24 {port}" if version == 4 else f"R{network}:0:0:0:0:0:0/64 {port}")
                rules += [f"R{prefix} {port}" for prefix in prefixes]
            (self.dir / f"rules{version}").write_text("\n".join(rules) + "\n")
        core = self.setup.cores.worker
        self.start(
            self.program,
            *self.eal(str(core), core),
            *("--", "-p", "3", "-P", "--parse-ptype", "--lookup=lpm"),
            *(f"--rule_ipv4={self.dir}/rules4", f"--rule_ipv6={self.dir}/rules6"),
            *(f"--eth-dest=0,{traffic.PEER_LEFT_MAC}", f"--eth-dest=1,{traffic.PEER_RIGHT_MAC}"),
            f"--config=(0,0,{core}),(1,0,{core})",
        )
        self.wait_for("main loop", lambda: "entering main loop" in self.log())
        self.wait_for("memif socket", (self.dir / "right").exists)


def l3fwd_program() -> Path:
    """l3fwd, compiled at first use. Raises :class:`Missing` without the sources, a compiler, or DPDK's headers."""
    cache = Path(os.environ.get("QUIVER_BENCH_CACHE", Path.home() / ".cache/quiver-bench")) / "l3fwd"
    program = cache / "l3fwd" / "build" / "l3fwd"
    if program.exists():
        return program
    if not (L3FWD_SOURCES / "l3fwd" / "main.c").exists():
        raise Missing(
            "l3fwd's sources are missing (Debian has no program): apt-get install dpdk-doc libdpdk-dev gcc make"
        )
    cache.mkdir(parents=True, exist_ok=True)
    for folder in ("common", "l3fwd"):
        shutil.copytree(L3FWD_SOURCES / folder, cache / folder, dirs_exist_ok=True)
    source = cache / "l3fwd" / "main.c"
    source.write_text(re.sub(r"\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM", ".offloads = 0", source.read_text()))
    call("make", "-C", cache / "l3fwd")
    return program
