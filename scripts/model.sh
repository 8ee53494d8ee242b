#!/usr/bin/env bash
# Model checks with loom: every interleaving of ring cursor, sleepers of one queue and table publication within the models' bounds.
set -euo pipefail
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom LOOM_MAX_PREEMPTIONS=3
cargo test --locked --release -p quiver-graph --lib loom
cargo test --locked --release -p memif --lib model
cargo test --locked --release -p quiver-memif-c --lib model
cargo test --locked --release -p quiver-tables --lib loom_
