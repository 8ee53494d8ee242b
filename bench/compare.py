#!/usr/bin/env python3
"""Holds two dataplanes against each other: memif (server) to memif (server), one worker, alternately in one run.

    bench/compare.py quiver testpmd --size 64 --pairs 7

The generator (quiver-tgen) runs on core 0, the dataplane's worker on core 1. Each trial starts the dataplane anew and notes the
round trip of a cache line between the cores before and after. Printed are the medians, and the median of the ratios of
neighbouring trials with its spread; compare only trials of the same placement.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("QUIVER_BIN", ROOT / "target" / "release"))
WORKER, GENERATOR = 1, 0

LAB = """
[[interface]]
name = "left"
mac = "02:00:00:00:00:01"
addresses = ["10.0.0.1/24"]
rx_mode = "polling"
memif = {{ socket = "{dir}/left" }}

[[interface]]
name = "right"
mac = "02:00:00:00:00:03"
addresses = ["10.0.1.1/24"]
rx_mode = "polling"
memif = {{ socket = "{dir}/right" }}

[[neighbor]]
interface = "right"
address = "10.0.1.2"
mac = "02:00:00:00:00:04"
"""

CROSS = """
[[interface]]
name = "left"
rx_mode = "polling"
cross_connect = "right"
memif = {{ socket = "{dir}/left" }}

[[interface]]
name = "right"
rx_mode = "polling"
memif = {{ socket = "{dir}/right" }}
"""


class Device:
    """A dataplane that listens on two memif sockets, `left` and `right`, in a directory."""

    def __init__(self, directory):
        self.dir = directory
        self.process = None

    def start(self, command, **options):
        log = open(self.dir / "log", "w")
        self.process = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log, stdin=subprocess.DEVNULL, **options)

    def wait_for(self, name):
        until = time.monotonic() + 15
        while not (self.dir / name).exists():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{type(self).__name__} did not come up:\n" + (self.dir / "log").read_text()[-2000:])
            time.sleep(0.05)

    def clocks(self):
        return None

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Quiver(Device):
    lab = LAB

    def up(self):
        (self.dir / "quiverd.toml").write_text(
            f'[api]\nsocket = "{self.dir}/api"\n[state]\ndirectory = "{self.dir}/state"\n[metrics]\nlisten = "off"\n'
            f"[workers]\ncores = [{WORKER}]\n"
        )
        self.start([BIN / "quiverd", "--config", self.dir / "quiverd.toml"])
        self.wait_for("api")
        (self.dir / "lab.toml").write_text(self.lab.format(dir=self.dir))
        self.cli("apply", "-f", self.dir / "lab.toml")
        self.wait_for("right")

    def cli(self, *arguments):
        command = [BIN / "quiver", "--socket", self.dir / "api", *arguments]
        return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout

    def clocks(self):
        nodes = json.loads(self.cli("show", "runtime", "-o", "json"))["workers"][0]["nodes"]
        return {n["name"]: round(int(n["clocks"]) / max(1, int(n["packets"])), 1) for n in nodes if int(n["packets"]) > 1000}


class QuiverCross(Quiver):
    lab = CROSS


class Floor(Device):
    def up(self):
        self.start([BIN / "quiver-floor", "--rx", self.dir / "left", "--tx", self.dir / "right", "--core", WORKER])
        self.wait_for("right")


class Testpmd(Device):
    """DPDK's testpmd, io forwarding (Debian package dpdk-dev)."""

    def up(self):
        vdev = lambda n, name: f"--vdev=net_memif{n},role=server,id=0,socket={self.dir}/{name},socket-abstract=no"
        # EAL takes --in-memory for a contradiction to --no-huge.
        memory = ["--in-memory"] if huge_pages_free() >= 256 else ["--no-huge", "-m", "1024"]
        self.start(
            ["dpdk-testpmd", "-l", f"{GENERATOR},{WORKER}", "--main-lcore", GENERATOR, "--no-pci", *memory,
             "--file-prefix", self.dir.name, vdev(0, "left"), vdev(1, "right"),
             "--", "--forward-mode=io", "--auto-start", "--stats-period", "3600"]
        )
        self.wait_for("right")
        time.sleep(1)


DEVICES = {"quiver": Quiver, "quiver-cross": QuiverCross, "floor": Floor, "testpmd": Testpmd}


