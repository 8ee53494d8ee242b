"""Routing between taps, with the kernel's own tools as peers."""

import re

import pytest
from lab import eventually
from lab.laboratory import iperf
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

JUMBO = ("mtu = 9000",)


@pytest.fixture
def two(lab):
    """Pods a (10.1.0.2) and b (10.2.0.2) behind one router."""
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    return a, b


def test_ping_of_the_router_and_through_it(two):
    a, b = two
    a.must_ping("10.1.0.1")
    a.must_ping("10.2.0.2", count=20)
    b.must_ping("10.1.0.2")
    a.must_ping("10.2.0.1")


def test_ping_carries_its_bytes_unchanged(two):
    # ping compares what comes back with what it sent ("wrong data byte").
    for size in (0, 1, 17, 18, 64, 511, 1472):
        pings = two[0].must_ping("10.2.0.2", "-s", size, "-p", "a55a0ff0")
        assert "wrong data" not in pings.text


def test_jumbo_ping(lab):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", *JUMBO) + lab.tap("b", b, "10.2.0", *JUMBO))
    a.must_ping("10.2.0.2", "-s", 8000, "-M", "do")
    a.must_ping("10.2.0.2", "-s", 8972, "-M", "do")
    a.must_ping("10.1.0.1", "-s", 8000, "-M", "do")


def test_path_mtu_is_reported_and_learned(lab):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", *JUMBO) + lab.tap("b", b, "10.2.0"))
    pings = a.ping("10.2.0.2", "-M", "do", "-s", 4000)
    assert pings.received == 0, pings.text
    assert re.search(r"From 10\.1\.0\.1 .*Frag needed and DF set \(mtu = 1500\)", pings.text), pings.text
    assert "mtu 1500" in a.ip("route", "get", "10.2.0.2").stdout
    a.must_ping("10.2.0.2", "-M", "do", "-s", 1472)


def test_fragments_are_made_for_a_smaller_mtu(lab):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", *JUMBO) + lab.tap("b", b, "10.2.0"))
    # Not "want": then the kernel sets DF and would have to learn the path MTU first.
    pings = a.must_ping("10.2.0.2", "-M", "dont", "-s", 4000, "-p", "0123456789abcdef")
    assert "wrong data" not in pings.text
    with b.wire() as wire:
        a.must_ping("10.2.0.2", "-M", "dont", "-s", 4000, count=1)
        fragments = [wire.expect(lambda f: IP in f and f[IP].dst == "10.2.0.2", "fragment") for _ in range(3)]
    assert [(f[IP].frag * 8, f[IP].flags.MF) for f in fragments] == [(0, True), (1480, True), (2960, False)]
    assert [f[IP].len for f in fragments] == [1500, 1500, 20 + 4008 - 2960]


def test_arping_is_answered_with_the_interface_address(two, daemon):
    mac = daemon.interface("a")["mac"]
    done = two[0].run("arping", "-c", 3, "-I", "eth0", "10.1.0.1")
    assert "Received 3 response" in done.stdout and mac.upper() in done.stdout.upper(), done.stdout


def test_foreign_addresses_are_not_answered(two):
    done = two[0].run("arping", "-c", 2, "-w", 2, "-I", "eth0", "10.1.0.77", check=False)
    assert "Received 0 response" in done.stdout, done.stdout


