"""A memif peer that breaks the rules loses its own connection, and nobody else loses a packet."""

import contextlib
import os
import pathlib
import pwd
import re
import struct
import subprocess
import sys
import time

import pytest
from lab import eventually
from lab.laboratory import peer_mac, quiver_mac
from lab.raw_memif import ADD_RING, CONNECT, INIT, NEXT, RawMemif, Refused
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw


def refusals(shown):
    """How often peers were turned away, by reason."""
    return {refused["reason"]: int(refused["count"]) for refused in shown.get("refusals", [])}


def faults(shown):
    """How often the link was ended by its peer's fault, by reason."""
    return {fault["reason"]: int(fault["count"]) for fault in shown.get("fault_reasons", [])}


def told(lab, *words):
    """Lines of the log that have all these words."""
    lines = lab.daemon.log()[lab.daemon.mark :].splitlines()
    return [line for line in lines if all(word in line for word in words)]


def kept_back(lab, *words):
    """How many lines with these words were summed up, in as many summaries as that took: a period of the log is ten seconds."""
    return sum(int(re.search(r"count=(\d+)", line)[1]) for line in told(lab, "the same again", "interface=bad", "count=", *words))


@pytest.fixture
def bad(lab, bystanders):
    """A peer of "bad" that has kept to the rules so far."""
    with RawMemif(str(lab.directory / "bad")).connect() as peer:
        eventually(lambda: lab.daemon.memif("bad").get("connected"), "the peer is connected")
        yield peer


def frame(length=200):
    """A UDP packet through the router to the peer of m13."""
    head = Ether(src=peer_mac(66), dst=quiver_mac(66)) / IP(src="10.66.0.2", dst="10.66.0.1") / UDP(sport=1, dport=2)
    return bytes(head / Raw(b"x" * (length - len(head))))


def reasons(lab):
    """What `show memif` says of the connection's end, once it has ended."""
    eventually(lambda: not lab.daemon.memif("bad").get("connected"), "the connection is ended")
    return lab.daemon.memif("bad")["last_disconnect"]


def gone(lab, bad, *words):
    """The peer was sent away for a reason that it is told, and that the operator sees."""
    said = bad.end()
    shown = reasons(lab)
    for word in words:
        assert word in shown, shown
        assert word in said, said
    assert words[0] in lab.daemon.cli("show", "memif").stdout
    # Whoever has learned manners may return.
    with RawMemif(str(lab.directory / "bad")).connect() as good:
        good.write(0, frame())
        good.head(1)
        eventually(lambda: good.tail() == 1, "its packet is taken")


def test_a_peer_that_keeps_to_the_rules_is_served(lab, bad):
    before = lab.daemon.counter("bad", "rx_packets")
    for slot in range(1000):
        bad.write(slot % bad.size, frame())
        bad.head(slot + 1)
        eventually(lambda slot=slot: bad.tail() == (slot + 1) & 0xFFFF, "the packet is taken", interval=0)
    eventually(lambda: lab.daemon.counter("bad", "rx_packets") == before + 1000, "all are counted")
    assert lab.daemon.memif("bad")["connected"]


def test_a_peer_is_named(lab, daemon):
    daemon.apply(lab.memif("bad", 66))
    with RawMemif(str(lab.directory / "bad")).connect() as peer:
        shown = eventually(lambda: (m := daemon.memif("bad")).get("connected") and m, "the peer is connected")
        assert (shown["peer_name"], shown["peer_interface"]) == ("raw peer", "raw0")
        assert shown["mapped_bytes"] == peer.length
        assert sorted((q.get("rx", False), q["ring_size"]) for q in shown["queues"]) == [(False, 256), (True, 256)]


def test_a_peers_process_is_named(lab, daemon):
    daemon.apply(lab.memif("bad", 66))
    with RawMemif(str(lab.directory / "bad")).connect():
        shown = eventually(lambda: (m := daemon.memif("bad")).get("connected") and m, "the peer is connected")
        name = pathlib.Path("/proc/self/comm").read_text().rstrip("\n")
        assert shown.get("peer_pid") == os.getpid()
        assert (shown["peer_uid"], shown["peer_gid"], shown["peer_process"]) == (os.geteuid(), os.getegid(), name)
        assert f'{os.getpid()} "{name}", uid {os.geteuid()}' in daemon.cli("show", "memif").stdout