def placement(round_trip_ns):
    """As quiver-tgen calls it: see crates/tgen/src/placement.rs."""
    return "sibling" if round_trip_ns < 85 else "near" if round_trip_ns < 300 else "far"


def huge_pages_free():
    return int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("HugePages_Free")))


def trial(name, options):
    """One trial: the generator's report, with the dataplane's clocks per packet and node where it tells them."""
    with tempfile.TemporaryDirectory(prefix="quiver-bench-") as directory:
        device = DEVICES[name](pathlib.Path(directory))
        try:
            device.up()
            command = [BIN / "quiver-tgen", "--tx", device.dir / "left", "--rx", device.dir / "right", "--size", options.size,
                       "--seconds", options.seconds, "--core", GENERATOR, "--peer-core", WORKER, "--output", "json"]
            command += ["--full"] if options.full else []
            command += ["--buffer-size", options.buffer_size, "--destinations", options.destinations]
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=options.seconds + 60)
            if done.returncode != 0:
                raise RuntimeError(done.stderr.strip() + "\n" + (device.dir / "log").read_text()[-1000:])
            report = json.loads(done.stdout)
            report["clocks"] = device.clocks()
            return report
        finally:
            if device.process:
                device.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a", choices=DEVICES)
    parser.add_argument("b", choices=DEVICES)
    parser.add_argument("--size", type=int, default=64, help="frame length in bytes, without FCS")
    parser.add_argument("--full", action="store_true", help="the generator writes and reads every byte")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--placement", choices=["sibling", "near", "far"], help="count only pairs of this placement")
    parser.add_argument("--buffer-size", type=int, default=2048)
    parser.add_argument("--destinations", type=int, default=1)
    parser.add_argument("--at-least", type=float, help="exit 1 if the median ratio is lower")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args()
    if "testpmd" in (options.a, options.b) and not shutil.which("dpdk-testpmd"):
        sys.exit("dpdk-testpmd is missing: apt-get install dpdk-dev")
    rates, clocks, pairs, tries = {options.a: [], options.b: []}, {}, [], 0
    # The host moves virtual cores about: a pair counts when both of its trials had the same placement throughout.
    while len(pairs) < options.pairs and tries < 4 * options.pairs:
        tries += 1
        both = []
        for name in (options.a, options.b):
            report = trial(name, options)
            both.append(report)
            before, after = report["round_trip_ns"]
            print(f"pair {tries} {name}: {report['received_pps'] / 1e6:.2f} Mpps, {report['placement']} "
                  f"({before:.0f} ns before, {after:.0f} ns after)", file=sys.stderr)
        seen = {placement(trip) for report in both for trip in report["round_trip_ns"]}
        if len(seen) != 1 or (options.placement and seen != {options.placement}):
            print(f"pair {tries} doesn't count: {', '.join(sorted(seen))}", file=sys.stderr)
            continue
        pairs.append(seen.pop())
        for report, name in zip(both, (options.a, options.b)):
            rates[name].append(report["received_pps"])
            clocks[name] = report["clocks"] or clocks.get(name)
    if not pairs:
        sys.exit("no pair of trials had the same placement throughout: try again")
    ratios = sorted(a / b for a, b in zip(rates[options.a], rates[options.b]))
    result = {
        "a": {"name": options.a, "median_pps": statistics.median(rates[options.a])},
        "b": {"name": options.b, "median_pps": statistics.median(rates[options.b])},
        "ratio": {"median": statistics.median(ratios), "low": ratios[0], "high": ratios[-1]},
        "pairs": len(pairs),
        "size": options.size,
        "placement": sorted(set(pairs)),
        "clocks": {name: c for name, c in clocks.items() if c},
    }
    if options.output == "json":
        print(json.dumps(result, indent=2))
    else:
        for side in ("a", "b"):
            print(f"{result[side]['name']:12} {result[side]['median_pps'] / 1e6:7.2f} Mpps")
        ratio = result["ratio"]
        print(f"ratio        {ratio['median']:7.2f}  ({ratio['low']:.2f} to {ratio['high']:.2f}, {len(pairs)} pairs, {', '.join(result['placement'])})")
        for name, nodes in result["clocks"].items():
            print(f"{name}: clocks per packet: " + ", ".join(f"{node} {c}" for node, c in nodes.items()))
    return 1 if options.at_least and result["ratio"]["median"] < options.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
