"""The command line: one module per group of commands.

* :mod:`~quiver_bench.commands.main`: the parser and the exit status.
* :mod:`~quiver_bench.commands.measure`: run, search, soak.
* :mod:`~quiver_bench.commands.compare`: A against B.
* :mod:`~quiver_bench.commands.views`: list, trend, report, dash, export.
"""
