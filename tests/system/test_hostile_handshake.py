"""A memif peer that breaks the rules of the handshake is turned away with a reason, and nobody else is kept waiting."""

import contextlib
import os
import pathlib
import re
import struct
import time

import pytest
from lab import Laboratory, eventually
from lab.process import HANGS
from lab.raw_memif import ADD_REGION, CONNECT, INIT, RawMemif, Refused


def _shorter_file(peer):
    peer.init()
    peer.add_region(size=peer.length * 2)


def _ring_outside(peer):
    peer.init()
    peer.add_region()
    peer.add_ring(1, offset=peer.length - 64)


def _ring_in_no_region(peer):
    peer.init()
    peer.add_region()
    peer.add_ring(1, region=5)


def _ring_too_large(peer):
    peer.init()
    peer.add_region()
    peer.add_ring(1, log2=31)


def _wrong_region_index(peer):
    peer.init()
    peer.add_region(index=3)


def _no_descriptor(peer):
    peer.init()
    peer.send(ADD_REGION, struct.pack("<HQ", 0, peer.length))
    peer.receive(1)


def _no_rings(peer):
    peer.init()
    peer.add_region()
    peer.send(CONNECT)
    peer.receive(7)


def _too_early(peer):
    peer.receive(2)
    peer.send(CONNECT)
    peer.receive(7)


def _twice(peer):
    peer.init()
    peer.send(INIT, struct.pack("<HIB24s32s", 0x0200, 0, 0, b"", b""))
    peer.receive(1)


def _unknown(peer):
    peer.receive(2)
    peer.send(99)
    peer.receive(1)


def _short(peer):
    peer.receive(2)
    peer.socket.send(b"\x03\x00")
    peer.receive(1)


def _old_version(peer):
    peer.receive(2)
    peer.send(INIT, struct.pack("<HIB24s32s", 0x0100, 0, 0, b"", b""))
    peer.receive(1)


@pytest.mark.parametrize(
    "act, words",
    [
        (_shorter_file, "claims"),
        (_ring_outside, "ring"),
        (_ring_in_no_region, "region"),
        (_ring_too_large, "ring size 2^31"),
        (_wrong_region_index, "unexpected region index 3, expected 0"),
        (_no_descriptor, "0 file descriptors with ADD_REGION"),
        (_no_rings, "no rings"),
        (_too_early, "unexpected message CONNECT"),
        (_twice, "unexpected message INIT"),
        (_unknown, "unknown message type 0x63"),
        (_short, "message of 2 bytes"),
        (_old_version, "unsupported version 0x0100"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_broken_handshakes_are_refused_with_a_reason(lab, daemon, bystanders, act, words):
    with RawMemif(str(lab.directory / "bad")) as peer:
        peer.seal()
        with pytest.raises(Refused, match=words.replace("^", r"\^")):
            act(peer)
    eventually(lambda: words in daemon.log()[daemon.mark :], lambda: f"the operator finds it in the log\n{daemon.log()}")
    ours, name = os.getpid(), pathlib.Path("/proc/self/comm").read_text().strip()
    line = next(line for line in daemon.log()[daemon.mark :].splitlines() if words in line)
    assert f'pid={ours} process="{name}" uid={os.geteuid()} gid={os.getegid()}' in line, "with whose process it was"
    shown = daemon.memif("bad").get("last_refused") or daemon.show("memif")["sockets"][0]["last_refused"]
    assert (shown["peer"]["pid"], shown["peer"]["name"]) == (ours, name), shown
    # And the socket goes on serving.
    with RawMemif(str(lab.directory / "bad")).connect():
        eventually(lambda: daemon.memif("bad").get("connected"), "a good peer is connected")


def test_many_silent_connections_do_not_lock_others_out(lab, daemon, bystanders):
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            peer = stack.enter_context(RawMemif(str(lab.directory / "bad"), log2=6, buffer=128))
            with contextlib.suppress(Refused):
                peer.receive(2)
        [socket] = daemon.show("memif")["sockets"]
        [shaking] = socket["handshakes"]
        ours, count = os.getpid(), shaking["count"]
        assert (shaking["peer"]["pid"], socket["socket"]) == (ours, str(lab.directory / "bad")) and 1 <= count <= 60, socket
        assert 0 <= time.time() - int(shaking["since_ns"]) / 1e9 < HANGS, shaking
        with RawMemif(str(lab.directory / "bad"), log2=6, buffer=128) as peer:
            peer.init()
            claimed = eventually(lambda: daemon.memif("bad").get("handshake"), "who has claimed the interface is named there")
            assert (claimed["count"], claimed["peer"]["pid"]) == (1, os.getpid()), claimed
        assert daemon.show("version")["pid"] == daemon.process.pid

        def connects():
            with contextlib.suppress(Refused, OSError), RawMemif(str(lab.directory / "bad")).connect():
                return True

        eventually(connects, "a good peer gets through", timeout=15)


def test_clients_that_want_all_descriptors_leave_others_theirs(own_daemon):
    """Twelve pods, each with a socket of its own, want as many regions as they may: more than the process has for clients.

    One more still comes in."""
    daemon = own_daemon(inside=("prlimit", "--nofile=600:600")).start()
    lab = Laboratory(daemon)
    names = [f"m{number}" for number in range(1, 14)]
    daemon.apply("".join(lab.memif(name, number) for number, name in enumerate(names, 1)))
    refusals = []
    with contextlib.ExitStack() as peers:
        for name in names[:-1]:
            peer = peers.enter_context(RawMemif(str(daemon.directory / name)))
            peer.seal()
            peer.init()
            try:
                for index in range(16):
                    peer.add_region(index)
            except Refused as refused:
                refusals.append(str(refused))
        # A quarter of 600, which the last one has its part of.
        assert refusals and set(refusals) == {"regions and rings of all clients of the process: 150 (RLIMIT_NOFILE, vm.max_map_count)"}
        with RawMemif(str(daemon.directory / names[-1])).connect():
            eventually(lambda: daemon.memif(names[-1]).get("connected"), daemon.log)
    assert daemon.log().count("(RLIMIT_NOFILE, vm.max_map_count)") >= len(refusals), daemon.log()


def test_quiverd_opens_as_many_files_as_it_may(own_daemon):
    """The soft limit is for programs that use select; what clients may have goes by it."""
    daemon = own_daemon(inside=("prlimit", "--nofile=1024:4096")).start()
    limits = pathlib.Path(f"/proc/{daemon.process.pid}/limits").read_text()
    assert re.search(r"Max open files +4096 +4096", limits), limits
