#!/usr/bin/env python3
"""Judges Quiver by Kubernetes' own end-to-end suite: a cluster of two nodes comes up with Quiver and CoreDNS and without kube-proxy, the
specs of sig-network run that FOCUS names, and a list says what became of each. The exit status is 0 if none has failed."""

import argparse
import os
import pathlib
import signal
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "system")]

from testbed import Cluster, dns, suite  # noqa: E402 (found by the line above)

CONFORMANCE = r"\[sig-network\].*\[Conformance\]"


def main():
    """Runs the specs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("focus", nargs="?", default=CONFORMANCE, help="regular expression for names of specs (default: %(default)s)")
    parser.add_argument("--skip", default="", help="regular expression for those that are left out")
    parser.add_argument("--procs", type=int, default=2, help="how many run side by side (default: %(default)s)")
    parser.add_argument("--reports", default="", help="where the suite's reports and the nodes' logs are left (default: nowhere)")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("nodes are namespaces, and need root: sudo make e2e")
    # Whoever ends this means the nodes, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="qk-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        reports = pathlib.Path(arguments.reports or f"{directory}/reports")
        reports.mkdir(parents=True, exist_ok=True)
        cluster = Cluster(directory, suite.pack)
        try:
            cluster.start()
            dns.install(cluster.control)
            specs = suite.judge(cluster, reports, arguments.focus, arguments.skip, arguments.procs)
            (reports / "nodes.log").write_text(cluster.logs())
        finally:
            cluster.stop()
    failed = [spec for spec in specs if spec.failure]
    for spec in specs:
        print(f"{'FAILED' if spec.failure else 'passed'} {spec.seconds:6.0f} s  {spec.name}")
    print(f"{len(specs) - len(failed)} of {len(specs)} specs passed")
    sys.exit(0 if specs and not failed else 1)


if __name__ == "__main__":
    main()