def test_proxy_arp_answers_for_its_prefixes_only(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    proxy = 'proxy_arp = ["10.2.0.64/28", "10.2.0.100-10.2.0.101", "10.1.0.50/32"]'
    daemon.apply(lab.tap("a", a, "10.1.0", proxy) + lab.tap("b", b, "10.2.0"))
    mac = daemon.interface("a")["mac"]

    def ask(address):
        return Ether(src=a.mac(), dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=a.mac(), psrc="10.1.0.2", pdst=address)

    def reply(address):
        return lambda frame: ARP in frame and frame[ARP].op == 2 and (address is None or frame[ARP].psrc == address)

    answered = ["10.2.0.64", "10.2.0.79", "10.2.0.100", "10.2.0.101"]
    # The station 10.1.0.50 hears the question itself.
    silent = ["10.2.0.63", "10.2.0.80", "10.2.0.99", "10.2.0.102", "10.1.0.50"]
    with a.wire() as wire:
        for address in answered + silent:
            wire.send(ask(address))
        wire.send(ask("10.1.0.1"))
        replies = wire.collect(reply(None), reply("10.1.0.1"))
    assert [(f[ARP].psrc, f[ARP].hwsrc) for f in replies] == [(address, mac) for address in answered]


def test_traceroute_shows_the_router(two):
    for options in (("-U",), ("-I",), ("-T", "-p", "9")):
        text = two[0].run("traceroute", "-n", "-q", 1, "-w", 2, *options, "10.2.0.2").stdout
        hops = re.findall(r"^ *\d+ +(\S+)", text, re.MULTILINE)
        assert hops == ["10.1.0.1", "10.2.0.2"], text


def test_expired_ttl_is_reported_with_the_packet(two, daemon):
    a, _ = two
    router = daemon.interface("a")["mac"]
    payload = bytes(range(64))
    probe = Ether(src=a.mac(), dst=router) / IP(src="10.1.0.2", dst="10.2.0.2", ttl=1, id=4711) / UDP(sport=7, dport=9) / Raw(payload)
    with a.wire() as wire:
        wire.send(probe)
        error = wire.expect(lambda f: ICMP in f and f[ICMP].type == 11, "ICMP time exceeded")
    assert (error[IP].src, error[IP].dst, error[ICMP].code) == ("10.1.0.1", "10.1.0.2", 0)
    quoted = bytes(error[ICMP].payload)
    assert quoted[4:6] == (4711).to_bytes(2, "big"), "the packet's identification"
    # RFC 1812 4.3.2.3: as much of the packet as fits 576 bytes.
    assert payload in quoted
    assert _checksums_hold(error[IP])


def test_no_route_is_reported(two):
    pings = two[0].ping("10.77.0.1", count=1)
    assert "From 10.1.0.1" in pings.text and "Destination Net Unreachable" in pings.text, pings.text


def test_a_neighbour_that_does_not_answer_is_reported(two):
    pings = two[0].ping("10.2.0.99", count=1, wait=8)
    assert "From 10.1.0.1" in pings.text and "Destination Host Unreachable" in pings.text, pings.text


def test_broken_packets_are_dropped_and_named(two, daemon):
    a, b = two
    a.must_ping("10.2.0.2")
    header = Ether(src=a.mac(), dst=daemon.interface("a")["mac"])
    udp = UDP(sport=1, dport=2) / Raw(b"x" * 40)
    good = IP(src="10.1.0.2", dst="10.2.0.2")
    with a.wire() as here, b.wire() as there:
        here.send(
            header / IP(src="10.1.0.2", dst="10.2.0.2", chksum=0x1234) / udp,
            header / IP(src="10.1.0.2", dst="10.2.0.2", version=5) / udp,
            header / IP(src="10.1.0.2", dst="10.2.0.2", ihl=4) / udp,
            header / IP(src="10.1.0.2", dst="10.2.0.2", len=500) / udp,
            header / good / UDP(sport=1, dport=99) / Raw(b"marker"),
        )
        wrong = there.collect(lambda f: UDP in f and f[UDP].dport == 2, lambda f: UDP in f and f[UDP].dport == 99)
    assert not wrong, [frame.summary() for frame in wrong]
    invalid = {key for key, drop in daemon.drops().items() if drop.get("severity") == "invalid"}
    assert len(invalid) >= 3, daemon.drops()


@pytest.mark.parametrize("options", [(), ("-R",), ("-P", "4")], ids=["forth", "back", "four-flows"])
def test_tcp(two, options):
    result = iperf(two, "-t", "2", *options)
    assert result["end"]["sum_received"]["bytes"] > 1_000_000, result["end"]


def test_tcp_without_offload(lab):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", tap=", gso = false") + lab.tap("b", b, "10.2.0"))
    for options in ((), ("-R",)):
        result = iperf((a, b), "-t", "1", *options)
        assert result["end"]["sum_received"]["bytes"] > 1_000_000, result["end"]


def test_udp_without_loss_at_a_moderate_rate(two):
    result = iperf(two, "-u", "-b", "10M", "-l", "1400", "-t", "2")
    assert result["end"]["sum"]["packets"] > 1000 and result["end"]["sum"]["lost_packets"] == 0, result["end"]["sum"]


def test_tun_carries_packets(lab):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", tap=', mode = "tun"') + lab.tap("b", b, "10.2.0"))
    a.must_ping("10.1.0.1")
    a.must_ping("10.2.0.2", "-s", 1000)
    assert iperf((a, b), "-t", "1")["end"]["sum_received"]["bytes"] > 1_000_000


def test_several_queues(lab):
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0", tap=", queues = 4") + lab.tap("b", b, "10.2.0", tap=", queues = 2"))
    assert len(lab.daemon.interface("a")["placement"]) == 4
    for source in range(20, 28):
        # Other flows come from other queues.
        a.ip("address", "add", f"10.1.0.{source}/24", "dev", "eth0")
        a.must_ping("10.2.0.2", "-I", f"10.1.0.{source}", count=2)


def test_admin_down_and_up(two, daemon, lab):
    a, b = two
    a.must_ping("10.2.0.2")
    daemon.apply(lab.tap("b", b, "10.2.0", "admin_up = false"))
    assert a.ping("10.2.0.2", count=2, wait=1).received == 0
    daemon.apply(lab.tap("b", b, "10.2.0"))
    eventually(lambda: a.ping("10.2.0.2", count=1, wait=1).received, "ping answered again")


def test_kernel_addresses_and_mtu_are_set(lab, daemon):
    a = lab.pod("a")
    options = ', host_mtu = 1400, host_mac = "02:00:00:00:00:77", host_routes = [{ prefix = "10.96.0.0/12", via = "10.1.0.1" }]'
    daemon.apply(lab.tap("a", a, "10.1.0", device="net7", tap=options))
    assert "mtu 1400" in a.ip("link", "show", "net7").stdout
    assert a.mac("net7") == "02:00:00:00:00:77"
    routes = a.ip("route").stdout
    assert "default via 10.1.0.1" in routes and "10.96.0.0/12 via 10.1.0.1" in routes, routes
    daemon.delete("interface", "a")
    assert "net7" not in a.ip("link").stdout


def _checksums_hold(packet):
    """Whether the checksums are those that scapy computes."""
    again = IP(bytes(packet))
    del again.chksum, again[ICMP].chksum
    again = IP(bytes(again))
    return (again.chksum, again[ICMP].chksum) == (packet.chksum, packet[ICMP].chksum)
