#!/usr/bin/env bash
# Builds programs that send everything back, for crates/memif/tests/peers.rs, and prints their paths, separated by colons:
# reflectors.sh PREFIX, where libquiver-memif is installed. Others only where the environment says where they are:
# QUIVER_LIBMEMIF, a directory with libmemif.h and libmemif.so; QUIVER_GOMEMIF, GoVPP's directory extras/gomemif.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$1
out=${CARGO_TARGET_DIR:-$PWD/target}/reflectors
programs=$PWD/tests/libraries/programs
mkdir -p "$out"
found=()

words=$(PKG_CONFIG_PATH="$prefix/lib/pkgconfig" pkg-config --cflags --libs quiver-memif-compat)
# shellcheck disable=SC2086 # words on purpose
cc -std=gnu11 -Wall -Wextra -O2 "$programs/reflect.c" -o "$out/quiver-compat" $words -Wl,-rpath,"$prefix/lib"
found+=("$out/quiver-compat")
if [ -n "${QUIVER_LIBMEMIF:-}" ]; then
  cc -std=gnu11 -O2 -I"$QUIVER_LIBMEMIF" "$programs/reflect.c" -o "$out/libmemif" -L"$QUIVER_LIBMEMIF" -lmemif -Wl,-rpath,"$QUIVER_LIBMEMIF"
  found+=("$out/libmemif")
fi
if [ -n "${QUIVER_GOMEMIF:-}" ]; then
  module=$(mktemp -d)
  trap 'rm -rf "$module"' EXIT
  cp -r "$QUIVER_GOMEMIF/memif" "$programs/gomemif" "$module"
  printf 'module go.fd.io/govpp/extras/gomemif\n\ngo 1.22\n' >"$module/go.mod"
  (cd "$module" && go build -o "$out/gomemif" ./gomemif)
  found+=("$out/gomemif")
fi
(IFS=:; echo "${found[*]}")
