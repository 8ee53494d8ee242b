#!/usr/bin/env bash
# Tests of quiver-bench: ruff, mypy, pytest, and its self-test with a tiny real trial. No timing assertion. Needs the release binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
export QUIVER_BENCH_DEV=1

python() { bin/quiver-bench --python "$@"; }
python -m ruff format --check --quiet bench
python -m ruff check --quiet bench
python -m mypy --config-file bench/pyproject.toml bench/quiver_bench
# What fails is run once more by itself: real devices share the machine's cores.
tests=(-m pytest -c bench/pyproject.toml bench/tests "$@")
python "${tests[@]}" || { status=$?; [ "$status" -eq 1 ] || exit "$status"; python "${tests[@]}" --last-failed; }
bin/quiver-bench self-test
