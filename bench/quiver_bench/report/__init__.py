"""Pages and tables for people.

* :mod:`~quiver_bench.report.figures`: Plotly figures, for both kinds of page.
* :mod:`~quiver_bench.report.html`: static pages.
* :mod:`~quiver_bench.report.dashboard`: the Dash app.
* :mod:`~quiver_bench.report.markdown`: ``docs/performance.md``.
* :mod:`~quiver_bench.report.tables`: rows, CSV.
"""