def test_a_peer_of_another_user_and_process_namespace(lab, daemon):
    """What can't be known is left open; a peer whose process id means nothing here is served as any other."""
    daemon.apply(lab.memif("bad", 66))
    os.chmod(lab.directory, 0o755)
    os.chmod(lab.directory / "bad", 0o666)
    echo = "from lab.raw_memif import RawMemif; import sys; RawMemif(sys.argv[1]).connect().end()"
    tests = pathlib.Path(__file__).parent
    command = ["unshare", "--pid", "--fork", "--kill-child", "setpriv", "--reuid", "4242", "--regid", "4343", "--clear-groups",
               sys.executable, "-c", echo, str(lab.directory / "bad")]  # fmt: skip
    peer = subprocess.Popen(command, cwd=tests, env={**os.environ, "PYTHONPATH": str(tests)})
    try:
        shown = eventually(lambda: (m := daemon.memif("bad")).get("connected") and m, "the peer is connected")
        assert (shown["peer_uid"], shown["peer_gid"]) == (4242, 4343)
        # The peer is in a namespace below ours, so we see it; under the id that it has here.
        assert pathlib.Path(f"/proc/{shown['peer_pid']}/cmdline").read_text().endswith(f"{lab.directory}/bad\0")
    finally:
        peer.kill()  # unshare heeds no SIGTERM; its child goes with it
        peer.wait()


def test_rings_are_shown_as_they_are(lab, daemon):
    daemon.apply(lab.memif("bad", 66) + lab.tap("a", pod := lab.pod("a"), "10.1.0"))
    with RawMemif(str(lab.directory / "bad")).connect() as peer:

        def rings():
            shown = daemon.memif("bad").get("queues", [])
            return [next(q for q in shown if q.get("rx", False) == rx) for rx in (True, False)]

        eventually(lambda: daemon.memif("bad").get("connected"), "the peer is connected")
        # The worker sleeps; our packets wake it.
        eventually(lambda: not rings()[0].get("polling"), "the worker waits for interrupts")
        eventually(lambda: not daemon.interface("bad")["placement"][0].get("polling"), "its placement says so, too")
        before = int(rings()[0].get("interrupts", 0))
        for number in range(5):
            peer.write(number, frame())
            peer.head(number + 1)
            eventually(lambda number=number: peer.tail() == number + 1, "the packet is taken")
            eventually(lambda: not rings()[0].get("polling"), "the worker sleeps again")
        assert int(rings()[0]["interrupts"]) >= before + 5
        assert rings()[0].get("filled", 0) == 0
        # A peer that posts buffers and never looks at what is in them, and wants to be told each time.
        peer.post_empty(100)
        pod.ping("10.66.0.2", count=7, wait=1)
        _, tx = rings()
        # Its announcement may have come in, too.
        assert 7 <= tx["filled"] - (peer.size - 100) <= 9, tx
        assert tx.get("polling", False) is False
        assert tx["buffer_size"] == peer.buffer
        assert int(tx["interrupts"]) >= 7
        peer.mask(ring=1)
        assert rings()[1]["polling"] is True
        # What it is asked after may still come in between.
        filled = "|".join(str(tx["filled"] + more) for more in range(9))
        shown = daemon.cli("show", "memif").stdout
        assert re.search(rf"tx 0   256     ({filled})    2048  polling", shown), shown


def test_a_flood_of_refused_peers_fills_counters_and_not_the_log(lab, daemon, bystanders):
    daemon.apply(lab.memif("bad", 66, memif=', secret = "sesame"'))
    attempts = ([("wrong-secret", {"secret": b"guess"})] * 40 + [("secret-required", {})] * 3
                + [("mode", {"secret": b"sesame", "mode": 1})] * 2)  # fmt: skip
    for _, options in attempts:
        with RawMemif(str(lab.directory / "bad"), **options) as peer, pytest.raises(Refused):
            peer.init()
    # These ask for interfaces that there aren't: each for another one.
    for number in range(30):
        with RawMemif(str(lab.directory / "bad"), id=1000 + number) as peer, pytest.raises(Refused):
            peer.init()
    log = daemon.log()[daemon.mark :]
    lines = [line for line in log.splitlines() if "a memif peer was turned away" in line]
    assert len(lines) == 3 + 3 + 2 + 3, lines
    expected = {"wrong-secret": 40, "secret-required": 3, "mode": 2}

    eventually(lambda: refusals(daemon.memif("bad")) == expected, lambda: f"{daemon.memif('bad')}")
    all_refusals = {socket["socket"]: refusals(socket) for socket in daemon.show("memif")["sockets"]}
    assert {socket: count for socket, count in all_refusals.items() if count} == {f"{lab.directory}/bad": {"unknown-interface": 30}}
    text = daemon.cli("show", "memif").stdout
    assert "turned away  45 (2 mode, 3 secret-required, 40 wrong-secret)" in text, text
    metrics = daemon.scrape()[1]
    assert f'quiver_memif_refused_total{{interface="bad",socket="{lab.directory}/bad",reason="wrong-secret"}} 40' in metrics
    assert f'quiver_memif_refused_total{{interface="",socket="{lab.directory}/bad",reason="unknown-interface"}} 30' in metrics
    # What was kept back is summed up.
    eventually(lambda: kept_back(lab, 'kind="wrong-secret"') == 37, lambda: daemon.log()[daemon.mark :], timeout=40)


