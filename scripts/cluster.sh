#!/usr/bin/env bash
# Quiver as the network of a real Kubernetes cluster of two nodes on this machine: builds what is needed, and tests. cluster.sh
# [build]: builds only; e2e [FOCUS] [OPTION…]: Kubernetes' own end-to-end suite, of which FOCUS names specs (tests/cluster/e2e.py);
# conformance [FOCUS] [OPTION…]: that of the API of administrators' policies (tests/cluster/conformance.py); otherwise files, all
# without any, and options, which are pytest's. Needs root, and quiverd and quiver in target/release.
set -euo pipefail
cd "$(dirname "$0")/.."
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"

if [ "$(id -u)" -ne 0 ]; then
  echo "a cluster needs root for its nodes' namespaces: sudo make cluster" >&2
  exit 1
fi
scripts/setup.sh cluster
scripts/pods.sh build

# All of Kubernetes in one program: the first time eight minutes of a processor, then seconds.
version="$(sed -n 's|^\tk8s.io/kubernetes \(v[0-9.]*\)$|\1|p' tests/cluster/k8sbox/go.mod)"
minor="${version#v1.}"
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
done
mkdir -p "$target/cluster"
(cd tests/cluster/k8sbox && CGO_ENABLED=0 nice go build -trimpath -ldflags "$flags" -o "$target/cluster/k8sbox" .)

# The API of administrators' policies, with fields of its experimental channel: nodes as peers.
api="$(cd tests/cluster/conformance && go mod download sigs.k8s.io/network-policy-api && go list -m -f '{{.Dir}}' sigs.k8s.io/network-policy-api)"
cp --no-preserve=mode "$api/config/crd/experimental/policy.networking.k8s.io_clusternetworkpolicies.yaml" "$target/cluster/clusternetworkpolicies.yaml"

# Names of the cluster: the suite's, and those of a few tests.
(cd tests/cluster/coredns && CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$target/cluster/coredns" .)

# The runtime is Debian's, unless QUIVER_CONTAINERD is 2: it asks CNI plugins more.
if [ "${QUIVER_CONTAINERD:-1}" = 2 ]; then
  mkdir -p "$target/cluster/containerd"
  (cd tests/cluster/containerd && mapfile -t tools < <(go list -f '{{.ImportPath}}' tool) && CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -tags no_btrfs -o "$target/cluster/containerd/" "${tools[@]}")
fi

if [ "${1:-}" = e2e ]; then
  shift
  (
    cd tests/cluster/k8sbox
    # (To vet it all of Kubernetes would be read once more.)
    CGO_ENABLED=0 nice go test -c -vet=off -trimpath -ldflags "$flags" -o "$target/cluster/e2e.test" ./e2e
    for program in k8s.io/kubernetes/test/images/agnhost github.com/onsi/ginkgo/v2/ginkgo; do
      CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$target/cluster/" "$program"
    done
    # agnhost serves HTTPS with these.
    cp --no-preserve=mode "$(go list -f '{{.Dir}}' k8s.io/kubernetes/test/images/agnhost/porter)"/localhost.{crt,key} "$target/cluster/"
  )
  exec /usr/bin/python3 tests/cluster/e2e.py "$@"
fi
if [ "${1:-}" = conformance ]; then
  shift
  (cd tests/cluster/k8sbox && CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$target/cluster/" k8s.io/kubernetes/test/images/agnhost)
  (cd tests/cluster/conformance && CGO_ENABLED=0 nice go test -c -vet=off -trimpath -ldflags "-s -w" -o "$target/cluster/conformance.test" .)
  exec /usr/bin/python3 tests/cluster/conformance.py "$@"
fi
# Tests install Quiver by the chart, unless QUIVER_INSTALL is "manifest".
(cd deploy/helm && CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$target/cluster/" helm.sh/helm/v4/cmd/helm)
[ "${1:-}" != build ] || exit 0
export QUIVER_INSTALL="${QUIVER_INSTALL:-chart}"
for word in "$@"; do
  [ ! -e "${word%%::*}" ] || exec /usr/bin/python3 -m pytest -q "$@"
done
exec /usr/bin/python3 -m pytest -q tests/cluster "$@"
