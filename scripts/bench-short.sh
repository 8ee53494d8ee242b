#!/usr/bin/env bash
# The short set: what docs/performance.md is made of, at most ten minutes. Results go to bench/results unless RESULTS says otherwise.
# What can't be measured here (a peer that isn't installed, no root) is left out and said so.
set -uo pipefail
cd "$(dirname "$0")/.."
results=${RESULTS:-bench/results}
pairs=${PAIRS:-7}
status=0

# Where the host moves cores about, pairs are made again and again: each comparison has its share of the ten minutes.
within=${WITHIN:-40}
# And so has each of the two searches; one that isn't done by then has failed.
search=${SEARCH:-40}

alone() {  # COMMAND WORDS…
  local ended=0
  bin/quiver-bench "$@" --results "$results" || ended=$?
  # Who ends itself on Ctrl-C, with 130, doesn't end the script that runs it.
  [ "$ended" -ne 130 ] || exit 130
  [ "$ended" -eq 0 ] || status=$ended
}

against() {  # SUITE A B
  alone compare --suite "$1" --a "$2" --b "$3" --pairs "$pairs" --seconds 0.5 --within "$within"
}

# Whether a peer's program is there; what isn't installed is no failure.
installed() {  # PROGRAM
  command -v "$1" >/dev/null || { echo "bench: left out: $1 isn't installed" >&2; return 1; }
}

[ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)" != 1 ] ||
  echo "bench: better after sysctl kernel.sched_autogroup_enabled=0 (docs/benchmarking.md)" >&2
if installed dpdk-testpmd; then
  for suite in 64b-1c-memif-ethip4-ip4base 64b-1c-memif-eth-l2xcbase 64b-1c-memif-eth-l2bdbasemaclrn 1518b-1c-memif-ethip4-ip4base; do
    against "$suite-mrr" quiver testpmd
  done
  against 64b-1c-memif-ethip4-ip4base-mrr quiver l3fwd
fi
for suite in 64b-1c-memif-ethip4-ip4base 78b-1c-memif-ethip6-ip6base 64b-1c-memif-ethip4-ip4scale20k-rnd; do
  against "$suite-mrr" quiver floor
done
if [ "$(id -u)" -eq 0 ]; then
  against 64b-1c-tap-ethip4-ip4base-mrr quiver kernel
  if installed iperf3; then
    against 128kb-1c-tap-ethip4-ip4base-2tap-gso-iperf3-mrr quiver kernel
  fi
else
  echo "bench: left out: tap suites need root" >&2
fi
alone search 64b-1c-memif-ethip4-ip4base-ndrpdr --seconds 0.3 --duration-sum 1.5 --search-seconds "$search"
alone run 64b-1c-memif-ethip4-ip4base-reconf --seconds 0.3 --duration-sum 1.5 --search-seconds "$search"
alone soak 64b-1c-memif-ethip4-ip4base-soak --soak-seconds 60
alone run --trials 5 --seconds 0.5 64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps 100b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-tput
for library in rust c go; do
  alone run --trials 3 --seconds 0.5 64b-1c-memif-app-receive-mrr 64b-1c-memif-app-send-mrr --device "app-$library"
done
alone report
exit "$status"