def test_a_flood_of_broken_rings_fills_a_counter_and_not_the_log(lab, bystanders):
    for _ in range(10):
        with RawMemif(str(lab.directory / "bad")).connect() as peer:
            peer.describe(0, 0)
            peer.head(1)
            assert peer.end() == "empty packet"
        eventually(lambda: not lab.daemon.memif("bad").get("connected"), "the connection is ended")
    assert (int(lab.daemon.memif("bad")["faults"]), faults(lab.daemon.memif("bad"))) == (10, {"fault-empty": 10})
    lines = told(lab, "memif peer broke the protocol")
    assert len(lines) == 3, lines
    assert "interface=bad" in lines[0] and "empty packet" in lines[0], lines
    eventually(lambda: kept_back(lab, 'kind="fault-empty"') == 7, lab.daemon.log, timeout=40)


def test_a_link_that_goes_down_again_is_told_at_once(lab, daemon):
    """Which is no flood: who watches the log needn't wait for a summary."""
    daemon.apply(lab.memif("bad", 66))
    for times in (1, 2):
        with RawMemif(str(lab.directory / "bad")).connect():
            eventually(lambda: daemon.memif("bad").get("connected"), "it is connected")
        eventually(lambda: not daemon.memif("bad").get("connected"), "the connection is ended")
        assert len(told(lab, "memif link down", "interface=bad")) == times, daemon.log()[daemon.mark :]


def test_faults_of_several_kinds_are_told_apart(lab, bystanders):
    """In shared memory, and by messages that have no place on a link that is up: each kind is counted and logged."""

    def connected(act):
        with RawMemif(str(lab.directory / "bad")).connect() as peer:
            eventually(lambda: lab.daemon.memif("bad").get("connected"), "the peer is connected")
            act(peer)
            assert peer.end(), "it is told why"
        eventually(lambda: not lab.daemon.memif("bad").get("connected"), "the connection is ended")

    def descriptor(**changes):
        def act(peer):
            peer.describe(0, **{"length": 100, **changes})
            peer.head(1)

        return act

    expected = {
        "fault-range": descriptor(region=7),
        "fault-too-long": descriptor(length=0xFFFF_FFFF),
        "fault-empty": descriptor(length=0),
        "fault-index": lambda peer: peer.head(1000),
        "unexpected-message": lambda peer: peer.send(CONNECT, struct.pack("<32s", b"raw0")),
        "unknown-message": lambda peer: peer.send(99),
        "message-size": lambda peer: peer.socket.send(b"x"),
        "file-descriptors": lambda peer: peer.send(INIT, b"", [peer.descriptor]),
    }
    for act in expected.values():
        connected(act)
    payload = struct.pack("<HHHIBH", 1, 1, 0, 0, 8, 0)
    connected(lambda peer: peer.send(ADD_RING, payload, [peer.events[0]]))
    counts = dict.fromkeys(expected, 1) | {"unexpected-message": 2}
    shown = lab.daemon.memif("bad")
    assert (faults(shown), int(shown["faults"]), int(shown["disconnects"])) == (counts, 9, 9), shown
    assert not shown.get("refusals"), "nobody was turned away"
    text = lab.daemon.cli("show", "memif").stdout
    assert "faults       9 (1 fault-empty, 1 fault-index, 1 fault-range, 1 fault-too-long, 1 file-descriptors" in text, text
    metrics = lab.daemon.scrape()[1]
    for kind, count in counts.items():
        line = f'quiver_memif_faults_total{{interface="bad",reason="{kind}"}} {count}'
        assert line in metrics, line
        lines = told(lab, "WARN", "memif peer broke the protocol", "interface=bad", f'kind="{kind}"')
        assert len(lines) == count, (kind, lines)


