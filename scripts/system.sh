#!/usr/bin/env bash
# Whole-system tests against the release binaries. They need root for network namespaces.
# system.sh [FILE...] [OPTIONS]: all of them, or those of some files; options are pytest's.
# All of them take turns by file in four processes: most of their time they wait. Names, sockets and namespaces are each process's own.
# Floods at full rate (marked `alone`) come behind them, one by one.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ]; then
  echo "system tests need root for network namespaces: sudo make system" >&2
  exit 1
fi
for word in "$@"; do
  [ ! -e "${word%%::*}" ] || exec /usr/bin/python3 -m pytest -q "$@"
done
/usr/bin/python3 -m pytest -q --numprocesses 4 --dist loadfile -m 'not alone' tests/system "$@"
exec /usr/bin/python3 -m pytest -q -m alone tests/system "$@"
