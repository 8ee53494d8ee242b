"""memif: quiver-tgen and DPDK as peers."""

import signal
import time

import pytest
from lab import eventually
from lab.dpdk import forwarder
from lab.laboratory import peer_mac, quiver_mac
from lab.raw_memif import HELLO, RawMemif, Refused
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether


def link(lab, left="", right="", mtu=1500, mode="ethernet"):
    """Memifs m12 and m13 with a router in between."""
    more = (f"mtu = {mtu}",)
    lab.daemon.apply(lab.memif("m12", 12, *more, memif=left, mode=mode) + lab.memif("m13", 13, *more, memif=right, mode=mode))


@pytest.mark.parametrize("size", [64, 65, 128, 129, 594, 1514])
def test_frames_arrive_whole(lab, size):
    link(lab)
    lab.lossless("m12", "m13", 12, 13, "--size", size, "--check", "payload", "--full")


@pytest.mark.parametrize("buffer", [2048, 16384], ids=["chained", "one-buffer"])
def test_jumbo_frames(lab, buffer):
    link(lab, mtu=9000)
    lab.lossless("m12", "m13", 12, 13, "--size", 9000, "--check", "payload", "--full", "--buffer-size", buffer)


def test_packets_longer_than_the_mtu_are_not_sent(lab):
    link(lab)
    result = lab.generate("m12", "m13", 12, 13, "--size", 1600, "--count", 100, "--rate", 1000, "--drain", 1)
    fragments = lab.daemon.counter("m13", "tx_packets")
    assert result["sent"] == 100 and (result["received"] == 0 or fragments > result["sent"]), result


def test_ip_mode(lab):
    link(lab, mode="ip")
    lab.lossless("m12", "m13", 12, 13, "--mode", "ip", "--size", 64, "--check", "payload", "--full")
    lab.lossless("m12", "m13", 12, 13, "--mode", "ip", "--size", 1500, "--check", "payload", "--full")


def test_mode_must_agree(lab, daemon):
    link(lab, mode="ip")
    with lab.generator("m12", "m13", 12, 13, "--mode", "ethernet", "--wait", "1", "--seconds", "1") as generator:
        assert generator.wait() != 0, generator.output()
    assert "mode mismatch" in daemon.memif("m12")["last_disconnect"]


@pytest.mark.parametrize("ring", [64, 256, 16384])
def test_ring_sizes_are_the_clients_choice(lab, daemon, ring):
    link(lab)
    with lab.generator("m12", "m13", 12, 13, "--ring-size", ring, "--rate", 1000, "--count", 1500) as generator:
        eventually(lambda: daemon.memif("m12").get("connected"), "m12 has a peer")
        queues = eventually(lambda: daemon.memif("m12").get("queues"), "the rings are shown")
        assert {queue["ring_size"] for queue in queues} == {ring}
        generator.finish()
    lab.lossless("m12", "m13", 12, 13, "--ring-size", ring)


@pytest.mark.parametrize("said, asked, had", [(256, 64, 64), (256, 256, 256), (256, 4096, 256), (1024, 16384, 1024)])
def test_a_server_that_says_a_size_of_rings_offers_no_larger_ones(lab, daemon, said, asked, had):
    link(lab, left=f", ring_size = {said}")
    with lab.generator("m12", "m13", 12, 13, "--ring-size", asked, "--rate", 1000, "--count", 1500) as generator:
        queues = eventually(lambda: daemon.memif("m12").get("queues"), "the rings are shown")
        assert {queue["ring_size"] for queue in queues} == {had}
        assert [daemon.memif(name)["max_ring_size"] for name in ("m12", "m13")] == [said, 16384]
        generator.finish()
    daemon.stop()
    daemon.start()
    assert daemon.memif("m12")["max_ring_size"] == said
    with RawMemif(str(lab.directory / "m12")) as peer:
        # Byte 44 of HELLO, which begins with two bytes of its type.
        assert peer.receive(HELLO)[42] == said.bit_length() - 1


def test_a_peer_with_larger_rings_than_the_server_offers_is_turned_away(lab, daemon):
    link(lab, left=", ring_size = 256")
    with RawMemif(str(lab.directory / "m12"), log2=9) as peer, pytest.raises(Refused, match=r"ring size 2\^9, allowed are 2\^6..=2\^8"):
        peer.connect()
    eventually(lambda: "ring size 2^9" in daemon.memif("m12").get("last_disconnect", ""), lambda: daemon.memif("m12"))
    assert "a larger ring_size" in daemon.log(), daemon.log()
    with RawMemif(str(lab.directory / "m12"), log2=8) as peer:
        peer.connect()