def test_a_link_up_of_another_process_is_told(lab, daemon):
    daemon.apply(lab.memif("bad", 66))
    connect = "from lab.raw_memif import RawMemif; import os, sys; RawMemif(sys.argv[1]).connect(); print(os.getpid())"
    tests = pathlib.Path(__file__).parent
    for _ in range(2):
        command = [sys.executable, "-c", connect, str(lab.directory / "bad")]
        peer = subprocess.run(command, cwd=tests, env={**os.environ, "PYTHONPATH": str(tests)}, capture_output=True, check=True)
        line = eventually(lambda pid=int(peer.stdout): told(lab, "memif link up", "interface=bad", f"pid={pid}"), daemon.log)
        assert len(line) == 1, line
        eventually(lambda: not daemon.memif("bad").get("connected"), "the connection is ended")


@pytest.mark.parametrize(
    "setting, words",
    [
        ("allow_uids = [4242]", "not allowed to connect: user 0"),
        ("allow_uids = [0, 4242], allow_gids = [4242]", "not allowed to connect: group 0"),
        ('allow_pid_namespace = "/proc/0/ns/pid"', "not allowed to connect: the process namespace that may connect can't be found"),
    ],
    ids=["user", "group", "process-namespace"],
)
def test_strangers_are_kept_out(lab, daemon, bystanders, setting, words):
    daemon.apply(lab.memif("bad", 66, memif=f", {setting}"))
    with RawMemif(str(lab.directory / "bad")) as peer, pytest.raises(Refused, match=words):
        peer.init()
    eventually(lambda: refusals(daemon.memif("bad")) == {"not-allowed": 1}, "it is counted")
    assert words in daemon.log()[daemon.mark :]
    # The rule is taken back.
    daemon.apply(lab.memif("bad", 66, memif=', allow_uids = [0], allow_gids = [0], allow_pid_namespace = "/proc/self/ns/pid"'))
    with RawMemif(str(lab.directory / "bad")).connect():
        eventually(lambda: daemon.memif("bad").get("connected"), "who is let in is connected")


def test_the_socket_belongs_to_whom_it_is_given(lab, daemon):
    def file():
        found = (lab.directory / "bad").stat()
        return found.st_mode & 0o777, found.st_uid, found.st_gid

    daemon.apply(lab.memif("bad", 66))
    assert file() == (0o660, os.geteuid(), os.getegid())
    daemon.apply(lab.memif("bad", 66, memif=', socket_mode = "0620", socket_owner = "nobody", socket_group = "4243"'))
    assert file() == (0o620, pwd.getpwnam("nobody").pw_uid, 4243)
    _, outcome, _ = daemon.offer(lab.memif("bad", 66, memif=', socket_owner = "nobody knows"'))
    assert "there is no user" in str(outcome), outcome
    assert file() == (0o620, pwd.getpwnam("nobody").pw_uid, 4243), "nothing was changed"


def test_unsealed_memory_is_served_where_allowed_and_may_go_away(lab, bystanders):
    lab.daemon.apply(lab.memif("bad", 66, memif=", allow_unsealed = true"))
    with RawMemif(str(lab.directory / "bad")) as peer:
        peer.seal = lambda: None
        peer.connect()
        peer.write(0, frame())
        peer.head(1)
        eventually(lambda: peer.tail() == 1, "its packet is taken")
        # All but the rings: the next packet isn't there any more.
        os.ftruncate(peer.descriptor, peer.buffers)
        peer.describe(1, 200)
        peer.head(2)
        assert peer.end() == "shared memory was truncated"
    assert "shared memory was truncated" in reasons(lab)


OUTSIDE = "descriptor points outside of the regions"


