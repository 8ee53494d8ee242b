"""Runs attacks by hand and prints what the canaries show, a line of JSON for each.

cd tests/system && python3 -m lab.attack B --intensity 1000 --seconds 10 --binaries /path/to/binaries
cd tests/system && python3 -m lab.attack all --seconds 60
"""

import argparse
import json
import os
import sys

from .attack_world import attack_world
from .attackers import ATTACKS

# What canaries may show at most, on two cores that are shared by all.
BARS = {
    "ping_lost": 0,
    "memif_lost": 0,
    "memif_unsent": 0,
    "fresh_lost": 0,
    "lan_lost": 0,
    "lan_overheard": 0,
    "ping_p99_9_ms": 2,
    "longest_round_ms": 1,
    "get_failed": 0,
    "get_max_ms": 100,
}


def missed_bars(figures):
    """Names of the figures that are above their bar, or of what is worse."""
    missed = [name for name, bar in BARS.items() if (figures.get(name) or 0) > bar]
    if figures["rss_after_mb"] > 1.1 * figures["rss_before_mb"] + 5:
        missed.append("rss_after_mb")
    return missed if figures["alive"] else ["alive", *missed]


def run(attack, options, seconds, log):
    """One attack in a world of its own; its figures."""
    with attack_world() as world:
        figures = world.measure(ATTACKS[attack](world, **options), seconds)
        if log:
            sys.stderr.write(world.daemon.log())
    return figures | {"missed_bars": missed_bars(figures)}


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="lab.attack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", nargs="+", choices=[*ATTACKS, "all"])
    parser.add_argument("--intensity", type=int, help="sockets, descriptors, layers, bytes: see lab/attackers.py")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--binaries", help="directory of quiverd and quiver; default: target/release")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="another parameter of the attack")
    parser.add_argument("--log", action="store_true", help="print quiverd's log to standard error")
    arguments = parser.parse_args()
    if arguments.binaries:
        os.environ["QUIVER_BIN"] = arguments.binaries
    options = {name: int(value) if value.isdigit() else value for name, value in (pair.split("=", 1) for pair in arguments.option)}
    if arguments.intensity is not None:
        options["intensity"] = arguments.intensity
    for attack in ATTACKS if "all" in arguments.attack else arguments.attack:
        figures = run(attack, options, arguments.seconds, arguments.log)
        print(json.dumps({"attack": attack, **options, "seconds": arguments.seconds, **figures}), flush=True)


if __name__ == "__main__":
    main()