def test_dpdk_takes_the_largest_ring_that_is_offered(lab, daemon):
    """testpmd asks for 1024."""
    link(lab, left=", ring_size = 128", right=", ring_size = 2048")
    with forwarder(lab, ["m12", "m13"]) as dpdk:
        for name, size in (("m12", 128), ("m13", 1024)):
            queues = eventually(lambda name=name: daemon.memif(name).get("queues"), lambda: f"testpmd connects\n{dpdk.output()}", 20)
            assert {queue["ring_size"] for queue in queues} == {size}


def test_metrics_tell_whether_a_peer_is_connected(lab, daemon):
    link(lab)

    def told(*values):
        lines = [f'quiver_memif_connected{{interface="{name}"}} {value}' for name, value in zip(("m12", "m13"), values, strict=True)]
        eventually(lambda: set(lines) <= set(daemon.scrape()[1].splitlines()), lambda: f"{lines}\n{daemon.show('memif')}")

    told(0, 0)
    with RawMemif(str(lab.directory / "m12")).connect():
        told(1, 0)
    told(0, 0)


def test_a_secret_lets_in(lab):
    secret = ', secret = "correct horse"'
    link(lab, left=secret, right=secret)
    lab.lossless("m12", "m13", 12, 13, "--secret", "correct horse", count=500)


@pytest.mark.parametrize(
    "options, words", [(("--secret", "battery staple"), "incorrect secret"), ((), "secret required")], ids=["wrong", "none"]
)
def test_no_entry_without_the_secret(lab, daemon, options, words):
    link(lab, left=', secret = "correct horse"')
    assert "last reason  no peer has connected yet" in daemon.cli("show", "memif", "m12").stdout
    begun = time.time()
    with lab.generator("m12", "m13", 12, 13, "--wait", "1", "--seconds", "1", *options) as generator:
        assert generator.wait() != 0, generator.output()
    shown = daemon.memif("m12")
    assert begun < int(shown["last_disconnect_ns"]) / 1e9 < time.time(), shown
    assert words in shown["last_disconnect"] and not shown.get("connected"), shown
    assert words in daemon.cli("show", "memif").stdout
    assert "correct horse" not in daemon.log(), "the secret must not be logged"


def test_several_interfaces_on_one_socket(lab, daemon):
    path = lab.directory / "shared"
    for number in (12, 13):
        daemon.apply(
            f'[[interface]]\nname = "s{number}"\nmac = "{quiver_mac(number)}"\naddresses = ["10.{number}.0.1/24"]\n'
            f'memif = {{ socket = "{path}", id = {number} }}\n'
            f'[[neighbor]]\ninterface = "s{number}"\naddress = "10.{number}.0.2"\nmac = "{peer_mac(number)}"\n'
        )
    lab.lossless("shared#12", "shared#13", 12, 13)


def test_quiver_as_client_of_quiver(lab, daemon, own_daemon):
    # quiver-tgen -> m12 -> here (client) -> there (server, in another quiverd) -> m13 -> quiver-tgen
    other = own_daemon().start()
    daemon.apply(f"""
{lab.memif("m12", 12)}
[[interface]]
name = "here"
mac = "02:00:00:00:00:01"
addresses = ["10.20.0.1/24"]
memif = {{ socket = "{other.directory}/inner", role = "client", rx_queues = 2, tx_queues = 3, ring_size = 512 }}
[[route]]
prefix = "10.13.0.0/24"
next_hops = [{{ address = "10.20.0.2" }}]
[[neighbor]]
interface = "here"
address = "10.20.0.2"
mac = "02:00:00:00:00:02"
""")
    assert not daemon.memif("here").get("connected")
    other.apply(f"""
{lab.memif("m13", 13)}
[[interface]]
name = "there"
mac = "02:00:00:00:00:02"
addresses = ["10.20.0.2/24"]
memif = {{ socket = "{other.directory}/inner", role = "server", rx_queues = 3, tx_queues = 2 }}
[[neighbor]]
interface = "there"
address = "10.20.0.1"
mac = "02:00:00:00:00:01"
""")
    eventually(lambda: daemon.memif("here").get("connected") and other.memif("there").get("connected"), "both ends are up")
    lab.lossless("m12", "m13", 12, 13, count=500)
    rings = [(queue.get("rx", False), queue["ring_size"]) for queue in other.memif("there")["queues"]]
    assert sorted(rings) == [(False, 512)] * 2 + [(True, 512)] * 3, rings
    # The server goes and comes back: the client finds it by itself.
    other.kill()
    eventually(lambda: not daemon.memif("here").get("connected"), "the end is noticed")
    other.start()
    eventually(lambda: daemon.memif("here").get("connected"), "the client is back")
    lab.lossless("m12", "m13", 12, 13, count=500)


