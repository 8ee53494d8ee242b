"""Direct server return: a VIP that backends have themselves, by kernels' TCP and UDP; answers go by a wire of their own."""

import contextlib
import socket
import time

import pytest
from lab import eventually
from test_balance import BACKENDS, SERVICES, VIP, ask, backend, connected, interfaces, sessions, shown, vip, web

# A tap's packets come in at one worker, each flow is one of the two's.
WORKERS = 2

CLIENT = {4: "10.1.0.2", 6: "fd01::2"}
DIRECT = "direct_server_return = true\n"
#: No time for connections that aren't open, and none whose beginning isn't seen.
TENANT = (
    f'[[tenant]]\nname = "red"\ninterfaces = ["a", "b", "c"]\n{SERVICES}midstream = "security"\n'
    "timeouts = { embryonic_seconds = 1, established_seconds = 60 }\n"
)


def wire(client, server, number):
    """Answers of a server go to the client by a device of both, with the VIP as their source: nobody routes them."""
    client.ip("link", "add", f"from{number}", "type", "veth", "peer", "name", "back", "netns", server.name)
    for pod, device, host in ((client, f"from{number}", 1), (server, "back", 2)):
        pod.ip("addr", "add", f"192.168.{number}.{host}/24", "dev", device)
        pod.ip("addr", "add", f"fd99:{number}::{host}/64", "dev", device, "nodad")
        pod.ip("link", "set", device, "up")
        pod.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", f"net.ipv4.conf.{device}.rp_filter=0")
    server.ip("route", "add", f"{CLIENT[4]}/32", "via", f"192.168.{number}.1")
    server.ip("route", "add", f"{CLIENT[6]}/128", "via", f"fd99:{number}::1")
    # Its own, and nobody is told: neighbours that ask for it on other devices would get an answer else.
    server.run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
    server.ip("addr", "add", f"{VIP[4]}/32", "dev", "lo")
    server.ip("addr", "add", f"{VIP[6]}/128", "dev", "lo", "nodad")


@pytest.fixture
def three(lab, daemon):
    client, *servers = pods = [lab.pod(role) for role in "abc"]
    daemon.apply(interfaces(pods) + TENANT)
    # Once its addresses are there and usable; nobody asks for servers before packets for the VIP come.
    for address in ("10.1.0.1", "fd01::1"):
        eventually(lambda to=address: client.ping(to, count=1, wait=1).received == 1, lambda: str(daemon.drops()))
    for number, server in enumerate(servers, 1):
        wire(client, server, number)
        eventually(lambda of=server: "tentative" not in of.ip("addr").stdout, lambda: "a server's addresses are usable")
    return pods


def backends(version, states=("active", "active")):
    """Both, at the VIP's own port."""
    pairs = zip(BACKENDS[version], states, strict=True)
    return [backend(address, more=f', state = "{state}"') for address, state in pairs]


@contextlib.contextmanager
def served(servers, version):
    """Web servers at the VIP's own port."""
    with contextlib.ExitStack() as stack:
        for server, text in zip(servers, "bc", strict=True):
            stack.enter_context(web(server, text, version))
        yield


def apply(daemon, version, more="", states=("active", "active")):
    daemon.apply(vip(backends(version, states), version, port=8080, more=DIRECT + more))


