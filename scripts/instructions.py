#!/usr/bin/env python3
"""Counts the instructions that nodes take for a packet, by callgrind, and holds them against scripts/instructions.toml.

scripts/instructions.py [--update] [CASE...]: exit status 1 if a node takes more than it says, or has become so much better
that it should say so. Counts don't depend on the machine (valgrind knows AVX2 and no AVX-512, so it is the tier `avx2` that is
counted) nor on what else it does; they say nothing of time. Where AVX2 is missing, nothing is counted.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = Path(__file__).with_suffix(".toml")
#: How far a count may be off: hashes are keyed at random, and compilers order code differently after changes elsewhere.
TOLERANCE = 0.04
#: By how much it may be better than it says: some of it comes and goes. `ip-input` of IPv6 took eight percent less when other nodes
#: changed, and as much as before after the next change.
BETTER = 0.10

FEATURES = ("quiver-features", "--features", "testing")
#: Package, example, its arguments.
CASES = {
    "memif-60": (("memif",), "rounds", ("60", "400")),
    "memif-74": (("memif",), "rounds", ("74", "400")),
    "memif-1514": (("memif",), "rounds", ("1514", "400")),
    "memif-8996": (("memif",), "rounds", ("8996", "100")),
    "ip4": (FEATURES, "forwarding_clocks", ("1", "100", "avx2", "4")),
    "ip6": (FEATURES, "forwarding_clocks", ("1", "100", "avx2", "6")),
    "ip4-long": (FEATURES, "forwarding_clocks", ("1", "100", "avx2", "4", "1", "long")),
    "ip6-long": (FEATURES, "forwarding_clocks", ("1", "100", "avx2", "6", "1", "long")),
    "ip4-100k": (FEATURES, "forwarding_clocks", ("100000", "400", "avx2", "4")),
    "ip4-100-hops": (FEATURES, "forwarding_clocks", ("1000", "400", "avx2", "4", "100")),
    "ip6-internet": (FEATURES, "forwarding_clocks", ("internet", "1000", "avx2", "6")),
    "bridge": (FEATURES, "bridge_clocks", ("2", "400", "avx2")),
    "bridge-10k": (FEATURES, "bridge_clocks", ("10000", "400", "avx2")),
    "session-udp": (FEATURES, "session_clocks", ("udp", "10000", "400")),
    "session-begin": (FEATURES, "session_clocks", ("begin", "10000", "400")),
    "session-nat": (FEATURES, "session_clocks", ("nat", "10000", "400")),
    "session-tcp": (FEATURES, "session_clocks", ("tcp", "64512", "400")),
}
#: What is counted: its function's name in a profile, and the nodes that are that function. Of services only the sum can be told.
COUNTED = {
    "memif-input": ("rounds::memif_input", ("memif-input",)),
    "memif-tx": ("rounds::memif_tx", ("memif-tx",)),
    "ip-forward": ("<quiver_features::forward::ip_forward::IpForward as", ("ip-forward",)),
    "ethernet-input": ("<quiver_features::ethernet::ethernet_input::EthernetInput as", ("ethernet-input",)),
    "ip-input": ("<quiver_features::ip::input::Input<F> as", ("ip4-input", "ip6-input")),
    "ip-lookup": ("<quiver_features::ip::lookup::Lookup<F> as", ("ip4-lookup", "ip6-lookup")),
    "ip-rewrite": ("<quiver_features::ip::rewrite::Rewrite<F> as", ("ip4-rewrite", "ip6-rewrite")),
    "bridge-input": ("<quiver_features::bridge::bridge_input::BridgeInput as", ("bridge-input",)),
    "ip4-session-input": ("<quiver_features::session::input::Input<F> as", ("ip4-session-input",)),
    "services": ("<quiver_features::session::serving::Serving<S> as", ("l4-lifecycle", "tcp-check", "nat")),
}


def inclusive(profile: str) -> dict[str, int]:
    """Instructions of each function with all that it called, from a profile in callgrind's format."""
    names: dict[str, str] = {}
    costs: dict[str, int] = defaultdict(int)
    function = ""
    for line in profile.splitlines():
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            if match[3]:
                names[match[2]] = match[3]
            if not match[1]:
                function = match[2]
        elif function and (match := re.match(r"[+\-*\d]\S* (\d+)$", line)):
            costs[function] += int(match[1])
    return {names[number]: cost for number, cost in costs.items()}


