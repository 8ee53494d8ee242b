"""Routes, VRFs, neighbours, reverse path filter."""

import os
import signal

import pytest
from lab import eventually
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw


@pytest.fixture
def three(lab):
    """Pod a (10.1.0.2); behind it routers b (10.2.0.2) and c (10.3.0.2), both of which also are 10.99.0.1."""
    a, b, c = (lab.pod(role) for role in "abc")
    lab.daemon.apply("".join(lab.tap(name, pod, f"10.{n}.0") for n, (name, pod) in enumerate(zip("abc", (a, b, c), strict=True), 1)))
    for pod in (b, c):
        pod.ip("address", "add", "10.99.0.1/32", "dev", "lo")
    return a, b, c


def route(prefix, *hops, more=""):
    ways = ", ".join(f'{{ address = "{hop}" }}' for hop in hops)
    return f'[[route]]\nprefix = "{prefix}"\n{more}\n' + (f"next_hops = [{ways}]\n" if hops else "")


def test_a_route_is_used_until_it_is_deleted(three, daemon):
    a, _, _ = three
    assert "Net Unreachable" in a.ping("10.99.0.1", count=1).text
    daemon.apply(route("10.99.0.0/24", "10.2.0.2"))
    a.must_ping("10.99.0.1")
    assert daemon.counter("b", "tx_packets") >= 3
    daemon.apply(route("10.99.0.0/24", "10.3.0.2"))
    before = daemon.counter("b", "tx_packets")
    a.must_ping("10.99.0.1", count=5)
    assert daemon.counter("b", "tx_packets") <= before + 1, "the old way is no longer taken"
    daemon.delete("route", "default/10.99.0.0/24")
    assert "Net Unreachable" in a.ping("10.99.0.1", count=1).text


LARGE = pytest.mark.skipif(not os.environ.get("QUIVER_TEST_LARGE"), reason="takes half a minute and 2 GB: QUIVER_TEST_LARGE=1")


@pytest.mark.parametrize(("count", "times"), [(100_000, 2), pytest.param(2_000_000, 1, marks=LARGE)])
def test_very_many_routes_come_and_go_without_the_loss_of_a_packet(lab, daemon, tmp_path, count, times):
    """Packets to half of them go by the route around them before, between and afterwards."""
    daemon.apply(lab.memif("m12", 12) + lab.memif("m13", 13) + route("20.0.0.0/8", "10.13.0.2"))
    prefixes = [f"20.{n >> 16}.{n >> 8 & 255}.{n & 255}/32" for n in range(count)]
    many = tmp_path / "routes.toml"
    many.write_text("".join(route(prefix, "10.13.0.2") for prefix in prefixes))
    options = ("--destinations", 2 * count, "--random", "--rate", 20_000, "--seconds", 3600, "--drain", 20)
    with lab.generator("m12", "m13", 12, 13, *options, to="20.0.0.0") as generator:
        passed = lambda: daemon.counter("m13", "tx_packets")
        there = lambda prefix: daemon.cli("show", "fib", prefix, check=False).returncode == 0
        eventually(lambda: passed() > 1000, lambda: f"packets flow\n{generator.output()}")
        for _ in range(times):
            daemon.cli("apply", "-f", many)
            assert there(prefixes[0]) and there(prefixes[-1])
            daemon.cli("delete", "-f", many)
            assert not there(prefixes[0]) and not there(prefixes[-1])
        generator.signal(signal.SIGINT)
        assert lab.lossless_end(generator)["sent"] > 20_000


def test_the_longest_prefix_wins(three, daemon):
    a, b, c = three
    daemon.apply(route("0.0.0.0/0", "10.2.0.2") + route("10.99.0.0/16", "10.2.0.2") + route("10.99.0.1/32", "10.3.0.2"))
    with b.wire() as at_b, c.wire() as at_c:
        a.must_ping("10.99.0.1", count=1)
        at_c.expect(lambda f: ICMP in f and f[IP].dst == "10.99.0.1", "packet by the host route")
        a.ping("10.99.0.2", count=1, wait=1)
        at_b.expect(lambda f: ICMP in f and f[IP].dst == "10.99.0.2", "packet by the /16")
        a.ping("192.0.2.1", count=1, wait=1)
        at_b.expect(lambda f: ICMP in f and f[IP].dst == "192.0.2.1", "packet by the default route")


