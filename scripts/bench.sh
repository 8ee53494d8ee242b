#!/usr/bin/env bash
# Tests of quiver-bench: mypy, pytest, and its self-test with a tiny real trial. No timing assertion. Needs the release binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
export QUIVER_BENCH_DEV=1

python() { bin/quiver-bench --python "$@"; }
python -m mypy --config-file bench/pyproject.toml bench/quiver_bench
python -m pytest -c bench/pyproject.toml bench/tests "$@"
bin/quiver-bench self-test
