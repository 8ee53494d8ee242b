#!/usr/bin/env bash
# What takes too long for each run of the tests: nightly.sh [MINUTES]. Every fuzz target for so many minutes of a processor (10), in
# Rust and Go; every interleaving of the models; Miri; and, as root, system tests with millions of routes, and the Kubernetes cluster: its tests by Helm, plain and with tunnels between nodes, Kubernetes'
# own suite for networks and for policies. With 10, four hours on an idle machine. Goes through all of it and fails at the end if anything did; what fuzzing finds is where `scripts/fuzz.sh` and `go test` say.
set -uo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-10}
failed=()

stage() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  "$@" || failed+=("$name")
  echo "== $name: $(((SECONDS - began) / 60)) minutes"
}

go_fuzz() {
  local target
  for target in FuzzDecode FuzzServerHandshake FuzzClientHandshake FuzzRings; do
    echo "== $target: $minutes minutes"
    (cd libraries/go/memif && go test -run '^$' -fuzz "^$target\$" -fuzztime "${minutes}m" -parallel 1 .) || return 1
  done
}

large_system() {
  cargo build --locked --release --bins && QUIVER_TEST_LARGE=1 scripts/system.sh tests/system/test_routes.py
}

cluster_built() {
  scripts/setup.sh cluster && cargo build --locked --release --bins && scripts/cluster.sh build
}

stage "fuzzing, Rust" scripts/fuzz.sh "$minutes"
stage "fuzzing, Go" go_fuzz
stage "models" scripts/model.sh
stage "Miri" scripts/miri.sh
stage "two million routes" large_system
stage "a cluster's programs" cluster_built
stage "a cluster" scripts/cluster.sh
stage "a cluster with tunnels and containerd 2" env QUIVER_OVERLAY=vxlan QUIVER_CONTAINERD=2 scripts/cluster.sh
stage "conformance of the network" scripts/cluster.sh e2e
stage "the suite's NetworkPolicies" scripts/cluster.sh e2e Netpol --skip SCTPConnectivity
stage "conformance of administrators' policies" scripts/cluster.sh conformance
[ ${#failed[@]} = 0 ] || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }
