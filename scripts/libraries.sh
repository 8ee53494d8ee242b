#!/usr/bin/env bash
# The memif libraries for Go and C: libraries.sh [go|c]; both without. Needs what scripts/setup.sh test installs.
set -euo pipefail
cd "$(dirname "$0")/.."
what="${1:-all}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}" QUIVER_REQUIRE_PEERS=1
prefix="$CARGO_TARGET_DIR/memif-prefix"

# Each as others build it, too: dependencies get the features of all that is built together, and are built anew for others.
cargo build --locked --release --bins
cargo build --locked --release -p memif --lib --examples
make -s -C crates/memif-c install PREFIX="$prefix" TARGET="$CARGO_TARGET_DIR"

if [ "$what" != c ]; then
  (
    cd libraries/go/memif
    [ -z "$(gofmt -l .)" ] || { gofmt -d .; exit 1; }
    go vet ./...
    go tool staticcheck ./...
    go test -race -timeout 30m ./...
    for target in FuzzDecode FuzzServerHandshake FuzzClientHandshake FuzzRings; do go test -run '^$' -fuzz "^$target\$" -fuzztime 3s .; done
  )
fi
if [ "$what" != go ]; then
  QUIVER_MEMIF_PREFIX="$prefix" /usr/bin/python3 -m pytest -q tests/libraries
  QUIVER_REFLECTORS=$(scripts/reflectors.sh "$prefix") cargo test --locked --release -p memif --test peers
fi
