"""Benchmarking as code: dataplanes are held against each other, honestly, with one command.

* :mod:`~quiver_bench.suites`: what is measured, with CSIT's names.
* :mod:`~quiver_bench.devices`: what it is measured on, each behind one adapter.
* :mod:`~quiver_bench.generators`: what sends and receives.
* :mod:`~quiver_bench.methods`: how a figure comes about: MRR, NDR/PDR, soak, reconfiguration, latency.
* :mod:`~quiver_bench.machine`, :mod:`~quiver_bench.noise`: where it runs, and what disturbed it.
* :mod:`~quiver_bench.results`: documents in CSIT's fields, Parquet, queries.
* :mod:`~quiver_bench.report`: pages and tables for people.
* :mod:`~quiver_bench.commands`: the command line.
"""

__version__ = "0.1.0"