@pytest.mark.parametrize(
    "descriptor, words",
    [
        ({"region": 7, "length": 100}, (OUTSIDE, "region 7")),
        ({"region": 0xFFFF, "length": 100}, (OUTSIDE, "region 65535")),
        ({"offset": 0xFFFF_F000, "length": 100}, (OUTSIDE, "offset 4294963200")),
        ({"offset": "end", "length": 64}, (OUTSIDE,)),
        ({"offset": 0, "length": 0xFFFF_FFFF}, ("4294967295",)),
        ({"offset": 0xFFFF_FFFF, "length": 0xFFFF_FFFF}, ("4294967295",)),
        ({"length": 0}, ("empty packet",)),
    ],
    ids=["region-7", "region-65535", "offset-beyond", "one-byte-beyond", "length-huge", "sum-wraps", "length-zero"],
)
def test_bad_descriptors(lab, bad, descriptor, words):
    descriptor = dict(descriptor)
    if descriptor.get("offset") == "end":
        descriptor["offset"] = bad.length - descriptor["length"] + 1
    bad.describe(0, **descriptor)
    bad.head(1)
    gone(lab, bad, *words)


def test_a_bad_descriptor_behind_good_ones(lab, bad):
    for slot in range(100):
        bad.write(slot, frame())
    bad.describe(100, 100, region=3)
    bad.head(101)
    gone(lab, bad, OUTSIDE, "region 3")


def test_a_flood_of_signals(lab, bad):
    """A bell that is rung as fast as can be, with nothing in the ring; and what comes then is served as ever."""
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for _ in range(1000):
            os.eventfd_write(bad.events[0], 1)
    bad.write(0, frame())
    bad.head(1)
    eventually(lambda: bad.tail() == 1, "its packet is taken")
    assert lab.daemon.memif("bad")["connected"]


def test_a_peer_that_stops_consuming(lab, bad):
    """Its ring fills up, and what comes then is dropped by name; it stays connected."""
    pod = lab.pod("a")
    lab.daemon.apply(lab.tap("a", pod, "10.1.0"))
    bad.post_empty(100)
    pod.ping("10.66.0.2", "-i", "0.002", count=200, wait=1)
    eventually(lambda: lab.daemon.dropped("ring-full") >= 50, lambda: f"{lab.daemon.drops()}")
    assert bad.tail(1) == 100 and lab.daemon.memif("bad")["connected"]


def test_a_chain_without_end(lab, bad):
    for slot in range(bad.size):
        bad.write(slot, frame())
        bad.describe(slot, 64, flags=NEXT)
    # 16 KiB in 256 parts: neither too long nor too many, so that the one thing wrong with it is that it goes on in every slot.
    assert bad.size == 256
    bad.head(bad.size)
    gone(lab, bad, "chain without end")


@pytest.mark.parametrize("head", [257, 0x8000, 0xFFFF], ids=["one-too-many", "half", "all"])
def test_more_than_a_ring_full(lab, bad, head):
    bad.head(head)
    gone(lab, bad, "ring")


def test_a_tail_that_is_overwritten_hurts_only_its_owner(lab, bad):
    for slot in range(200):
        bad.write(slot % bad.size, frame())
        bad.set_tail(slot * 7919)
        bad.head(slot + 1)
    # Where it ends is the peer's matter; that everybody else lives on is checked by the bystanders.


def test_random_descriptors_and_indexes(lab, bystanders):
    import random

    dice = random.Random(4711)
    for _ in range(20):
        with contextlib.suppress(Refused, ConnectionError), RawMemif(str(lab.directory / "bad")).connect() as peer:
            for slot in range(peer.size):
                peer.describe(
                    slot, dice.choice((0, 1, 60, 2048, 9000, 1 << 31, dice.getrandbits(32))),
                    offset=dice.choice((0, peer.buffers, peer.length - 1, dice.getrandbits(32))),
                    region=dice.choice((0, 0, 0, 1, dice.getrandbits(16))), flags=dice.getrandbits(dice.choice((1, 16))),
                )  # fmt: skip
            for _ in range(10):
                peer.head(dice.choice((1, 64, 255, 256, dice.getrandbits(16))), ring=dice.getrandbits(1))
        eventually(lambda: not lab.daemon.memif("bad").get("connected"), "the connection is ended")


def test_memory_cut_off_under_the_dataplane(lab, bystanders):
    # A region that may shrink is refused: reading it could end quiverd.
    with pytest.raises(Refused, match="F_SEAL_SHRINK"), RawMemif(str(lab.directory / "bad")) as peer:
        peer.seal = lambda: None
        peer.connect()
    eventually(lambda: not lab.daemon.memif("bad").get("connected"), "the connection is ended")
