#!/usr/bin/env bash
# Tests of quiver-bench: mypy, pytest, and its self-test with a tiny real trial. No timing assertion. Needs the release binaries.
# bench.sh [OPTIONS]: pytest's; then all in one go.
set -euo pipefail
cd "$(dirname "$0")/.."
export QUIVER_BENCH_DEV=1

python() { bin/quiver-bench --python "$@"; }
python -m mypy --config-file bench/pyproject.toml bench/quiver_bench
if [ $# -gt 0 ]; then
  python -m pytest -c bench/pyproject.toml bench/tests "$@"
else
  # What starts dataplanes has the machine to itself, one test after the other.
  python -m pytest -c bench/pyproject.toml bench/tests -m "not real" --numprocesses 2
  python -m pytest -c bench/pyproject.toml bench/tests -m real
fi
bin/quiver-bench self-test
