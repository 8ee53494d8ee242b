"""The examples of all three libraries as pods of a running quiverd. Expected packets are scapy's."""

import re
import subprocess
import sys
import time

import pytest
from conftest import ENVIRONMENT, RELEASE, ROOT, C
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import rdpcap

sys.path.insert(0, str(ROOT / "tests/system"))
from lab.daemon import Daemon
from lab.process import eventually
from lab.raw_memif import RawMemif

EXAMPLES = RELEASE / "examples"
US, GATEWAY = "02:00:00:00:00:09", "10.8.0.1"
ARP = bytes.fromhex("0806")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    daemon = Daemon(tmp_path_factory.mktemp("quiverd")).start()
    yield daemon
    daemon.stop()


@pytest.fixture(autouse=True)
def empty(daemon):
    yield
    daemon.clear()


def interface(daemon, name, network, more="", memif=""):
    """A memif interface with a path socket, `network`.1, and the neighbour `network`.9 if it is ours; gives the objects."""
    socket = daemon.directory / f"{name}.sock"
    address = f'addresses = ["{network}.1/24"]' if network else ""
    return f'[[interface]]\nname = "{name}"\n{address}\n{more}\nmemif = {{ socket = "{socket}"{memif} }}\n'


def neighbour(name, address):
    return f'[[neighbor]]\ninterface = "{name}"\naddress = "{address}"\nmac = "{US}"\n'


