#!/usr/bin/env bash
# Whole-system tests against the release binaries. They need root for network namespaces.
# What fails is run once more by itself: real peers and kernels share the machine's cores, and a test that fails twice is broken.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
  echo "system tests need root for network namespaces: sudo make system" >&2
  exit 1
fi
tests=(/usr/bin/python3 -m pytest -q tests/system "$@")
"${tests[@]}" || { status=$?; [ "$status" -eq 1 ] || exit "$status"; "${tests[@]}" --last-failed; }
