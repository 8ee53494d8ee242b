#!/usr/bin/env bash
# Miri over the rings: every access of the descriptor walks, cursor and pool, checked for undefined behaviour. Installs a nightly
# compiler with Miri where there is none. Takes minutes, so that it isn't part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
rustup component list --toolchain nightly 2>/dev/null | grep -q '^miri.*(installed)' ||
  rustup toolchain install nightly --profile minimal --component miri,rust-src
# Eventfds are the host's; Miri's randomness is fixed, so that a failure comes again. Proptest keeps its failures in files.
export MIRIFLAGS="-Zmiri-disable-isolation" CARGO_TARGET_DIR=target/miri PROPTEST_CASES=4 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
cargo +nightly miri test --locked -p memif --lib ring::tests ring::cursor ring::descriptor ring::size