def test_equal_cost_ways_share_flows_and_keep_each_flow_together(three, daemon):
    a, b, c = three
    daemon.apply(route("10.99.0.0/24", "10.2.0.2", "10.3.0.2"))
    a.must_ping("10.2.0.2")
    a.must_ping("10.3.0.2")
    head = Ether(src=a.mac(), dst=daemon.interface("a")["mac"]) / IP(src="10.1.0.2", dst="10.99.0.1")
    seen = {}
    with a.wire() as wire, b.wire() as at_b, c.wire() as at_c:
        for port in range(1000, 1064):
            for number in range(3):
                wire.send(head / UDP(sport=port, dport=9) / Raw(bytes([number] * 30)))
        for last in (2, 3):
            wire.send(Ether(src=a.mac(), dst=daemon.interface("a")["mac"]) / IP(src="10.1.0.2", dst=f"10.{last}.0.2") / UDP(dport=99))
        for name, end in (("b", at_b), ("c", at_c)):
            seen[name] = [
                f[UDP].sport for f in end.collect(lambda f: UDP in f and f[UDP].dport == 9, lambda f: UDP in f and f[UDP].dport == 99)
            ]
    assert sorted(seen["b"] + seen["c"]) == sorted(list(range(1000, 1064)) * 3), "no packet is lost or doubled"
    assert not set(seen["b"]) & set(seen["c"]), "a flow keeps its way"
    # 64 flows: by chance fewer than 12 on a side happens once in ten million times.
    assert min(len(set(seen["b"])), len(set(seen["c"]))) >= 12, {name: len(set(ports)) for name, ports in seen.items()}


@pytest.mark.parametrize(
    "action, words",
    [
        ("unreachable", "Destination Host Unreachable|Destination Net Unreachable"),
        ("prohibit", "Packet filtered|Prohibited"),
        ("blackhole", None),
    ],
)
def test_route_actions(three, daemon, action, words):
    a, _, _ = three
    daemon.apply(route("10.98.0.0/24", more=f'action = "{action}"'))
    text = a.ping("10.98.0.1", count=1, wait=1).text
    if words:
        assert "From 10.1.0.1" in text and any(word in text for word in words.split("|")), text
    else:
        assert "From" not in text and "100% packet loss" in text, text
        assert daemon.dropped("blackhole") >= 1, daemon.drops()


def test_overlapping_addresses_in_two_vrfs(lab, daemon):
    pods = {name: lab.pod(name) for name in ("r1", "r2", "g1", "g2")}
    text = '[[vrf]]\nname = "red"\n[[vrf]]\nname = "green"\n'
    for color, vrf in (("r", "red"), ("g", "green")):
        text += lab.tap(f"{color}1", pods[f"{color}1"], "10.1.0", f'vrf = "{vrf}"')
        text += lab.tap(f"{color}2", pods[f"{color}2"], "10.2.0", f'vrf = "{vrf}"')
    daemon.apply(text)
    for color in "rg":
        with pods[f"{color}2"].wire() as wire:
            pods[f"{color}1"].must_ping("10.2.0.2", count=1)
            wire.expect(lambda f: ICMP in f and f[IP].src == "10.1.0.2", "packet in the same VRF")
    before = {name: daemon.counter(name, "tx_packets") for name in ("g1", "g2")}
    pods["r1"].must_ping("10.2.0.2", count=10)
    for name, count in before.items():
        assert daemon.counter(name, "tx_packets") <= count + 2, "nothing leaks into the other VRF"
    assert daemon.interface("r1")["vrf"] == "red"