class Peer(RawMemif):
    """A pod made by hand on an interface: sends frames and gives what comes."""

    def __init__(self, daemon, name, mode=0):
        super().__init__(str(daemon.directory / f"{name}.sock"), mode=mode)
        self.connect()
        self.post_empty(self.size - 1)
        self.posted, self.sent, self.got = self.size - 1, 0, 0
        eventually(lambda: daemon.memif(name).get("connected"), f"{name} is connected")

    def put(self, frame):
        self.write(self.sent, bytes(frame))
        self.sent += 1
        self.head(self.sent)

    def take(self):
        """Frames that came since the last call."""
        frames = []
        while self.got < self.tail(1):
            where = self.rings[1] + 128 + self.got % self.size * 16
            length = int.from_bytes(self.memory[where + 4 : where + 8], "little")
            start = self.buffers + (self.size + self.got % self.size) * self.buffer
            frames.append(bytes(self.memory[start : start + length]))
            self.got += 1
        return frames

    def wait_for(self, wanted, patience=20):
        """Waits until a frame comes of which `wanted` is true."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            for frame in self.take():
                if wanted(frame):
                    return frame
            time.sleep(0.01)
        raise AssertionError("it didn't come")


def mac_of(daemon, name):
    return daemon.interface(name)["mac"]


HOSTS = {
    "rust": lambda cc, tmp_path: [EXAMPLES / "echo", "client"],
    "rust-tokio": lambda cc, tmp_path: [EXAMPLES / "async_echo", "client"],
    "c": lambda cc, tmp_path: [cc(C / "examples/echo.c"), "client"],
    "libmemif": lambda cc, tmp_path: [cc(C / "examples/libmemif-icmp.c", package="quiver-memif-compat", flags=["-Wno-sign-conversion"])],
    "go": lambda cc, tmp_path: [go(tmp_path), "-client"],
}


def go(tmp_path):
    program = tmp_path / "go-echo"
    subprocess.run(["go", "build", "-o", program, "./examples/echo"], cwd=ROOT / "libraries/go/memif", check=True, env=ENVIRONMENT)
    return program


@pytest.mark.parametrize("kind", HOSTS)
def test_a_host_answers_pings_through_quiverd(daemon, start, cc, tmp_path, kind):
    """A pod asks for 10.9.0.2; quiverd resolves it and routes there and back. The host goes and comes back in between."""
    daemon.apply(interface(daemon, "gen", "10.8.0") + interface(daemon, "app", "10.9.0") + neighbour("gen", "10.8.0.9"))
    socket = daemon.directory / "app.sock"
    command = HOSTS[kind](cc, tmp_path)
    arguments = [*command, socket, *(["0"] if kind.startswith("rust") else [])]
    with Peer(daemon, "gen") as peer:
        for life in range(2):
            host = start(*arguments)
            eventually(lambda: daemon.memif("app").get("connected"), lambda host=host: f"{kind} is connected: {host.text()}", timeout=20)
            for sequence in range(3):
                payload = bytes(range(40 + life))
                ask = Ether(src=US, dst=mac_of(daemon, "gen")) / IP(src="10.8.0.9", dst="10.9.0.2", ttl=64)
                ask = ask / ICMP(id=life, seq=sequence) / payload
                # What follows from RFC 792 and two hops of RFC 1812, of which the host's answer is the middle.
                reply = IP(src="10.9.0.2", dst="10.8.0.9", ttl=62, id=ask[IP].id) / ICMP(type=0, id=life, seq=sequence) / payload
                expected = bytes(Ether(src=mac_of(daemon, "gen"), dst=US) / reply)
                # The first waits for the neighbour, and may be too late for its queue.
                for _ in range(20):
                    peer.put(ask)
                    try:
                        peer.wait_for(lambda frame, expected=expected: frame == expected, patience=1)
                        break
                    except AssertionError:
                        continue
                else:
                    raise AssertionError(f"no answer: {host.text()} {daemon.drops()}")
            host.kill()
            host.wait()
            eventually(lambda: not daemon.memif("app").get("connected"), "the link is down")


def test_the_forwarder_routes_between_two_interfaces(daemon, start):
    """gen → quiverd → forwarder → quiverd, in another VRF → far: three hops, each of which takes one of the TTL."""
    right = interface(daemon, "right", "10.2.0", 'vrf = "far"') + interface(daemon, "far", "10.5.0", 'vrf = "far"')
    daemon.apply(
        '[[vrf]]\nname = "far"\n'
        + interface(daemon, "gen", "10.8.0")
        + interface(daemon, "left", "10.1.0")
        + right
        + neighbour("far", "10.5.0.9")
        + '[[route]]\nprefix = "10.5.0.0/24"\nnext_hops = [{ address = "10.1.0.2" }]\n'
    )
    sockets = [daemon.directory / f"{name}.sock" for name in ("left", "right")]
    legs = ["client", sockets[0], "0", "10.1.0.2/24", "client", sockets[1], "0", "10.2.0.2/24", "via", "10.2.0.1"]
    router = start(EXAMPLES / "forward", *legs)
    for name in ("left", "right"):
        eventually(lambda name=name: daemon.memif(name).get("connected"), lambda: router.text(), timeout=20)
    with Peer(daemon, "gen") as peer, Peer(daemon, "far") as far:
        for size in (18, 1000):
            packet = IP(src="10.8.0.9", dst="10.5.0.9", ttl=9, id=7) / UDP(sport=1, dport=2) / bytes(size)
            arrived = IP(src="10.8.0.9", dst="10.5.0.9", ttl=6, id=7) / UDP(sport=1, dport=2) / bytes(size)
            expected = bytes(Ether(src=mac_of(daemon, "far"), dst=US) / arrived)
            for _ in range(20):
                peer.put(Ether(src=US, dst=mac_of(daemon, "gen")) / packet)
                try:
                    far.wait_for(lambda frame, expected=expected: frame == expected, patience=1)
                    break
                except AssertionError:
                    continue
            else:
                raise AssertionError(f"nothing came: {router.text()} {daemon.drops()}")
        # A TTL that is used up at the forwarder: it came there with 1.
        spent = IP(src="10.8.0.9", dst="10.5.0.9", ttl=2, id=8) / UDP(sport=1, dport=2) / bytes(18)
        peer.put(Ether(src=US, dst=mac_of(daemon, "gen")) / spent)
        time.sleep(0.5)
        # An announcement may still come: quiverd says whose the address is a moment after the link is up.
        assert not [frame for frame in far.take() if frame[12:14] != ARP]


def test_the_recorder_writes_what_came(daemon, start, tmp_path):
    frame = Ether(src=US, dst="02:00:00:00:00:07") / IP(src="10.8.0.9", dst="10.5.0.9") / UDP(sport=1, dport=2) / bytes(range(200))
    generator = f'[[interface]]\nname = "gen"\ncross_connect = "rec"\ngenerator = {{ hex = "{bytes(frame).hex()}", rate = 2000 }}\n'
    daemon.apply(generator + interface(daemon, "rec", ""))
    file = tmp_path / "packets.pcap"
    recorder = start(EXAMPLES / "record", file, "client", daemon.directory / "rec.sock", "0", "count", "500")
    assert recorder.wait(timeout=60) == 0, recorder.text()
    packets = rdpcap(str(file))
    assert len(packets) == 500 and {bytes(packet) for packet in packets} == {bytes(frame)}
    times = [packet.time for packet in packets]
    assert times == sorted(times) and abs(float(times[-1]) - time.time()) < 120


@pytest.mark.parametrize("group", ["", ', trust_group = "chain"'], ids=["copied", "exchanged"])
@pytest.mark.parametrize("size", [64, 129, 1518, 9000])
def test_a_chain_of_two_peers(daemon, group, size):
    """quiver-tgen is the server of both of quiverd's clients; every byte of every packet is compared, twice around its rings."""
    sockets = [daemon.directory / f"{name}-peer.sock" for name in ("in", "out")]
    objects = [
        f'[[interface]]\nname = "{name}"\nmtu = 9200\nmemif = {{ socket = "{socket}", role = "client"{group} }}\n{more}'
        for name, socket, more in zip(("in", "out"), sockets, ('cross_connect = "out"\n', ""), strict=True)
    ]
    daemon.apply("".join(objects))
    arguments = ["--size", size, "--seconds", 20, "--count", 5000, "--rate", 5000, "--check", "payload", "--full", "--wait", 20]

    def lost_by_name():
        return sum(drop["packets"] for (node, _), drop in daemon.drops().items() if node == "memif-tx")

    for _ in range(2):
        before = lost_by_name()
        done = subprocess.run(
            [str(word) for word in [RELEASE / "quiver-tgen", "--role", "server", "--tx", sockets[0], "--rx", sockets[1], *arguments]],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        said = re.search(r"sent 5000, received (\d+), lost (\d+) \(", done.stdout)
        assert said and int(said[1]) > 4000 and "corrupted 0" in done.stdout, done.stdout + done.stderr + str(daemon.drops())
        # The second link may come up a moment after the first, and a generator that stands takes nothing: both have names.
        assert int(said[2]) <= lost_by_name() - before, done.stdout + done.stderr + str(daemon.drops())


def test_what_a_trust_group_may_not_be_is_refused_with_the_reason(daemon):
    status, results, _ = daemon.offer(interface(daemon, "srv", "", memif=', trust_group = "chain"'))
    assert status != 0 and "a server maps its peer's memory and has no buffers to share" in str(results), results
    memif = 'memif = {{ socket = "/run/none/{0}", role = "client", trust_group = "chain", buffer_size = {1} }}\n'
    client = '[[interface]]\nname = "{0}"\n' + memif
    daemon.apply(client.format("one", 2048))
    status, results, _ = daemon.offer(client.format("two", 4096))
    assert status != 0 and "interface one has another size in trust group chain" in str(results), results


def test_the_counter_counts(daemon, start):
    frame = Ether(src=US, dst="02:00:00:00:00:07") / IP(dst="10.5.0.9") / UDP() / bytes(100)
    generator = f'[[interface]]\nname = "gen"\ncross_connect = "cnt"\ngenerator = {{ hex = "{bytes(frame).hex()}", rate = 20000 }}\n'
    daemon.apply(generator + interface(daemon, "cnt", ""))
    counter = start(EXAMPLES / "count", "client", daemon.directory / "cnt.sock", "0")
    eventually(lambda: "received 0.0" in counter.text().replace("received 0.000", ""), counter.text, timeout=30)


def test_an_application_takes_part_in_what_quiverd_is(daemon):
    """Punted: UDP to quiverd's address, as it came; injected: the answer, with its TTL of 1. Without the application: an ICMP error."""
    app = interface(daemon, "app", "", memif=', mode = "punt_inject"')
    daemon.apply(interface(daemon, "gen", "10.8.0") + app + neighbour("gen", "10.8.0.9"))
    ask = IP(src="10.8.0.9", dst=GATEWAY, ttl=1, id=5) / UDP(sport=1000, dport=53) / bytes(range(200))
    answer = IP(src=GATEWAY, dst="10.8.0.9", ttl=1, id=6) / UDP(sport=53, dport=1000) / bytes(range(100))
    with Peer(daemon, "gen") as peer:
        with Peer(daemon, "app", mode=2) as application:
            peer.put(Ether(src=US, dst=mac_of(daemon, "gen")) / ask)
            application.wait_for(lambda packet: packet == bytes(ask))
            application.put(answer)
            expected = bytes(Ether(src=mac_of(daemon, "gen"), dst=US) / answer)
            peer.wait_for(lambda frame: frame == expected)
        daemon.cli("delete", "interface", "app")
        peer.put(Ether(src=US, dst=mac_of(daemon, "gen")) / ask)
        error = peer.wait_for(lambda frame: ICMP in Ether(frame))
        told = Ether(error)[ICMP]
        assert (told.type, told.code, bytes(told.payload)[:28]) == (3, 3, bytes(ask)[:28])


def test_one_application_takes_what_nothing_else_does(daemon):
    status, results, _ = daemon.offer("".join(interface(daemon, name, "", memif=', mode = "punt_inject"') for name in ("one", "two")))
    assert status != 0 and "is punt-inject in the same VRF already" in str(results), results
