"""The two pods that take part in an attack, as ports of a device."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from quiver_bench.devices.base import call
from quiver_bench.generators.hostile import pod
from quiver_bench.suites import Suite, hostile
from quiver_bench.suites.traffic import Addresses

ROLES = ("bad", "friend")


class HostilePods:
    """Namespaces of both, each with an interface ``eth0``."""

    def __init__(self, suite: Suite, left: str) -> None:
        self.suite = suite
        self.bridged = suite.case.forwarding == "l2bd"
        self.names = [pod(left, role) for role in ROLES]
        self.right = f"{left.removesuffix('-l')}-r"

    def make_namespaces(self) -> None:
        """Makes both, empty."""
        for name in self.names:
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")

    def remove_namespaces(self) -> None:
        """Removes both with all that is in them."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def settle(self) -> None:
        """What pods do themselves: the attacker's frames may be as long as a packet, and there are stations that come new."""
        call("ip", "-n", self.names[0], "link", "set", "eth0", "mtu", "65521")
        head, _, last = hostile.FRESH_FIRST.rpartition(".")
        if self.suite.case.attack == "strangers":
            for number in range(int(last), int(last) + hostile.FRESH):
                call("ip", "-n", self.right, "addr", "add", f"{head}.{number}/24", "dev", "eth0")

    # -- as Quiver has them --------------------------------------------------------------------------------------------

    def quiver(self) -> str:
        """Both as taps, with what an attack is about besides, as desired state."""
        parts = [self._tap(role, *of) for role, of in zip(ROLES, self._of_each(), strict=True)]
        return "\n".join(parts + ([] if self.bridged else [extras()]))

    def _of_each(self) -> list[tuple[str, Addresses, str, str]]:
        sides = hostile.BAD, hostile.FRIEND
        return list(zip(self.names, sides, hostile.DEVICE_MACS, hostile.PEER_MACS, strict=True))

    def _tap(self, role: str, netns: str, side: Addresses, mac: str, own: str) -> str:
        head = f'[[interface]]\nname = "{role}"\nmac = "{mac}"\n'
        tap = f'netns = "{netns}", host_name = "eth0", host_mac = "{own}"'
        if self.bridged:
            return f'{head}bridge = {{ name = "bench0" }}\ntap = {{ {tap} }}\n'
        host = f'host_addresses = ["{side.peer}/{side.prefix}"], host_gateways = ["{side.device}"]'
        return f'{head}addresses = ["{side.device}/{side.prefix}"]\ntap = {{ {tap}, {host} }}\n'

    # -- as the kernel has them ----------------------------------------------------------------------------------------

    def kernel(self, inside: Callable[..., None], netns: str) -> None:
        """Both as pairs of veth, by ``ip`` in the device's namespace."""
        for role, (name, side, mac, own) in zip(ROLES, self._of_each(), strict=True):
            peer = ("peer", "name", "eth0", "address", own, "netns", name)
            inside("link", "add", role, "address", mac, "mtu", "65521", "type", "veth", *peer)
            inside("link", "set", role, "up")
            call("ip", "-n", name, "link", "set", "eth0", "up")
            if self.bridged:
                inside("link", "set", role, "master", "bench")
                continue
            inside("addr", "add", f"{side.device}/{side.prefix}", "dev", role)
            call("ip", "-n", name, "addr", "add", f"{side.peer}/{side.prefix}", "dev", "eth0")
            call("ip", "-n", name, "route", "add", "default", "via", side.device)
        if not self.bridged:
            inside("neigh", "add", hostile.SINK, "lladdr", hostile.PEER_MACS[1], "dev", "friend", "nud", "permanent")
            ends = ("local", hostile.BAD.device, "remote", hostile.BAD.peer, "dstport", "4789")
            words = ("tunnel", "address", hostile.TUNNEL_MAC, "type", "vxlan", "id", hostile.VNI)
            inside("link", "add", *words, *ends)
            inside("addr", "add", hostile.TUNNEL, "dev", "tunnel")
            inside("link", "set", "tunnel", "up")
            # It answers for addresses that the packet inside came from, as Quiver does.
            call("ip", "netns", "exec", netns, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")


def extras() -> str:
    """The neighbor whose pod drops what comes, and the tunnel, as Quiver's desired state."""
    return (
        f'[[neighbor]]\ninterface = "friend"\naddress = "{hostile.SINK}"\nmac = "{hostile.PEER_MACS[1]}"\n'
        f'[[interface]]\nname = "tunnel"\nmac = "{hostile.TUNNEL_MAC}"\naddresses = ["{hostile.TUNNEL}"]\n'
        f'vxlan = {{ local = "{hostile.BAD.device}", remote = "{hostile.BAD.peer}", vni = {hostile.VNI} }}\n'
    )


def quiver_memifs(memif: Callable[[str], str]) -> str:
    """Both as memifs, as Quiver's desired state."""
    parts = []
    sides = hostile.BAD, hostile.FRIEND
    for role, side, mac, own in zip(ROLES, sides, hostile.DEVICE_MACS, hostile.PEER_MACS, strict=True):
        parts.append(
            f'[[interface]]\nname = "{role}"\nmac = "{mac}"\naddresses = ["{side.device}/{side.prefix}"]\n{memif(role)}\n'
            f'[[neighbor]]\ninterface = "{role}"\naddress = "{side.peer}"\nmac = "{own}"\n'
        )
    return "\n".join(parts)


def vpp_memifs(directory: object) -> list[str]:
    """Both as memifs, on VPP's command line."""
    lines = []
    sides = hostile.BAD, hostile.FRIEND
    ends = zip((3, 4), ROLES, sides, hostile.DEVICE_MACS, hostile.PEER_MACS, strict=True)
    for number, role, side, mac, own in ends:
        interface = f"memif{number}/0"
        lines += [
            f"create memif socket id {number} filename {directory}/{role}",
            f"create interface memif id 0 socket-id {number} master rx-queues 1 tx-queues 1 hw-addr {mac} no-zero-copy",
            f"set interface state {interface} up",
            f"set interface ip address {interface} {side.device}/{side.prefix}",
            f"set ip neighbor {interface} {side.peer} {own} static",
        ]
    return lines
