"""quiverd as the client of a memif server that breaks the rules: that link ends with a reason, and nobody else loses a packet."""

import ctypes
import errno
import os
import struct

import pytest
from lab import eventually
from lab.laboratory import peer_mac, quiver_mac
from lab.raw_memif import ACK, CONNECT, CONNECTED, HELLO, INIT
from lab.raw_memif_server import TO_CLIENT, RawMemifServer
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2


def frame(length=200):
    """A UDP packet that the router takes from the server."""
    head = Ether(src=peer_mac(66), dst=quiver_mac(66)) / IP(src="10.66.0.2", dst="10.66.0.1") / UDP(sport=1, dport=2)
    return bytes(head / Raw(b"x" * (length - len(head))))


def counts(list_of):
    """How often, by reason."""
    return {one["reason"]: int(one["count"]) for one in list_of}


def told(lab, *words):
    """Lines of the log that have all these words."""
    lines = lab.daemon.log()[lab.daemon.mark :].splitlines()
    return [line for line in lines if all(word in line for word in words)]


@pytest.fixture
def server(lab, bystanders):
    """To which the interface "bad", a client, has just connected, before anything is said; afterwards it goes to one that has manners."""
    path = lab.directory / "bad-server"
    with RawMemifServer(path) as server:
        lab.daemon.apply(lab.memif("bad", 66).replace(f'"{lab.directory}/bad", role = "server"', f'"{path}", role = "client"'))
        yield server.accept()
    with RawMemifServer(path) as good:
        good.accept().connect()
        eventually(lambda: lab.daemon.memif("bad").get("connected"), "it is connected to who keeps to the rules")
        before = lab.daemon.counter("bad", "rx_packets")
        eventually(lambda: good.posted() > 0, "it posts buffers")
        good.write(0, frame())
        good.tail(1)
        eventually(lambda: lab.daemon.counter("bad", "rx_packets") == before + 1, "and receives")


def acts(*cases):
    """What a server does, how it is counted, and words of the reason."""
    return pytest.mark.parametrize("act, kind, words", cases, ids=lambda value: value.__name__.strip("_") if callable(value) else "")


def _short(server):
    server.hello()
    assert server.receive()[0] == INIT
    server.send(ACK, length=64)


def _long(server):
    server.send(HELLO, length=200)


def _ack_first(server):
    server.send(ACK)


def _connected_at_once(server):
    server.hello()
    assert server.receive()[0] == INIT
    server.send(CONNECTED, struct.pack("<32s", b"raw0"))


def _clients_message(server):
    server.hello()
    assert server.receive()[0] == INIT
    server.send(CONNECT, struct.pack("<32s", b"raw0"))


def _no_such_type(server):
    server.send(99)


def _rings_of_one(server):
    server.hello(log2=0)


def _version(server):
    server.hello(version=0x0300)


def _file(server):
    server.send(HELLO, descriptors=[0])


@acts(
    (_short, "message-size", "message of 64 bytes"),
    (_long, "message-size", "message of"),
    (_ack_first, "unexpected-message", "unexpected message ACK while waiting for HELLO"),
    (_connected_at_once, "unexpected-message", "unexpected message CONNECTED while waiting for ACK"),
    (_clients_message, "unexpected-message", "unexpected message CONNECT while waiting for ACK"),
    (_no_such_type, "unknown-message", "unknown message type 0x63"),
    (_rings_of_one, "ring-size", "ring size 2^0, allowed are 2^6..=2^14"),
    (_version, "version", "unsupported version 0x0300"),
    (_file, "file-descriptors", "file descriptors with HELLO"),
)
def test_a_handshake_that_breaks_the_rules(lab, server, act, kind, words):
    act(server)
    assert words in server.end()
    shown = eventually(lambda: (m := lab.daemon.memif("bad")).get("refusals") and m, "it is counted")
    assert (counts(shown["refusals"]), shown.get("faults", 0), shown.get("connects", 0)) == ({kind: 1}, 0, 0), shown
    lines = told(lab, "WARN", "interface=bad", words)
    assert len(lines) == 1, lab.daemon.log()[lab.daemon.mark :]


def test_rings_are_no_larger_than_wanted_whatever_the_server_allows(lab, server):
    server.connect(log2=255)
    shown = eventually(lambda: (m := lab.daemon.memif("bad")).get("connected") and m, "it is connected")
    assert {queue["ring_size"] for queue in shown["queues"]} == {1024}, shown


def _tail_ahead(server):
    server.tail(server.posted() + 1)


def _tail_far(server):
    server.tail(server.posted() + 0x8000)


def _length(server):
    server.describe(0, 0xFFFF_FFFF)
    server.tail(1)


def _second_connected(server):
    server.send(CONNECTED, struct.pack("<32s", b"raw0"))


def _short_message(server):
    server.send(ACK, length=7)


@acts(
    (_tail_ahead, "fault-index", "ring"),
    (_tail_far, "fault-index", "ring"),
    (_length, "fault-too-long", "packet of 4294967295 bytes"),
    (_second_connected, "unexpected-message", "unexpected message CONNECTED"),
    (_short_message, "message-size", "message of 7 bytes"),
)
def test_a_link_that_breaks_the_rules(lab, server, act, kind, words):
    server.connect()
    eventually(lambda: lab.daemon.memif("bad").get("connected"), "it is connected")
    eventually(lambda: server.posted() > 0, "it has posted buffers")
    act(server)
    assert words in server.end()
    shown = eventually(lambda: not (m := lab.daemon.memif("bad")).get("connected") and m, "the link is ended")
    assert (counts(shown["fault_reasons"]), shown.get("refusals", []), int(shown["disconnects"])) == ({kind: 1}, [], 1), shown
    lines = told(lab, "WARN", "memif peer broke the protocol", "interface=bad", f'kind="{kind}"', words)
    assert len(lines) == 1, lab.daemon.log()[lab.daemon.mark :]
    assert f'quiver_memif_faults_total{{interface="bad",reason="{kind}"}} 1' in lab.daemon.scrape()[1]


def test_the_region_cannot_be_taken_away_from_its_client(lab, server):
    """Truncated, or with its pages freed, as the link is in use: the file is sealed against both, and packets go on."""
    server.connect()
    eventually(lambda: lab.daemon.memif("bad").get("connected"), "it is connected")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    eventually(lambda: server.posted() > 0, "it has posted buffers")
    before = lab.daemon.counter("bad", "rx_packets")
    for number in range(100):
        with pytest.raises(PermissionError):
            os.ftruncate(server.region, 0)
        assert libc.fallocate(server.region, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == -1
        assert ctypes.get_errno() == errno.EPERM
        server.write(number, frame())
        server.tail(number + 1, TO_CLIENT)
    eventually(lambda: lab.daemon.counter("bad", "rx_packets") == before + 100, "all are received")
    assert lab.daemon.memif("bad")["connected"] and not lab.daemon.memif("bad").get("faults")
