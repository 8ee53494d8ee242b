#!/usr/bin/env bash
# Formatting, clippy, unsafe only where it may be, shell and Python syntax. (quiver-bench: scripts/bench.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --locked --workspace --all-targets -- -D warnings
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
python3 -m compileall -q scripts tests bench
