"""Runs one attack by hand and prints what the canaries show, as a line of JSON.

cd tests/system && python3 -m lab.attack B --intensity 1000 --seconds 10 --binaries /path/to/binaries
"""

import argparse
import json
import os

from .attack_world import attack_world
from .attackers import ATTACKS


def main():
    """The command line."""
    parser = argparse.ArgumentParser(prog="lab.attack", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attack", choices=ATTACKS)
    parser.add_argument("--intensity", type=int, help="sockets, descriptors, layers, packets: see lab/attackers.py")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--binaries", help="directory of quiverd, quiver and quiver-tgen; default: target/release")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="another parameter of the attack")
    parser.add_argument("--log", action="store_true", help="print quiverd's log to standard error")
    arguments = parser.parse_args()
    if arguments.binaries:
        os.environ["QUIVER_BIN"] = arguments.binaries
    options = {name: int(value) if value.isdigit() else value for name, value in (pair.split("=", 1) for pair in arguments.option)}
    if arguments.intensity is not None:
        options["intensity"] = arguments.intensity
    with attack_world() as world:
        figures = world.measure(ATTACKS[arguments.attack](world, **options), arguments.seconds)
        if arguments.log:
            os.write(2, world.daemon.log().encode())
    print(json.dumps({"attack": arguments.attack, **options, "seconds": arguments.seconds, **figures}))


if __name__ == "__main__":
    main()
