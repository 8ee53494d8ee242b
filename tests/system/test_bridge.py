"""Bridges, VLAN sub-interfaces and cross-connects between taps."""

import pytest
from lab import eventually
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

MARK = 0x88B5  # IEEE 802 local experimental


@pytest.fixture
def three(lab):
    """Pods a, b, c (10.5.0.2 to .4) in the bridge "lan"."""
    pods = [lab.pod(role) for role in "abc"]
    text = '[[bridge]]\nname = "lan"\n'
    for number, (name, pod) in enumerate(zip("abc", pods, strict=True), start=2):
        text += lab.plain_tap(name, pod, 'bridge = { name = "lan" }', address=f"10.5.0.{number}/24")
    lab.daemon.apply(text)
    return pods


def payload(text):
    return lambda frame: frame.type == MARK and bytes(frame.payload).startswith(text)


def station(number):
    return f"02:00:00:00:05:{number:02x}"


def mark(source, destination, text):
    return Ether(src=source, dst=destination, type=MARK) / Raw(text.ljust(46, b"\0"))


def macs(daemon, bridge="lan"):
    shown = next(entry for entry in daemon.show("bridge", bridge)["bridges"] if entry["name"] == bridge)
    return {entry["mac"]: entry.get("interface") for entry in shown.get("macs", [])}


def test_members_reach_each_other(three):
    a, b, c = three
    a.must_ping("10.5.0.3")
    b.must_ping("10.5.0.4", "-s", 1472, "-M", "do")
    c.must_ping("10.5.0.2")


def test_unknown_is_flooded_and_known_is_not(three, daemon):
    a, b, c = three
    everybody = "ff:ff:ff:ff:ff:ff"
    with a.wire() as at_a, b.wire() as at_b, c.wire() as at_c:
        at_a.send(mark(station(1), station(2), b"first"))
        at_b.expect(payload(b"first"), "flooded frame")
        at_c.expect(payload(b"first"), "flooded frame")
        at_b.send(mark(station(2), station(1), b"answer"), mark(station(2), everybody, b"end 1"))
        at_a.expect(payload(b"answer"), "answer")
        assert not at_c.collect(payload(b"answer"), payload(b"end 1")), "the answer's way was known"
        at_a.send(mark(station(1), station(2), b"second"), mark(station(1), everybody, b"end 2"))
        at_b.expect(payload(b"second"), "unicast frame")
        assert not at_c.collect(payload(b"second"), payload(b"end 2")), "unicast must not be flooded"
        table = macs(daemon)
        assert (table[station(1)], table[station(2)]) == ("a", "b"), table
        # A station that moves is found at its new place with its first frame.
        at_c.send(mark(station(1), station(2), b"moved"))
        at_b.expect(payload(b"moved"), "frame from the new place")
        at_b.send(mark(station(2), station(1), b"after"), mark(station(2), everybody, b"end 3"))
        at_c.expect(payload(b"after"), "frame to the new place")
        assert not at_a.collect(payload(b"after"), payload(b"end 3"))
    assert macs(daemon)[station(1)] == "c"
    # From a to c; nobody else has moved.
    assert daemon.show("bridge", "lan")["bridges"][0]["moves"] == 1
    assert 'quiver_bridge_moves_total{bridge="lan"} 1' in daemon.scrape()[1].splitlines()


def test_frames_do_not_return_where_they_came_from(three):
    a, b, _ = three
    with a.wire() as at_a, b.wire() as at_b:
        at_a.send(mark(station(1), "ff:ff:ff:ff:ff:ff", b"around"))
        at_b.expect(payload(b"around"), "broadcast")
        at_b.send(mark(station(2), "ff:ff:ff:ff:ff:ff", b"end"))
        assert not at_a.collect(payload(b"around"), payload(b"end"))