def test_a_killed_peer_is_noticed_and_may_return(lab, daemon):
    link(lab)
    for life in range(1, 4):
        with lab.generator("m12", "m13", 12, 13, "--rate", 2000, "--seconds", 60) as generator:
            eventually(lambda: daemon.memif("m12").get("connected"), "m12 has a peer")
            before = daemon.counter("m13", "tx_packets")
            eventually(lambda before=before: daemon.counter("m13", "tx_packets") > before + 100, "packets flow")
            generator.signal(signal.SIGKILL)
            generator.wait()
        eventually(lambda: not daemon.memif("m12").get("connected"), "the end is noticed")
        shown = daemon.memif("m12")
        assert "closed" in shown["last_disconnect"], shown
        assert (shown["connects"], shown["disconnects"]) == (life, life)
        assert not daemon.interface("m12").get("link_up") and daemon.interface("m12")["link_reason"]
    lab.lossless("m12", "m13", 12, 13, count=500)


def test_a_second_peer_is_turned_away(lab, daemon):
    link(lab)
    with lab.generator("m12", "m13", 12, 13, "--rate", 2000, "--seconds", 4) as first:
        eventually(lambda: daemon.memif("m12").get("connected"), "m12 has a peer")
        with lab.generator("m12", "m13", 12, 13, "--wait", "1", "--seconds", "1") as second:
            assert second.wait() != 0, second.output()
            assert "already connected" in second.output(), second.output()
        assert first.alive()
        first.finish()


def test_deleting_under_traffic_touches_nobody_else(lab, daemon):
    link(lab)
    daemon.apply(lab.memif("m14", 14) + lab.memif("m15", 15))
    with lab.generator("m14", "m15", 14, 15, "--rate", 20000, "--seconds", 60) as victim:
        eventually(lambda: daemon.memif("m14").get("connected"), "m14 has a peer")
        with lab.generator("m12", "m13", 12, 13, "--rate", 5000, "--count", 15000) as generator:
            eventually(lambda: daemon.counter("m13", "tx_packets") > 100, "packets flow")
            daemon.delete("interface", "m15")
            daemon.apply(lab.memif("m15", 15))
            daemon.delete("interface", "m14")
            lab.lossless_end(generator)
        eventually(lambda: not victim.alive() or "m14" not in str(daemon.show("memif")), "m14 is gone")
    # Both that were made anew carry packets.
    daemon.apply(lab.memif("m14", 14))
    lab.lossless("m14", "m15", 14, 15, count=500)


@pytest.mark.parametrize("queues", [1, 2], ids=["one-queue", "two-queues"])
def test_dpdk_forwards_between_two_memifs(lab, daemon, queues):
    # quiver-tgen -> m12 -> d0 -> testpmd (io) -> d1 -> m13 -> quiver-tgen; two VRFs, so that there is no shortcut.
    memif = f"rx_queues = {queues}, tx_queues = {queues}"
    daemon.apply(f"""
[[vrf]]
name = "far"
{lab.memif("m12", 12)}
{lab.memif("m13", 13, 'vrf = "far"')}
[[interface]]
name = "d0"
addresses = ["10.20.0.1/24"]
memif = {{ socket = "{lab.directory}/d0", {memif} }}
[[interface]]
name = "d1"
vrf = "far"
mac = "02:00:00:00:00:d1"
addresses = ["10.20.0.2/24"]
memif = {{ socket = "{lab.directory}/d1", {memif} }}
[[neighbor]]
interface = "d0"
address = "10.20.0.2"
mac = "02:00:00:00:00:d1"
[[route]]
prefix = "10.13.0.0/24"
next_hops = [{{ address = "10.20.0.2" }}]
""")
    with forwarder(lab, ["d0", "d1"], queues) as dpdk:
        for name in ("d0", "d1"):
            eventually(lambda name=name: daemon.memif(name).get("connected"), lambda: f"testpmd connects\n{dpdk.output()}", 20)
            assert len(daemon.memif(name)["queues"]) == 2 * queues
        # A DPDK client posts no buffers before it first polls: let one packet through first.
        eventually(
            lambda: lab.generate("m12", "m13", 12, 13, "--count", 10, "--rate", 100, "--drain", 1)["received"] == 10,
            lambda: f"testpmd forwards\n{dpdk.output()}",
        )
        for size in (64, 1514):
            lab.lossless("m12", "m13", 12, 13, "--size", size, "--check", "payload", "--full", rate=2000)
        dpdk.signal(signal.SIGKILL)
        dpdk.wait()
    eventually(lambda: not daemon.memif("d0").get("connected") and not daemon.memif("d1").get("connected"), "its end is noticed")


def test_traffic_between_tap_and_memif(lab, daemon):
    a = lab.pod("a")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.memif("m12", 12) + lab.memif("m13", 13))
    with a.wire() as wire, lab.generator("m12", "m13", 12, 1, "--count", 50, "--rate", 500):
        frame = wire.expect(lambda f: UDP in f and f[IP].dst == "10.1.0.2", "packet of the generator")
    assert (frame[Ether].src, frame[Ether].dst) == (daemon.interface("a")["mac"], a.mac())
    assert frame[IP].ttl == 63
