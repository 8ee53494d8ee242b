#!/usr/bin/env python3
"""Judges Quiver by the suite of the API of administrators' policies (sigs.k8s.io/network-policy-api): a cluster of two nodes comes up with
Quiver, and the tests run whose names FOCUS fits. The exit status is 0 if none has failed."""

import argparse
import os
import pathlib
import signal
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "system")]

from testbed import Cluster, suite  # noqa: E402 (found by the line above)


def main():
    """Runs the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("focus", nargs="?", default="", help="regular expression for names of tests (default: all)")
    parser.add_argument("--logs", default="", help="file for the nodes' logs (default: nowhere)")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("nodes are namespaces, and need root: sudo scripts/cluster.sh conformance")
    # Whoever ends this means the nodes, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="qk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        cluster = Cluster(directory, suite.pack_administrators)
        try:
            cluster.start()
            passed = suite.judge_administrators(cluster, arguments.focus)
            if arguments.logs:
                pathlib.Path(arguments.logs).write_text(cluster.logs())
        finally:
            cluster.stop()
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
