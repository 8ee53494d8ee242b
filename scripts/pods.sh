#!/usr/bin/env bash
# Quiver as the network of pods (kubernetes/): pods.sh [build|lint|unit|chart|system]; without: all, in that order. The last one needs
# root, and quiverd and quiver in target/release. UPDATE_REFERENCE=1 pods.sh chart makes the manifests from the chart.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
what="${1:-all}"

case "$what" in all | build | lint | unit | chart | system) ;; *) echo "usage: $0 [build|lint|unit|chart|system]" >&2; exit 2 ;; esac
does() { [ "$what" = all ] || [ "$what" = "$1" ]; }

cd kubernetes
# Protobuf code is made anew each time (two seconds): it can't be stale.
go generate ./internal/api
if does build || does system; then
  mkdir -p "$target/release"
  CGO_ENABLED=0 go build -trimpath -o "$target/release/" ./cmd/... github.com/containernetworking/cni/cnitool
  (cd ../libraries/go/memif && CGO_ENABLED=0 go build -trimpath -o "$target/release/memif-echo" ./examples/echo)
fi
if does lint; then
  [ -z "$(gofmt -l .)" ] || { gofmt -d .; exit 1; }
  go vet ./...
  go tool staticcheck ./...
fi
if does unit; then
  go test ./...
fi
cd ..
if does chart; then
  (cd deploy/helm && [ -z "$(gofmt -l .)" ] && go vet ./chart && go test ./chart)
fi
if does system; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "tests of pods need root for network namespaces: sudo make pods" >&2
    exit 1
  fi
  # Two processes take turns by file: most of their time they wait. Names and sockets are each process's own.
  /usr/bin/python3 -m pytest -q --numprocesses 2 --dist loadfile tests/pods
fi
