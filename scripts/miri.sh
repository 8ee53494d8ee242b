#!/usr/bin/env bash
# Miri over the code that is unsafe and needs no kernel: each access to memory, checked for undefined behaviour, where other tests see
# bytes only. Crate memory: regions, ranges, packet slots, vectors, the scalar tier. Crate memif: descriptor walks of both roles, cursor,
# pools, layout, messages. Not under Miri, which has none of it: memfds and SIGBUS (regions are on the heap), readiness of eventfds,
# sockets, other tiers than scalar. Crates tables and wire forbid unsafe code. A few minutes, most of them compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
  echo "miri: no nightly compiler with Miri here: installing one (a download)" >&2
  rustup toolchain install nightly --profile minimal --component miri,rust-src || {
    echo "miri: can't be had: this takes a nightly compiler with the components miri and rust-src, which rustup could not install" >&2
    exit 3
  }
fi
# Eventfds and the clock are the host's; Miri's randomness is fixed, so that a failure comes again. Proptest keeps its failures in files.
export MIRIFLAGS="-Zmiri-disable-isolation" CARGO_TARGET_DIR=target/miri PROPTEST_CASES=4 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1
# One after the other: each test is told when it is done.
miri() { cargo +nightly miri test --locked --lib "$@" --test-threads=1; }
miri -p quiver-memory --
miri -p memif -- ring::tests ring::cursor ring::descriptor ring::size layout:: control::
