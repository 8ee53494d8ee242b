"""What a memif server takes of its clients, by its settings: which memory, and how much of it and of all else."""

import ctypes
import fcntl
import os

import pytest
from lab import eventually
from lab.raw_memif import RawMemif, Refused

F_ADD_SEALS, SEAL, SHRINK, FUTURE_WRITE = 1033, 1, 2, 16
PUNCH_HOLE = 3  # and keep the size
UNSEALED = r"not sealed against shrinking \(F_SEAL_SHRINK\)"
UNSEALABLE = "leave out F_SEAL_SEAL"
AGAINST_WRITING = "sealed against writing"


def refusals(lab, name="bad"):
    """How often peers were turned away, by reason."""
    return {refused["reason"]: int(refused["count"]) for refused in lab.daemon.memif(name).get("refusals", [])}


def told(lab, *words):
    """Lines of the log that have all these words."""
    return [line for line in lab.daemon.log()[lab.daemon.mark :].splitlines() if all(word in line for word in words)]


class Sealed(RawMemif):
    """A peer with these seals on its memory, and no others."""

    def __init__(self, path, seals, **options):
        super().__init__(str(path), **options)
        self.seals = seals

    def seal(self):
        if self.seals:
            fcntl.fcntl(self.descriptor, F_ADD_SEALS, self.seals)


@pytest.mark.parametrize(
    "setting, seals, words, remedy",
    [
        ("sealed", 0, UNSEALED, "any"),
        ("sealed", SHRINK, None, None),
        ("sealed", SHRINK | SEAL, UNSEALABLE, "shared"),
        ("shared", 0, UNSEALED, "any"),
        ("shared", SHRINK, None, None),
        ("shared", SHRINK | SEAL, None, None),
        ("shared", SHRINK | FUTURE_WRITE, AGAINST_WRITING, None),
        ("any", 0, None, None),
        ("any", SHRINK | SEAL, None, None),
    ],
)
def test_memory_is_taken_by_its_seals(lab, bystanders, setting, seals, words, remedy):
    lab.daemon.apply(lab.memif("bad", 66, memif=f', peer_memory = "{setting}"'))
    with Sealed(lab.directory / "bad", seals) as peer:
        if words:
            with pytest.raises(Refused, match=words):
                peer.connect()
            kind = "region-unsealed" if remedy else "region-sealed-against-writing"
            eventually(lambda: refusals(lab) == {kind: 1}, lambda: f"it is counted: {refusals(lab)}")
            [line] = told(lab, "a memif peer was turned away", 'interface="bad"', "seal")
            last = lab.daemon.memif("bad")["last_disconnect"]
            if remedy is None:
                assert "peer_memory" not in line + last, (line, last)
                return
            # By what setting it would be taken, quoted by the log as it is quoted in TOML.
            assert f'peer_memory = \\"{remedy}\\" takes such memory' in line, line
            assert f'peer_memory = "{remedy}" takes such memory' in last
        else:
            peer.connect()
            eventually(lambda: lab.daemon.memif("bad").get("connected"), "its memory is taken")
            assert not refusals(lab)
            peer.write(0, bytes(60))
            peer.head(1)
            eventually(lambda: peer.tail() == 1, "and read")


def test_pages_of_shared_memory_that_are_freed_end_the_link(lab, bystanders):
    """Which the peer can do to what isn't sealed against it."""
    lab.daemon.apply(lab.memif("bad", 66, memif=', peer_memory = "shared"'))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    with Sealed(lab.directory / "bad", SHRINK) as peer:
        # Else its holes are what we fill, as they may be.
        os.posix_fallocate(peer.descriptor, 0, peer.length)
        peer.connect()
        eventually(lambda: lab.daemon.memif("bad").get("connected"), "it is connected")
        if told(lab, "no userfaultfd"):
            pytest.skip("no userfaultfd")
        with pytest.raises(PermissionError):
            os.ftruncate(peer.descriptor, 0)
        assert libc.fallocate(peer.descriptor, PUNCH_HOLE, peer.buffers, peer.length - peer.buffers) == 0
        peer.describe(0, 200)
        peer.head(1)
        assert peer.end() == "shared memory was truncated"
    eventually(lambda: not lab.daemon.memif("bad").get("connected"), "the link is ended")
    shown = lab.daemon.memif("bad")
    assert [(fault["reason"], int(fault["count"])) for fault in shown["fault_reasons"]] == [("fault-memory-lost", 1)], shown
    assert len(told(lab, "memif peer broke the protocol", "interface=bad", "shared memory was truncated")) == 1


def test_an_interface_takes_so_much_memory_and_no_more(lab, bystanders):
    path = lab.directory / "bad"
    with RawMemif(str(path)) as peer:
        length = peer.length
    lab.daemon.apply(lab.memif("bad", 66, memif=f", max_memory = {length}"))
    with RawMemif(str(path)).connect():
        eventually(lambda: lab.daemon.memif("bad").get("connected"), "as much as there may be is taken")
    eventually(lambda: not lab.daemon.memif("bad").get("connected"), "it is gone")
    with RawMemif(str(path)) as peer, pytest.raises(Refused, match=f"^regions of {2 * length} bytes, at most {length}$"):
        peer.seal()
        peer.init()
        peer.add_region()
        peer.add_region(index=1)
    eventually(lambda: refusals(lab) == {"too-much-memory": 1}, lambda: f"it is counted: {refusals(lab)}")
    assert len(told(lab, "a memif peer was turned away", 'interface="bad"', "at most")) == 1