def count(case: str) -> dict[str, float]:
    """Instructions per packet of each node of a case."""
    _, example, arguments = CASES[case]
    program = ROOT / "target/release/examples" / example
    with tempfile.NamedTemporaryFile(suffix=".callgrind") as file:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={file.name}", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{case}: {done.stdout}{done.stderr}")
        costs = inclusive(Path(file.name).read_text())
    told = next(line for line in done.stdout.splitlines() if line.startswith("packets:"))
    packets = {name: int(number) for name, number in re.findall(r"(\S+) (\d+)", told)}
    counted = {}
    for label, (function, nodes) in COUNTED.items():
        through = max((packets.get(node, 0) for node in nodes), default=0)
        cost = sum(cost for name, cost in costs.items() if name.startswith(function))
        if through and not cost:
            sys.exit(f"{case}: {function} isn't in the profile: has {label} another name now?")
        if through:
            counted[label] = cost / through
    return counted


def build(cases: list[str]) -> None:
    """Compiles the programs of these cases."""
    for package in dict.fromkeys(CASES[case][0] for case in cases):
        examples = dict.fromkeys(CASES[case][1] for case in cases if CASES[case][0] == package)
        words = [word for example in examples for word in ("--example", example)]
        subprocess.run(
            [os.environ.get("CARGO", "cargo"), "build", "--locked", "--release", "-p", *package, *words],
            cwd=ROOT,
            check=True,
        )


def main() -> int:
    """Counts, compares, tells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", nargs="*", help=f"of {', '.join(CASES)}; all of them by default")
    parser.add_argument("--update", action="store_true", help=f"write what was counted to {BUDGETS.name}")
    options = parser.parse_args()
    if unknown := [case for case in options.case if case not in CASES]:
        parser.error(f"there is no case {unknown[0]}: {', '.join(CASES)}")
    if " avx2 " not in Path("/proc/cpuinfo").read_text():
        print("instructions: left out: this processor has no AVX2", file=sys.stderr)
        return 0
    cases = options.case or list(CASES)
    build(cases)
    budgets = tomllib.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    wrong = []
    # Counts don't care for what else runs: as many at a time as there are cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = list(pool.map(count, cases))
    for case, counted in zip(cases, counts, strict=True):
        allowed = budgets.get(case, {})
        for node, instructions in counted.items():
            budget = allowed.get(node)
            print(f"{case:15} {node:18} {instructions:8.1f} instructions a packet" + (f" of {budget}" if budget else ""))
            if budget is None or not -BETTER <= instructions / budget - 1 <= TOLERANCE:
                wrong.append(f"{case}: {node} takes {instructions:.1f} instructions a packet, {BUDGETS.name} says {budget}")
        wrong += [f"{case}: {node} isn't passed any more" for node in allowed.keys() - counted.keys()]
        budgets[case] = {node: round(instructions, 1) for node, instructions in counted.items()}
    if options.update:
        lines = ["# Instructions a packet, tier avx2, counted by scripts/instructions.py --update."]
        for case in CASES:
            lines += ["", f"[{case}]", *(f"{node} = {number}" for node, number in budgets.get(case, {}).items())]
        BUDGETS.write_text("\n".join(lines) + "\n")
        return 0
    for line in wrong:
        print(f"instructions: {line}", file=sys.stderr)
    if wrong:
        print("instructions: if that is meant: scripts/instructions.py --update", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