@pytest.mark.parametrize("version", [4, 6])
def test_the_server_answers_the_client_itself(three, daemon, version):
    a, *servers = three
    apply(daemon, version)
    with served(servers, version):
        host = VIP[4] if version == 4 else f"[{VIP[6]}]"
        done = a.run("curl", "-sS", "-m", "20", f"http://{host}:8080/")
        assert done.stdout in ("b", "c"), done
        who = answers_at(a, 40, version)
        assert set(who) == {"b", "c"} and min(who.values()) >= 5, who
        with connected(a, version, 8080) as connection:
            by = ask(connection)
            one = {"b": BACKENDS[version][0], "c": BACKENDS[version][1]}[by]
            there = daemon.json("show", "session", "--address", VIP[version], "--state", "established")["sessions"]
            assert one in {session["backend"] for session in there}, there
            assert all(int(session.get("reverse_packets", 0)) == 0 for session in there), there
            # Longer than one without an answer would last: and what isn't seen from its beginning would be dropped.
            time.sleep(3)
            assert ask(connection) == by
            port = connection.getsockname()[1]
            said = daemon.cli("explain", bracketed(CLIENT[version], port), VIP[version], "tcp/8080").stdout
            assert f" to {one}" in said and "which answers past Quiver" in said, said
        state = shown(daemon)
        assert int(state["packets"]) > 42 and int(state.get("answer_packets", 0)) == 0, state
        assert state["direct_server_return"] is True, state
    assert "maglev, direct" in daemon.cli("show", "vip").stdout
    unwanted = {"tcp-check", "balance", "direct-return", "ip4-direct", "ip6-direct"}
    assert not unwanted & {node for node, _ in daemon.drops()}, daemon.drops()


def answers_at(pod, count, version):
    """Who answers so many connections to the VIP, one after the other."""
    who = {}
    for _ in range(count):
        with connected(pod, version, 8080) as connection:
            by = ask(connection)
            who[by] = who.get(by, 0) + 1
    return who


def bracketed(address, port):
    return f"{address}:{port}" if "." in address else f"[{address}]:{port}"


def test_connections_stay_when_backends_drain_and_end_when_they_are_down(three, daemon):
    a, *servers = three
    apply(daemon, 4)
    with served(servers, 4), contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connected(a, 4, 8080)) for _ in range(30)]
        by = [ask(connection) for connection in kept]
        assert set(by) == {"b", "c"}
        apply(daemon, 4, states=("draining", "active"))
        assert [ask(connection) for connection in kept] == by
        assert set(answers_at(a, 10, 4)) == {"c"}
        apply(daemon, 4, 'algorithm = "least_flows"\naffinity_seconds = 60\n')
        assert [ask(connection) for connection in kept] == by
        assert len(answers_at(a, 10, 4)) == 1, "a client has its backend again"
        apply(daemon, 4, states=("down", "active"))
        eventually(lambda: sessions(daemon)[BACKENDS[4][0]] == 0, lambda: "sessions of a backend that is down end")
        for connection, one in zip(kept, by, strict=True):
            assert one == "b" or ask(connection) == one


def test_datagrams_are_answered_by_the_server_itself(three, daemon):
    a, b, _ = three
    daemon.apply(vip(backends(4)[:1], 4, port=8080, more=DIRECT + 'protocol = "udp"\n'))
    with b.entered():
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with a.entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with server, client:
        server.bind((VIP[4], 8080))
        for each in (server, client):
            each.settimeout(20)
        client.connect((VIP[4], 8080))
        # The first one waits for the server's link-layer address; the last ones come in fragments.
        for size in (10, 100, 4000):
            client.send(b"q" * size)
            asked, who = server.recvfrom(9000)
            assert len(asked) == size and who[0] == CLIENT[4]
            server.sendto(b"a" * size, who)
            assert client.recv(9000) == b"a" * size
        (session,) = daemon.json("show", "session", "--address", VIP[4], "--protocol", "udp")["sessions"]
        assert "established" in session["phase"].lower(), session
        assert int(session.get("reverse_packets", 0)) == 0, session


def test_what_is_translated_is_refused_by_name(daemon):
    for more, address, port, field in (
        ('source_nat = "always"\n', BACKENDS[4][0], 80, "source_nat"),
        ('source_nat_address = "10.9.9.9"\n', BACKENDS[4][0], 80, "source_nat_address"),
        ("", BACKENDS[4][0], 8080, "backends[0].port"),
        ("", BACKENDS[6][0], 80, "backends[0].address"),
    ):
        done = daemon.cli("apply", "-f", "-", stdin=vip([backend(address, port)], more=DIRECT + more), check=False)
        assert done.returncode != 0 and f"field   {field}\n" in done.stdout, done
