#!/usr/bin/env bash
# Formatting, clippy, aarch64, unsafe only where it may be, documentation of the published crates, shell syntax, ruff (but what
# makes vectors keeps its tables' form). (Types of quiver-bench: scripts/bench.sh)
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo fmt --manifest-path examples/sample-service/Cargo.toml --check
cargo clippy --locked --workspace --all-targets -- -D warnings
cargo clippy --locked -p quiver-features --features testing --examples -- -D warnings
# No part of the workspace: with the versions that the tree is made with, which are here by now.
cp Cargo.lock examples/sample-service/Cargo.lock
cargo clippy --offline --manifest-path examples/sample-service/Cargo.toml --target-dir target --all-targets -- -D warnings
# aarch64, which has the scalar tier: that it compiles. Its standard library is a download, which not every machine can make.
arm=aarch64-unknown-linux-gnu
if [ -d "$(rustc --print sysroot)/lib/rustlib/$arm" ]; then
  cargo check --locked --workspace --target "$arm"
else
  echo "lint: left out: $arm isn't installed (rustup target add $arm)" >&2
fi
# What is published on its own: its documentation, and that it can be packaged.
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps -p quiver-memory -p memif
cargo package --locked --allow-dirty --no-verify --quiet -p quiver-memory -p memif
for script in scripts/*.sh .ci/run; do bash -n "$script"; done
python3 -m compileall -q scripts tests bench
export QUIVER_BENCH_DEV=1
for python in bench tests scripts; do
  bin/quiver-bench --python -m ruff format --check --quiet "$python"
  bin/quiver-bench --python -m ruff check --quiet "$python"
done
bin/quiver-bench --python -m ruff check --quiet crates