def test_a_route_leads_into_another_vrf(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(
        '[[vrf]]\nname = "red"\n'
        + lab.tap("a", a, "10.1.0")
        + lab.tap("b", b, "10.2.0", 'vrf = "red"')
        + '[[route]]\nprefix = "10.2.0.0/24"\nnext_hops = [{ vrf = "red" }]\n'
        + '[[route]]\nvrf = "red"\nprefix = "10.1.0.0/24"\nnext_hops = [{ vrf = "default" }]\n'
    )
    a.must_ping("10.2.0.2")


def test_a_static_neighbour_needs_no_arp(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    daemon.apply('[[neighbor]]\ninterface = "b"\naddress = "10.2.0.9"\nmac = "02:00:00:00:00:99"\n')
    with b.wire() as wire:
        a.ping("10.2.0.9", count=1, wait=1)
        seen = wire.collect(
            lambda f: ARP in f and f[ARP].pdst == "10.2.0.9",
            lambda f: ICMP in f and f[IP].dst == "10.2.0.9" and f.dst == "02:00:00:00:00:99",
        )
    assert not seen, "no ARP request"
    shown = next(n for n in daemon.show("neighbor")["neighbors"] if n["address"] == "10.2.0.9")
    assert (shown["phase"], shown["mac"]) == ("static", "02:00:00:00:00:99")


def test_a_neighbour_that_changes_its_address_is_followed(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    a.must_ping("10.2.0.2")
    b.ip("link", "set", "eth0", "address", "02:00:00:00:00:42")
    with b.wire() as wire:
        wire.send(
            Ether(src="02:00:00:00:00:42", dst="ff:ff:ff:ff:ff:ff") / ARP(op=1, hwsrc="02:00:00:00:00:42", psrc="10.2.0.2", pdst="10.2.0.2")
        )
        eventually(
            lambda: any(n.get("mac") == "02:00:00:00:00:42" for n in daemon.show("neighbor").get("neighbors", [])),
            lambda: f"the announcement is believed: {daemon.show('neighbor')}",
        )
    a.must_ping("10.2.0.2")


def test_packets_wait_while_the_neighbour_is_asked(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    # The very first packet already arrives.
    a.must_ping("10.2.0.2", count=1)


@pytest.mark.parametrize("mode, passes", [("strict", (True, False, False)), ("loose", (True, True, False)), ("off", (True, True, True))])
def test_reverse_path_filter(lab, daemon, mode, passes):
    a, b, c = (lab.pod(role) for role in "abc")
    daemon.apply(lab.tap("a", a, "10.1.0", f'rpf = "{mode}"') + lab.tap("b", b, "10.2.0") + lab.tap("c", c, "10.3.0"))
    a.must_ping("10.2.0.2")
    router = daemon.interface("a")["mac"]
    with a.wire() as here, b.wire() as there:
        # Its own source, one that lives elsewhere, one that lives nowhere.
        for number, source in enumerate(("10.1.0.2", "10.3.0.2", "192.0.2.1"), 1):
            here.send(Ether(src=a.mac(), dst=router) / IP(src=source, dst="10.2.0.2") / UDP(sport=1, dport=number) / Raw(b"x" * 30))
        here.send(Ether(src=a.mac(), dst=router) / IP(src="10.1.0.2", dst="10.2.0.2") / UDP(sport=1, dport=99))
        seen = there.collect(lambda f: UDP in f and f[UDP].dport < 9, lambda f: UDP in f and f[UDP].dport == 99)
    assert [number in {f[UDP].dport for f in seen} for number in (1, 2, 3)] == list(passes)


def test_the_forwarding_table_is_shown(three, daemon):
    daemon.apply(route("10.99.0.0/24", "10.2.0.2", "10.3.0.2"))
    entries = {entry["prefix"]: entry for entry in daemon.show("fib").get("entries", [])}
    assert entries["10.99.0.0/24"]["source"] == "static"
    assert {path["address"] for path in entries["10.99.0.0/24"]["paths"]} == {"10.2.0.2", "10.3.0.2"}
    assert entries["10.1.0.0/24"]["source"] == "connected"


# -- IPv6 ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def six(lab, daemon):
    """Pods a (fd00:1::2) and b (fd00:2::2) behind one router; a's side has an MTU of 9000."""
    if "ip6-lookup" not in daemon.nodes():
        pytest.skip("this quiverd has no IPv6 (no node ip6-lookup)")
    pods = lab.pod("a"), lab.pod("b")
    text = ""
    for number, (name, pod, mtu) in enumerate(zip("ab", pods, (9000, 1500), strict=True), 1):
        text += (
            f'[[interface]]\nname = "{name}"\nmtu = {mtu}\naddresses = ["fd00:{number}::1/64"]\n'
            f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["fd00:{number}::2/64"], '
            f'host_gateways = ["fd00:{number}::1"] }}\n'
        )
        pod.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
    daemon.apply(text)
    for pod in pods:
        eventually(lambda pod=pod: "tentative" not in pod.ip("-6", "address").stdout, "the pods' addresses are usable")
    return pods


def test_ping_over_ipv6(six):
    a, b = six
    a.must_ping("fd00:1::1")
    a.must_ping("fd00:2::2", count=10)
    b.must_ping("fd00:1::2", "-s", 1400)


def test_path_mtu_over_ipv6(six):
    a, _ = six
    text = a.ping("fd00:2::2", "-M", "do", "-s", 4000).text
    assert "From fd00:1::1" in text and "Packet too big: mtu=1500" in text, text
    # The sender fragments, as RFC 8200 wants it.
    a.must_ping("fd00:2::2", "-s", 4000)


def test_errors_over_ipv6(six):
    a, _ = six
    assert "Destination unreachable: No route" in a.ping("fd00:77::1", count=1).text
    assert "Time exceeded: Hop limit" in a.ping("fd00:2::2", "-t", 1, count=1).text
    assert "Destination unreachable: Address unreachable" in a.ping("fd00:2::99", count=1, wait=8).text


def test_traceroute_over_ipv6(six):
    text = six[0].run("traceroute", "-6", "-n", "-q", 1, "-w", 2, "fd00:2::2").stdout
    assert "fd00:1::1" in text.splitlines()[1] and "fd00:2::2" in text.splitlines()[2], text
