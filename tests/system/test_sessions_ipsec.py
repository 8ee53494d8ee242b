"""ESP and AH as sessions: pods a and b send each other packets of these protocols by raw sockets. What a kernel would seal is made up."""

import contextlib
import re
import socket

import pytest
from lab import eventually
from lab.sessions import VERSIONS, only, sessions, tenant, timeouts
from test_ipfix import exporting  # noqa: F401 (a fixture)

WORKERS = 2

ESP, AH = 50, 51


def esp(spi, size=64):
    """RFC 4303 section 2: SPI, sequence number, what is sealed."""
    return spi.to_bytes(4, "big") + bytes(4) + b"e" * size


def ah(spi):
    """RFC 4302 section 2: next header (none), length, reserved, SPI, sequence number, a check value of 12 bytes."""
    return bytes([59, 4, 0, 0]) + spi.to_bytes(4, "big") + bytes(4) + b"i" * 12


@contextlib.contextmanager
def raw(pods, family, protocol):
    """A raw socket in each pod."""
    with contextlib.ExitStack() as stack:
        both = []
        for pod in pods:
            with pod.entered():
                both.append(stack.enter_context(socket.socket(family, socket.SOCK_RAW, protocol)))
        for one in both:
            one.settimeout(30)
        yield both


def received(one, family):
    data = one.recv(2000)
    # Of IPv4 a raw socket has the header, too.
    return data[20:] if family == socket.AF_INET else data


def addresses(there):
    return there.replace("2.0.2", "1.0.2") if "." in there else there.replace(":2::", ":1::"), there


@VERSIONS
@pytest.mark.parametrize("protocol,name,packet", [(ESP, "esp", esp), (AH, "ah", ah)])
def test_each_way_is_a_session_with_an_spi(two, daemon, family, there, protocol, name, packet):
    # Both sides may begin: sessions of both ways are the tenant's.
    daemon.apply(tenant(interface='a", "b').replace('outside_interfaces = ["b"]\n', ""))
    here, _ = addresses(there)
    with raw(two, family, protocol) as (a, b):
        for spi in (0xC0FFEE01, 0x10001):
            for _ in range(3):
                a.sendto(packet(spi), (there, 0))
                assert received(b, family) == packet(spi)
        b.sendto(packet(0x10001), (here, 0))
        assert received(a, family) == packet(0x10001)
    found = sorted(sessions(daemon, "--protocol", name), key=lambda session: (session["initiator"], session["spi"]))
    expected = [
        (here, there, 0x10001, "established", 3),
        (here, there, 0xC0FFEE01, "established", 3),
        (there, here, 0x10001, "embryonic", 1),
    ]
    figures = ("initiator", "responder", "spi", "phase", "forward_packets")
    told = [tuple(int(session[key]) if key == "forward_packets" else session[key] for key in figures) for session in found]
    assert told == expected
    assert all(not session.get("initiator_port") and not session.get("reverse_packets") for session in found)
    assert only(daemon, "--spi", "0xc0ffee01")["initiator"] == here
    assert "0xc0ffee01" in daemon.cli("show", "session", "--spi", 0xC0FFEE01).stdout
    explained = daemon.json("explain", here, there, f"{name}/0xc0ffee01", "--tenant", "red")
    assert (explained["verdict"], explained["session"]["spi"]) == ("forwarded", 0xC0FFEE01)


def test_what_nat_can_t_translate_is_told_by_name_for_its_tenant(two, daemon):
    pool = '[[nat_pool]]\nname = "out"\naddresses = ["192.0.2.1"]\n'
    services = [f'{way}_services = ["l4-lifecycle", "nat"]' for way in ("forward", "reverse")]
    daemon.apply(pool + tenant('nat_pool = "out"', *services))
    for protocol, packet, reason in ((ESP, esp, "no-ports"), (AH, ah, "authenticated")):
        with raw(two, socket.AF_INET, protocol) as (a, _):
            a.sendto(packet(7), ("10.2.0.2", 0))
            eventually(lambda reason=reason: daemon.dropped(reason) == 1, lambda: str(daemon.drops()))
    (red,) = daemon.json("show", "tenant", "red")["tenants"]
    assert sorted((drop["node"], drop["reason"], int(drop["packets"])) for drop in red["drops"]) == [
        ("nat", "authenticated", 1),
        ("nat", "no-ports", 1),
    ]
    samples = re.findall(r"^quiver_tenant_drops_total\{(.*)\} 1$", daemon.scrape()[1], re.M)
    assert sorted(samples) == [f'tenant="red",node="nat",reason="{reason}"' for reason in ("authenticated", "no-ports")]
    assert "no-ports" in daemon.cli("show", "tenant", "red").stdout
    explained = daemon.json("explain", "10.1.0.2", "10.2.0.2", "esp/0x7", "--tenant", "red")
    assert (explained["verdict"], explained["node"], explained["reason"]) == ("dropped", "nat", "no-ports")


def test_flow_records_have_the_spi(exporting):  # noqa: F811
    pods, daemon, collector = exporting(services=tenant(timeouts(embryonic=600)))
    with raw(pods, socket.AF_INET, ESP) as (a, b):
        a.sendto(esp(0xC0FFEE01), ("10.2.0.2", 0))
        assert received(b, socket.AF_INET) == esp(0xC0FFEE01)
    daemon.cli("clear", "session", "--spi", "0xc0ffee01")
    its = lambda: [record for record in collector.records() if record.get("cflow.protocol") == "50"]
    eventually(its, lambda: str(collector.records()), interval=0.3)
    (record,) = its()
    assert (record["cflow.srcport"], record["cflow.dstport"]) == ("0", "0")
    assert int(record["cflow.ipsec_spi"], 0) == 0xC0FFEE01
