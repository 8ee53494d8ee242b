"""Suites as code, with CSIT's names, tags, frame sizes and areas.

* :mod:`~quiver_bench.suites.model`: what a suite is, and its name.
* :mod:`~quiver_bench.suites.catalogue`: all of them.
* :mod:`~quiver_bench.suites.traffic`: the packets of a suite.
"""

from quiver_bench.suites.catalogue import CASES, find, nearest, suites
from quiver_bench.suites.model import METHODS, Case, Suite
from quiver_bench.suites.traffic import Traffic

__all__ = ["CASES", "METHODS", "Case", "Suite", "Traffic", "find", "nearest", "suites"]
