"""What `session-stats` notes of conversations between kernels: pods a (10.1.0.2, fd00:1::2) and b (10.2.0.2, fd00:2::2)."""

import socket
import struct
import time

from lab.sessions import VERSIONS, only, sockets, tenant, timeouts

# A tap's packets come in at one worker, and each flow is one of the two's.
WORKERS = 2

NOTED = tuple(f'{way}_services = ["tcp-check", "l4-lifecycle", "session-stats"]' for way in ("forward", "reverse"))


def sent_again(connection):
    """Segments that the kernel has sent again: tcpi_total_retrans (linux/tcp.h)."""
    return struct.unpack_from("=I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 100)[0]


def statistics(session):
    return session["initiator_statistics"], session["responder_statistics"]


@VERSIONS
def test_a_slow_answer_is_the_responder_s(two, daemon, family, there):
    daemon.apply(tenant(*NOTED))
    with sockets(two, family, socket.SOCK_DGRAM, there) as (client, server):
        begun = time.monotonic()
        client.sendto(b"?", server.getsockname())
        _, asker = server.recvfrom(100)
        time.sleep(0.2)
        server.sendto(b"!", asker)
        client.recv(100)
        took = time.monotonic() - begun
        initiator, responder = statistics(only(daemon, "--protocol", "udp", "--port", str(server.getsockname()[1])))
        assert 200_000 <= responder["rtt_microseconds"] <= took * 1e6
        assert initiator["rtt_microseconds"] == 0, "not known"
        # Linux sends with 64 hops, and nobody is on the way.
        assert [(side["ttl_min"], side["ttl_max"]) for side in (initiator, responder)] == [(64, 64)] * 2


def test_segments_that_a_kernel_sends_again_are_counted(two, daemon):
    daemon.apply(tenant(timeouts(embryonic=600), *NOTED))
    _, b = two
    with sockets(two, socket.AF_INET, socket.SOCK_STREAM, "10.2.0.2") as (client, server):
        server.listen()
        # b knows no way to answer for a while: a's SYN has to come again.
        b.ip("route", "add", "blackhole", "10.1.0.2/32")
        try:
            client.setblocking(False)
            client.connect_ex(server.getsockname())
            time.sleep(0.5)
        finally:
            b.ip("route", "del", "blackhole", "10.1.0.2/32")
        client.settimeout(60)
        while client.connect_ex(server.getsockname()) not in (0, 106):
            time.sleep(0.1)
        connection, _ = server.accept()
        client.sendall(b"x" * 1000)
        connection.settimeout(30)
        assert len(connection.recv(1000, socket.MSG_WAITALL)) == 1000
        mine = ("--protocol", "tcp", "--port", str(server.getsockname()[1]))
        initiator, responder = statistics(only(daemon, *mine))
        again = sent_again(client)
        assert again >= 1
        assert (initiator["repeated_segments"], responder.get("repeated_segments", 0)) == (again, sent_again(connection))
        # SYN, PSH and ACK; the server has sent no data.
        assert (initiator["tcp_flags"], responder["tcp_flags"]) == (0x1A, 0x12)
        assert initiator["rtt_microseconds"] > 0
        (most,) = daemon.json("show", "session", "--top", "1", "--by", "repeated")["sessions"]
        assert most["id"] == only(daemon, *mine)["id"]
        assert f"{again}/{sent_again(connection)}" in daemon.cli("show", "session", *mine).stdout
        # What is there isn't summed up yet.
        assert "quiver_tenant_repeated_segments_total{" not in daemon.scrape()[1]
        daemon.cli("clear", "session", *mine)
        metrics = daemon.scrape()[1]
        of_red = lambda name, side: f'quiver_tenant_{name}_total{{tenant="red",side="{side}"}} '
        assert of_red("repeated_segments", "initiator") + f"{again}\n" in metrics, metrics
        assert of_red("timed_sessions", "responder") + "1\n" in metrics, metrics
        (red,) = daemon.json("show", "tenant", "red")["tenants"]
        assert int(red["initiator_totals"]["repeated_segments"]) == again
        rtt = initiator["rtt_microseconds"]
        assert int(red["initiator_totals"]["rtt_microseconds"]) == rtt
        seconds = float(metrics.split(of_red("round_trip_seconds", "initiator"))[1].split("\n")[0])
        assert abs(seconds - rtt / 1e6) < 1e-9


def test_services_are_shown_in_their_order_with_their_tenants(two, daemon):
    daemon.apply(tenant(*NOTED))
    services = {service["name"]: service for service in daemon.json("show", "service")["services"]}
    order = ["tcp-check", "l4-lifecycle", "session-stats", "balance", "acl", "policer", "redirect", "nat"]
    assert [name for name in services if name in order] == order
    for name in order:
        mine = ["red"] if name in order[:3] else []
        assert (services[name]["forward"], services[name]["reverse"]) == (mine, mine), name
