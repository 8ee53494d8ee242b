"""Parsers: tunnels of GTP-U from pod a to pod b are sessions, each with its own policer, whatever ports and headers they have."""

import socket
import time

import pytest
from lab import eventually
from test_policer import ADDRESS, FAMILY, two_pods

# Tunnels come in at one worker, and each of them is one of the two's.
WORKERS = 2

PORT = 2152
#: Packets that each tunnel may send, ever.
BURST = 10
POLICER = f'[[policer]]\nname = "tunnel"\nunit = "packets"\ncir = 1\ncbs = {BURST}\nper_session = true\n'
TENANT = (
    '[[tenant]]\nname = "ran"\ninterfaces = ["a"]\noutside_interfaces = ["b"]\nparser = "gtpu"\nuntracked = "pass"\n'
    'forward_services = ["l4-lifecycle", "policer"]\nforward_policer = "tunnel"\n'
)


def packet(teid, flags=0x30, kind=255):
    """A message of GTP-U; with flags for what is optional, a sequence number and no extension header."""
    rest = (b"\0\7\0\0" if flags & 7 else b"") + b"user"
    return bytes([flags, kind]) + len(rest).to_bytes(2) + teid.to_bytes(4) + rest


@pytest.fixture
def two(lab, daemon):
    return two_pods(lab, daemon)


def opened(pod, version, host, port=0):
    with pod.entered():
        one = socket.socket(FAMILY[version], socket.SOCK_DGRAM)
    one.bind((ADDRESS[version][host], port))
    return one


def tunnels(daemon):
    return {one["key"]: one for one in daemon.json("show", "session", "--parser", "gtpu").get("sessions", [])}


@pytest.mark.parametrize("version", [4, 6])
def test_each_tunnel_is_a_session_with_its_own_policer(daemon, two, version):
    a, b = two
    daemon.apply(POLICER + TENANT)
    to = ADDRESS[version]["b"]
    names = {teid: f"{to} teid {teid:#010x}" for teid in (0x1234, 0x1235)}
    with opened(b, version, "b", PORT) as receiver, opened(a, version, "a", PORT) as one, opened(a, version, "a") as other:
        receiver.settimeout(0.2)
        # By two ports, and with a sequence number or without.
        for teid, times in ((0x1234, 25), (0x1235, 5)):
            for number in range(times):
                (one, other)[number % 2].sendto(packet(teid, flags=0x32 if number % 3 else 0x30), (to, PORT))
        eventually(lambda: sum(int(tunnel["forward_packets"]) for tunnel in tunnels(daemon).values()) == 30, lambda: str(tunnels(daemon)))
        assert {name: int(tunnel["forward_packets"]) for name, tunnel in tunnels(daemon).items()} == {names[0x1234]: 25, names[0x1235]: 5}
        seen = dict.fromkeys(names, 0)
        deadline = time.monotonic() + 10
        while sum(seen.values()) < BURST + 5 and time.monotonic() < deadline:
            try:
                data = receiver.recv(2000)
            except TimeoutError:
                continue
            seen[int.from_bytes(data[4:8])] += 1
        # The rate is one packet a second: no test takes so long that many more pass.
        assert BURST <= seen[0x1234] <= BURST + 10 and seen[0x1235] == 5, seen
        # What is no tunnel's packet has an ordinary session.
        one.sendto(packet(0, kind=1, flags=0x32), (to, PORT))
        ordinary = ("show", "session", "--protocol", "udp", "--address", ADDRESS[version]["a"])
        eventually(lambda: daemon.json(*ordinary).get("sessions"), lambda: str(daemon.json("show", "session")))
        assert len(tunnels(daemon)) == 2
        shown = tunnels(daemon)[names[0x1234]]
        assert (shown["parser"], shown["responder"], int(shown["responder_port"]), shown["phase"]) == ("gtpu", to, PORT, "established")
        said = daemon.cli(
            "explain", ADDRESS[version]["a"], f"[{to}]:{PORT}" if version == 6 else f"{to}:{PORT}", "udp", "--payload", packet(0x1234).hex()
        ).stdout
        assert f"found by the parser gtpu: {names[0x1234]}" in said and "of a session, from the initiator" in said, said
        assert daemon.cli("clear", "session", "--parser", "gtpu", "--address", to).stdout == "2 sessions ended\n"
        eventually(lambda: not tunnels(daemon), lambda: str(tunnels(daemon)))


def test_what_needs_addresses_and_ports_is_refused_by_name(daemon, two):
    for wrong, words in (
        (TENANT.replace('"policer"', '"policer", "tcp-check"') + 'reverse_services = ["tcp-check"]\n', ("tcp-check", "gtpu")),
        (TENANT.replace('"gtpu"', '"gtp"'), ("no parser", "gtpu")),
        (TENANT + '[[tenant]]\nname = "blue"\noutside_interfaces = ["b"]\n', ("parser", "interface b")),
    ):
        done = daemon.cli("apply", "-f", "-", stdin=POLICER + wrong, check=False)
        assert done.returncode != 0 and all(word in done.stdout + done.stderr for word in words), done.stdout + done.stderr
