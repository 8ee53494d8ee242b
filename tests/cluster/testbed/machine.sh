#!/usr/bin/env bash
# First process of a node, in network, mount, host name and process namespaces of its own: machine.sh NAME DIRECTORY
set -euo pipefail
name="$1" directory="$2"

hostname "$name"
mount --make-rprivate /
# /sys shows the devices of the network namespace in which it is mounted. The machine's control groups go on being in it.
mkdir -p "$directory/cgroup"
mount --rbind /sys/fs/cgroup "$directory/cgroup"
umount --recursive --lazy /sys
mount -t sysfs sysfs /sys
mount --move "$directory/cgroup" /sys/fs/cgroup
# What runs on a node leaves nothing on the machine.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/netns
# The disk outlives who boots from it.
[ -e "$directory/etc" ] || cp --archive /etc "$directory/etc"
for place in var/lib var/log opt etc; do
  mkdir -p "$directory/${place#var/}"
  mount --bind "$directory/${place#var/}" "/$place"
done
# Containers see mounts that are made later.
mount --make-rshared /
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
touch "$directory/up"

# Bash buries orphans. Who ends it ends everything on the node.
while :; do
  sleep 3600 &
  wait
done
