"""iperf3 between two network namespaces: connections of the kernel, with super-frames, as CSIT's GSO suites."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time

from quiver_bench.errors import Missing, TrialVoid, Unsupported
from quiver_bench.generators.base import Endpoint, Generator, Load, TrialOutput
from quiver_bench.machine import Cores, core_list
from quiver_bench.suites.traffic import Traffic

PORT = "5201"


class Iperf3(Generator):
    """TCP connections, writes of 128 KiB, client left, server right."""

    def __init__(self, connections: int = 1) -> None:
        self.connections = connections
        if not shutil.which("iperf3"):
            raise Missing("iperf3 is missing: apt-get install iperf3")

    def version(self) -> str:
        """Name and version."""
        out = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=False).stdout
        match = re.match(r"iperf [\d.]+", out)
        return match[0].replace("iperf", "iperf3") if match else "iperf3"

    def require(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint]) -> None:
        """Both ends must be namespaces with addresses."""
        if any(endpoint.netns is None or endpoint.address is None for endpoint in endpoints):
            raise Unsupported("iperf3 needs a network namespace on either side")

    def measure(self, traffic: Traffic, endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load) -> TrialOutput:
        """See :meth:`~quiver_bench.generators.base.Generator.measure`. A rate can't be asked for."""
        listen, connect = commands(endpoints, cores, load, self.connections)
        server = subprocess.Popen(listen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self._listening(str(endpoints[1].netns), PORT)
            done = subprocess.run(connect, capture_output=True, text=True, timeout=load.seconds + 30, check=False)
            report = json.loads(done.stdout or "{}")
            if done.returncode != 0 or "error" in report:
                raise TrialVoid(f"iperf3: {report.get('error', done.stderr.strip())}", done.stdout[-2000:])
            return output(report)
        except subprocess.TimeoutExpired as error:
            raise TrialVoid("iperf3 did not end in time") from error
        finally:
            if server.poll() is None:
                server.terminate()
            server.wait(5)

    @staticmethod
    def _listening(netns: str, port: str) -> None:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            out = subprocess.run(
                ["ip", "netns", "exec", netns, "ss", "-Hltn", f"sport = :{port}"],
                capture_output=True,
                text=True,
                check=False,
            ).stdout
            if out.strip():
                return
            time.sleep(0.05)
        raise TrialVoid("iperf3's server did not come up")


def whole(seconds: float) -> int:
    """The length of a trial: iperf3 knows whole seconds only."""
    return max(1, round(seconds))


def commands(
    endpoints: tuple[Endpoint, Endpoint], cores: Cores, load: Load, connections: int = 1
) -> tuple[list[str], list[str]]:
    """Server's and client's command line: on the generator's core and those that nobody has, so that no worker shares its own."""
    left, right = endpoints
    pinned = ["taskset", "--cpu-list", core_list(sorted({cores.generator, *cores.aside})), "ip", "netns", "exec"]
    listen = [*pinned, str(right.netns), "iperf3", "--server", "--one-off", "--port", PORT]
    connect = [*pinned, str(left.netns), "iperf3", "--client", str(right.address), "--port", PORT, "--json"]
    connect += ["--time", f"{whole(load.seconds)}", "--length", "128K", "--connect-timeout", "5000"]
    connect += ["--parallel", f"{connections}"]
    return listen, connect


def output(report: dict) -> TrialOutput:
    """A trial's output from its JSON: bits of payload; packets are not known."""
    end = report["end"]["sum_received"]
    return TrialOutput(
        sent=0,
        received=0,
        lost=0,
        seconds=end["seconds"],
        rate_pps=None,
        rate_bps=end["bits_per_second"],
    )
