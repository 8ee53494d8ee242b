#!/usr/bin/env bash
# The short set: what docs/performance.md is made of, at most ten minutes. Results go to bench/results unless RESULTS says otherwise.
# What can't be measured here (a peer that isn't installed, no root) is left out and said so.
set -uo pipefail
cd "$(dirname "$0")/.."
results=${RESULTS:-bench/results}
pairs=${PAIRS:-7}
status=0

# Where the host moves cores about, pairs are made again and again: each comparison has its share of the ten minutes.
within=${WITHIN:-75}

against() {  # SUITE A B
  bin/quiver-bench compare --suite "$1" --a "$2" --b "$3" --pairs "$pairs" --within "$within" --results "$results" || status=$?
}

[ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)" != 1 ] ||
  echo "bench: better after sysctl kernel.sched_autogroup_enabled=0 (docs/benchmarking.md)" >&2
against 64b-1c-memif-ethip4-ip4base-mrr quiver testpmd
against 64b-1c-memif-eth-l2xcbase-mrr quiver testpmd
against 1518b-1c-memif-ethip4-ip4base-mrr quiver testpmd
against 64b-1c-memif-ethip4-ip4base-mrr quiver floor
if [ "$(id -u)" -eq 0 ]; then
  against 128kb-1c-tap-ethip4-ip4base-2tap-gso-iperf3-mrr quiver kernel
fi
bin/quiver-bench run --trials 5 --results "$results" 64b-1c-memif-ethip4-ip4scale20k-rnd-mrr 64b-1c-memif-ethip4-ip4scale200k-rnd-mrr \
  64b-1c-memif-eth-l2bdbasemaclrn-mrr 64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps || status=$?
for library in rust c go; do
  bin/quiver-bench run --trials 5 --results "$results" 64b-1c-memif-app-receive-mrr 64b-1c-memif-app-send-mrr --device "app-$library" || status=$?
done
bin/quiver-bench report --results "$results" || status=$?
exit "$status"
