"""Results: documents in CSIT's fields, kept as JSON and Parquet, queried with DuckDB.

* :mod:`~quiver_bench.results.documents`: how a document comes about.
* :mod:`~quiver_bench.results.store`: where they are kept; nothing is overwritten.
* :mod:`~quiver_bench.results.query`: what is asked of them.
"""