def two_of_a_socket(lab, settings):
    """Interfaces "bad", number 0 of its socket, and "near", number 1."""
    near = lab.memif("near", 67, memif=f", id = 1{settings}").replace(f'"{lab.directory}/near"', f'"{lab.directory}/bad"')
    lab.daemon.apply(lab.memif("bad", 66, memif=settings) + near)


def connects(lab, name, id):
    """Whether a client gets in, by now."""
    try:
        with RawMemif(str(lab.directory / "bad"), id=id).connect():
            return eventually(lambda: lab.daemon.memif(name).get("connected"), "it is connected")
    except Refused:
        return False


def test_a_socket_has_so_many_regions_and_rings_and_no_more(lab, bystanders):
    """Of eight, four are for who comes first, and two are promised to each of the interfaces: one can have six."""
    two_of_a_socket(lab, ", socket_max_descriptors = 8")
    with RawMemif(str(lab.directory / "bad")) as peer:
        peer.seal()
        peer.init()
        for index in range(6):
            peer.add_region(index)
        with pytest.raises(Refused, match=r"^regions and rings of the interface: 7, the rest of the socket's 8 is others'$"):
            peer.add_region(6)
    eventually(lambda: refusals(lab) == {"share-of-descriptors": 1}, lambda: f"it is counted: {refusals(lab)}")
    assert len(told(lab, "a memif peer was turned away", 'interface="bad"', "regions and rings of the interface")) == 1
    # What it had is given back, a moment later.
    eventually(lambda: connects(lab, "near", 1) and connects(lab, "bad", 0), "both are served")
    lab.daemon.delete("interface", "near")
    lab.daemon.apply(lab.memif("bad", 66, memif=", socket_max_descriptors = 3"))
    eventually(lambda: connects(lab, "bad", 0), "a region and two rings are three")
    lab.daemon.apply(lab.memif("bad", 66, memif=", socket_max_descriptors = 2"))
    words = "^regions and rings of all of the socket's clients: max_descriptors is 2$"
    with RawMemif(str(lab.directory / "bad")) as peer, pytest.raises(Refused, match=words):
        peer.connect()
    eventually(lambda: refusals(lab).get("quota-of-descriptors") == 1, lambda: f"it is counted: {refusals(lab)}")


def test_a_socket_has_so_much_memory_and_no_more(lab, bystanders):
    with RawMemif(str(lab.directory / "bad")) as peer:
        length = peer.length
    two_of_a_socket(lab, f", socket_max_memory = {4 * length}")
    with RawMemif(str(lab.directory / "bad")) as peer:
        peer.seal()
        peer.init()
        for index in range(3):
            peer.add_region(index)
        words = f"^regions of the interface: {4 * length} bytes, the rest of the socket's {4 * length} is others'$"
        with pytest.raises(Refused, match=words):
            peer.add_region(3)
    eventually(lambda: refusals(lab) == {"share-of-memory": 1}, lambda: f"it is counted: {refusals(lab)}")
    eventually(lambda: connects(lab, "near", 1) and connects(lab, "bad", 0), "both are served")
    lab.daemon.delete("interface", "near")
    lab.daemon.apply(lab.memif("bad", 66, memif=f", socket_max_memory = {length - 1}"))
    words = f"^regions of all of the socket's clients: {length} bytes, max_memory is {length - 1}$"
    with RawMemif(str(lab.directory / "bad")) as peer, pytest.raises(Refused, match=words):
        peer.connect()
    eventually(lambda: refusals(lab).get("quota-of-memory") == 1, lambda: f"it is counted: {refusals(lab)}")
    assert len(told(lab, "a memif peer was turned away", 'interface="bad"', "max_memory is")) == 1


def cross(name, socket, memif, to=""):
    """An interface whose packets go out by another one."""
    more = f'cross_connect = "{to}"\n' if to else ""
    return f'[[interface]]\nname = "{name}"\n{more}memif = {{ socket = "{socket}"{memif} }}\n'


def test_a_trust_group_of_one_quiverd_at_another(lab, daemon, own_daemon):
    """quiver-tgen → m12 → out, a server here → left, a client there, in a group with right → back, a server here → m13 → quiver-tgen."""
    there = own_daemon().start()
    sockets = {name: f"{lab.directory}/{name}" for name in ("m12", "m13", "out", "back")}

    def here(memory):
        servers = {"m12": ("", "out"), "out": (memory, ""), "back": (memory, "m13"), "m13": ("", "")}
        daemon.apply("".join(cross(name, sockets[name], *how) for name, how in servers.items()))

    def both():
        return all(there.memif(name).get("connected") for name in ("left", "right"))

    member = ', role = "client", trust_group = "chain"'
    # A pool is announced to several: sealed by the first it would be of no use to the second.
    here(', peer_memory = "sealed"')
    there.apply(cross("left", sockets["out"], member, "right") + cross("right", sockets["back"], member))
    eventually(lambda: refusals(lab, "back") or refusals(lab, "out"), "a pool is refused where memory must be sealed")
    assert not both()
    here(', peer_memory = "shared"')
    eventually(both, lambda: f"both are connected: {there.show('memif')}")
    lab.lossless("m12", "m13", 12, 13, "--size", 1400, "--check", "payload", "--full")
    # Nothing of it went amiss there, and neither side has found a fault.
    for one, names in ((daemon, ("out", "back")), (there, ("left", "right"))):
        assert not [one.memif(name).get("faults") for name in names if one.memif(name).get("faults")]
    assert there.counter("right", "tx_packets") >= 2000
