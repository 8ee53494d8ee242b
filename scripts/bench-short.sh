#!/usr/bin/env bash
# The short set: what docs/performance.md is made of, at most ten minutes (WITHIN_ALL: other seconds), however often trials must be made
# again. Results go to bench/results unless RESULTS says otherwise. What can't be measured here (a peer that isn't installed, no root),
# and what there is no time for any more, is left out and said so.
set -uo pipefail
cd "$(dirname "$0")/.."
results=${RESULTS:-bench/results}
pairs=${PAIRS:-7}
status=0

# Where the host moves cores about, pairs are made again and again: each comparison has its share of the ten minutes.
within=${WITHIN:-40}
# And so has each of the two searches; one that isn't done by then has failed.
search=${SEARCH:-40}

# All of it has this many seconds, of which the last are for the report, and for whoever is stopped to take down what it brought up.
all=${WITHIN_ALL:-600}
last=50
left_out=0

left() { echo $((all - SECONDS - last)); }

alone() {  # LEAST COMMAND WORDS…: in no less than that many seconds
  local ended=0 least=$1
  shift
  if [ "$(left)" -lt "$least" ]; then
    echo "bench: left out, there is no time for it: $*" >&2
    left_out=$((left_out + 1))
    return
  fi
  bin/quiver-bench "$@" --results "$results" --stop-after "$(left)" || ended=$?
  if [ "$ended" -eq 130 ]; then
    # Who ends itself on Ctrl-C doesn't end the script that runs it.
    [ "$(left)" -le 0 ] || exit 130
    echo "bench: cut short, its time was over: $*" >&2
    left_out=$((left_out + 1))
  elif [ "$ended" -ne 0 ]; then
    status=$ended
  fi
}

against() {  # SUITE A B
  alone 30 compare --suite "$1" --a "$2" --b "$3" --pairs "$pairs" --seconds 0.5 --within "$within"
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
alone 15 run --trials 5 --seconds 0.5 64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps 100b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-tput
for library in rust c go; do
  alone 10 run --trials 3 --seconds 0.5 64b-1c-memif-app-receive-mrr 64b-1c-memif-app-send-mrr --device "app-$library"
done
# What takes longest comes last: where time is short, the fewest parts are left out.
alone 30 search 64b-1c-memif-ethip4-ip4base-ndrpdr --seconds 0.3 --duration-sum 1.5 --search-seconds "$search"
alone 30 run 64b-1c-memif-ethip4-ip4base-reconf --seconds 0.3 --duration-sum 1.5 --search-seconds "$search"
alone 75 soak 64b-1c-memif-ethip4-ip4base-soak --soak-seconds 60
bin/quiver-bench report --results "$results" || status=$?
[ "$left_out" -eq 0 ] || echo "bench: $left_out of its parts were left out or cut short: $all s are over; WITHIN_ALL gives it more" >&2
exit "$status"
