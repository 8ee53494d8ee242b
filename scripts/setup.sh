#!/usr/bin/env bash
# Installs what is missing: setup.sh [build|run|test|cluster], each with what the ones before it need. Default: test.
set -euo pipefail

build=(gcc libc6-dev make python3 python3-venv)
run=(iproute2 iputils-ping iperf3)
test=(iputils-arping traceroute dpdk-dev pkg-config python3-scapy python3-pytest python3-pytest-xdist ethtool procps bsdutils nftables iptables
      chromium valgrind tshark suricata)
cluster=(containerd runc containernetworking-plugins busybox-static openssl
         bind9-dnsutils curl wget netcat-openbsd iperf socat python3-yaml)

case "${1:-test}" in
  build) packages=("${build[@]}") ;;
  run) packages=("${build[@]}" "${run[@]}") ;;
  test) packages=("${build[@]}" "${run[@]}" "${test[@]}") ;;
  cluster) packages=("${build[@]}" "${run[@]}" "${test[@]}" "${cluster[@]}") ;;
  *) echo "usage: $0 [build|run|test|cluster]" >&2; exit 2 ;;
esac

# Debian 12 has Suricata in its backports alone: a source of its own, from which nothing else is taken. Tests start it themselves, the system doesn't.
suricata_source() {
  [ ! -d /etc/systemd/system ] || [ -e /etc/systemd/system/suricata.service ] || ln -s /dev/null /etc/systemd/system/suricata.service
  [ "$(. /etc/os-release; echo "${VERSION_CODENAME:-}")" = bookworm ] || return 0
  cat >/etc/apt/sources.list.d/quiver-suricata.sources <<'END'
Types: deb
URIs: http://deb.debian.org/debian
Suites: bookworm-backports
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
END
  cat >/etc/apt/preferences.d/quiver-suricata <<'END'
Package: *
Pin: release n=bookworm-backports
Pin-Priority: -1

Package: suricata libhtp2
Pin: release n=bookworm-backports
Pin-Priority: 500
END
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done

if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: missing packages: ${missing[*]}. Not root, so they can't be installed here:" >&2
    echo "setup:   sudo apt-get install ${missing[*]}" >&2
    [ "${1:-test}" = run ] && exit 0   # the part that needs no root works without them
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  needed=() suricata=
  for package in "${missing[@]}"; do
    if [ "$package" = suricata ]; then suricata=yes; else needed+=("$package"); fi
  done
  apt-get update -qq
  [ "${#needed[@]}" = 0 ] || apt-get install -y -qq --no-install-recommends "${needed[@]}" >/dev/null
  # Of a source that not every mirror has: without it the tests that need it are left out.
  if [ -n "$suricata" ]; then
    suricata_source
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends suricata >/dev/null; } ||
      echo "setup: suricata could not be installed: the tests of it are left out" >&2
  fi
fi

if [[ "${1:-test}" = @(test|cluster) ]] && command -v rustup >/dev/null; then
  # For scripts/lint.sh, which leaves out what needs it where there is no network.
  timeout 300 rustup target add aarch64-unknown-linux-gnu 2>/dev/null || echo "setup: the aarch64 standard library could not be downloaded" >&2
fi

command -v cargo >/dev/null || { echo "setup: cargo is missing: install Rust (https://rustup.rs)" >&2; exit 1; }
if [[ "${1:-test}" = @(test|cluster) ]]; then
  command -v go >/dev/null || { echo "setup: go is missing: install Go 1.26 (https://go.dev/dl)" >&2; exit 1; }
fi