def test_split_horizon(lab, daemon):
    pods = [lab.pod(role) for role in "abc"]
    text = '[[bridge]]\nname = "lan"\n'
    for number, (name, pod, group) in enumerate(zip("abc", pods, (1, 1, 0), strict=True), start=2):
        bridge = f'bridge = {{ name = "lan", split_horizon_group = {group} }}'
        text += lab.plain_tap(name, pod, bridge, address=f"10.5.0.{number}/24")
    daemon.apply(text)
    a, b, c = pods
    c.must_ping("10.5.0.2")
    c.must_ping("10.5.0.3")
    assert a.ping("10.5.0.3", count=1, wait=1).received == 0
    assert b.ping("10.5.0.2", count=1, wait=1).received == 0


def test_static_and_forbidden_addresses(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    member = 'bridge = { name = "lan" }'
    daemon.apply(f"""
[[bridge]]
name = "lan"
flood_unknown_unicast = false
learn = false
static_macs = [{{ mac = "{station(2)}", interface = "b" }}, {{ mac = "{station(9)}", drop = true }}]
{lab.plain_tap("a", a, member)}
{lab.plain_tap("b", b, member)}
""")
    with a.wire() as at_a, b.wire() as at_b:
        for text, destination in ((b"unknown", station(7)), (b"forbidden", station(9)), (b"known", station(2))):
            at_a.send(mark(station(1), destination, text))
        seen = at_b.collect(lambda frame: frame.type == MARK, payload(b"known"))
    assert not seen, [frame.summary() for frame in seen]
    assert station(1) not in macs(daemon), "nothing may be learned"


def test_the_routed_leg_joins_bridge_and_router(lab, daemon):
    a, b, d = lab.pod("a"), lab.pod("b"), lab.pod("d")
    daemon.apply(
        '[[bridge]]\nname = "lan"\n[[interface]]\nname = "bvi"\naddresses = ["10.5.0.1/24"]\nloopback = {}\n'
        'bridge = { name = "lan", bvi = true }\n'
        + lab.plain_tap("a", a, 'bridge = { name = "lan" }', address="10.5.0.2/24")
        + lab.plain_tap("b", b, 'bridge = { name = "lan" }', address="10.5.0.3/24")
        + lab.tap("d", d, "10.6.0")
    )
    for pod in (a, b):
        pod.ip("route", "add", "default", "via", "10.5.0.1")
        pod.must_ping("10.5.0.1")
        pod.must_ping("10.6.0.2")
    d.must_ping("10.5.0.2")
    a.must_ping("10.5.0.3")
    assert daemon.show("bridge", "lan")["bridges"][0]["bvi"] == "bvi"
    assert set(daemon.show("bridge", "lan")["bridges"][0]["members"]) == {"a", "b", "bvi"}


def test_a_member_that_leaves_is_forgotten(three, daemon):
    a, _, _ = three
    a.must_ping("10.5.0.3")
    assert "b" in macs(daemon).values()
    daemon.delete("interface", "b")
    assert "b" not in macs(daemon).values(), macs(daemon)
    a.must_ping("10.5.0.4")


# -- VLAN ----------------------------------------------------------------------------------------------------------------


def vlan(name, parent, outer, network, inner=0, more=""):
    inside = f", inner_id = {inner}" if inner else ""
    return (
        f'[[interface]]\nname = "{name}"\naddresses = ["{network}.1/24"]\n{more}\n'
        f'vlan = {{ parent = "{parent}", outer_id = {outer}{inside} }}\n'
    )


@pytest.mark.parametrize(
    "inner, tags",
    [(0, lambda: Dot1Q(vlan=100)), (200, lambda: Dot1AD(vlan=100) / Dot1Q(vlan=200))],
    ids=["dot1q", "qinq"],
)
def test_tagged_packets_reach_their_sub_interface(lab, daemon, inner, tags):
    a = lab.pod("a")
    daemon.apply(lab.tap("a", a, "10.1.0") + vlan("a.100", "a", 100, "10.100.0", inner))
    here = a.mac()
    with a.wire() as wire:
        wire.send(Ether(src=here, dst="ff:ff:ff:ff:ff:ff") / tags() / ARP(hwsrc=here, psrc="10.100.0.2", pdst="10.100.0.1"))
        reply = wire.expect(lambda f: ARP in f and f[ARP].op == 2 and f[ARP].psrc == "10.100.0.1", "ARP reply")
        router = reply[ARP].hwsrc
        wire.send(Ether(src=here, dst=router) / tags() / IP(src="10.100.0.2", dst="10.100.0.1") / ICMP(id=1) / Raw(b"x" * 40))
        echo = wire.expect(lambda f: ICMP in f and f[ICMP].type == 0, "echo reply")
        # The same address without the tags is somebody else's.
        wire.send(Ether(src=here, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=here, psrc="10.1.0.2", pdst="10.100.0.1"))
        wire.send(Ether(src=here, dst="ff:ff:ff:ff:ff:ff") / ARP(hwsrc=here, psrc="10.1.0.2", pdst="10.1.0.1"))
        wrong = wire.collect(lambda f: ARP in f and f[ARP].op == 2, lambda f: ARP in f and f[ARP].op == 2 and f[ARP].psrc == "10.1.0.1")
    for frame in (reply, echo):
        if inner:
            assert (frame[Dot1AD].vlan, frame[Dot1AD].payload.vlan) == (100, 200), frame.summary()
        else:
            assert frame.type == 0x8100 and frame[Dot1Q].vlan == 100, frame.summary()
    assert not wrong
    assert daemon.counter("a.100", "rx_packets") >= 2


def test_routing_between_vlans(lab, daemon):
    a = lab.pod("a")
    daemon.apply(lab.plain_tap("a", a) + vlan("a.10", "a", 10, "10.10.0") + vlan("a.20", "a", 20, "10.20.0"))
    here = a.mac()
    daemon.apply(f'[[neighbor]]\ninterface = "a.20"\naddress = "10.20.0.2"\nmac = "{here}"\n')
    router = daemon.interface("a.10")["mac"]
    with a.wire() as wire:
        wire.send(Ether(src=here, dst=router) / Dot1Q(vlan=10) / IP(src="10.10.0.2", dst="10.20.0.2") / UDP() / Raw(b"hello"))
        frame = wire.expect(lambda f: UDP in f and f[IP].dst == "10.20.0.2", "routed packet")
    assert frame[Dot1Q].vlan == 20 and frame[IP].ttl == 63 and bytes(frame[UDP].payload)[:5] == b"hello"


def test_unknown_tags_are_dropped_and_named(lab, daemon):
    a = lab.pod("a")
    daemon.apply(lab.tap("a", a, "10.1.0") + vlan("a.100", "a", 100, "10.100.0"))
    router = daemon.interface("a")["mac"]
    with a.wire() as wire:
        wire.send(Ether(src=a.mac(), dst=router) / Dot1Q(vlan=999) / IP(dst="10.100.0.1") / ICMP())
    eventually(lambda: any("vlan" in reason for _, reason in daemon.drops()), lambda: f"the drop is named: {daemon.drops()}")


# -- cross-connect -------------------------------------------------------------------------------------------------------


def test_cross_connect_is_a_wire(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.plain_tap("a", a, 'cross_connect = "b"', address="10.7.0.2/24") + lab.plain_tap("b", b, address="10.7.0.3/24"))
    a.must_ping("10.7.0.3", "-s", 1472)
    b.must_ping("10.7.0.2")
    # Any frame passes, unread and unchanged: foreign addresses, foreign ethertypes, tags.
    frames = [mark(station(1), station(2), b"plain"), Ether(bytes(Ether(src=station(3), dst=station(4)) / Dot1Q(vlan=7) / Raw(b"t" * 50)))]
    with a.wire() as at_a, b.wire() as at_b:
        for frame in frames:
            at_a.send(frame)
            got = at_b.expect(lambda f, frame=frame: f.src == frame.src, "cross-connected frame")
            assert bytes(got) == bytes(frame)
