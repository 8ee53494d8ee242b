"""Attacks of one pod on the dataplane, and the addresses around it: what the canary of a ``-hostile`` suite is measured beside.

Two pods have traffic that is measured, left and right. Two more take part in the attack: ``bad`` attacks, ``friend`` sends to it or
is what it sends to.
"""

from __future__ import annotations

from dataclasses import dataclass

from quiver_bench.suites.model import Case
from quiver_bench.suites.traffic import Addresses

#: Networks of the two pods that attack.
BAD, FRIEND = Addresses("10.0.2.1", "10.0.2.2", "24.0.0.0", 24), Addresses("10.0.3.1", "10.0.3.2", "49.0.0.1", 24)

#: The device's Ethernet addresses there, and the pods'.
DEVICE_MACS = "02:00:00:00:00:05", "02:00:00:00:00:06"
PEER_MACS = "02:00:00:00:00:07", "02:00:00:00:00:08"

#: An address of nobody's in the network of ``friend``, whose neighbor entry leads to that pod: its kernel drops what comes.
SINK = "10.0.3.99"

#: The tunnel of nested headers: network identifier, the device's Ethernet address and its network.
VNI, TUNNEL_MAC, TUNNEL = 66, "02:00:00:00:00:09", "10.0.4.1/24"

#: New stations in the network on the right, one for each trial.
FRESH_FIRST, FRESH = "10.0.1.100", 100

#: Rates of the canaries: echo requests or frames per second.
PING_PPS, MEMIF_PPS = 100, 50_000


@dataclass(frozen=True)
class Attack:
    """One attack."""

    #: As in names of suites.
    name: str
    port: str
    forwarding: str
    #: What it does, for people.
    what: str


ATTACKS = (
    Attack("calm", "tap", "ip4", "no attack: what the canary shows on this machine"),
    Attack(
        "eventfds", "memif", "ip4", "90 million waiters behind the eventfd of a ring, which is signaled twice a second"
    ),
    Attack(
        "filters",
        "tap",
        "ip4",
        "1000 packet sockets with filters of 4096 instructions, and 500 packets a second to them",
    ),
    Attack("waiters", "tap", "ip4", "90 million waiters behind a UDP socket, and two datagrams a second to it"),
    Attack("nested", "tap", "ip4", "700 packets a second with 1290 VXLAN headers, one within the other"),
    Attack(
        "strangers",
        "tap",
        "ip4",
        "a flood to 250 neighbors that aren't there, and to the one that the canary is new to",
    ),
    Attack("macs", "tap", "l2bd", "frames from 2^20 Ethernet addresses at full speed"),
    Attack("thief", "tap", "l2bd", "1000 frames a second from the Ethernet address of the canary's peer"),
    Attack("superframes", "tap", "ip4", "TCP super-frames of 60 KB at full speed"),
)


def cases() -> list[Case]:
    """A case for each attack. Names say what the device does besides."""
    bases = {"ip4": "ethip4-ip4base", "l2bd": "eth-l2bdbasemaclrn"}
    return [
        Case(
            f"{bases[attack.forwarding]}-{attack.name}",
            "isolation",
            attack.forwarding,
            (attack.port,),
            generator="hostile",
            attack=attack.name,
            most_cores=1,
            methods=("hostile",),
            frames=("64b",),
            tags=("ISOLATION",),
        )
        for attack in ATTACKS
    ]


def attack_of(case: Case) -> Attack:
    """The attack of a case that has one."""
    (found,) = [attack for attack in ATTACKS if attack.name == case.attack]
    return found
