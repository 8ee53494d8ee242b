"""Load balancing: a client asks a VIP that nobody has, and two backends in namespaces of their own answer, by kernels' TCP and UDP."""

import collections
import contextlib
import socket
import threading

import pytest
from lab import eventually
from lab.laboratory import iperf

# A tap's packets come in at one worker, each flow is one of the two's: questions and answers cross.
WORKERS = 2

VIP = {4: "10.96.0.1", 6: "fd96::1"}
BACKENDS = {4: ("10.2.0.2", "10.3.0.2"), 6: ("fd02::2", "fd03::2")}
SERVICES = "".join(f'{way}_services = ["tcp-check", "l4-lifecycle", "balance"]\n' for way in ("forward", "reverse"))
TENANT = f'[[tenant]]\nname = "red"\ninterfaces = ["a", "b", "c"]\n{SERVICES}'


def interfaces(pods):
    return "".join(
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24", "fd0{number}::1/64"]\n'
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24", "fd0{number}::2/64"], '
        f'host_gateways = ["10.{number}.0.1", "fd0{number}::1"] }}\n'
        for number, (name, pod) in enumerate(zip("abc", pods, strict=True), 1)
    )


def backend(address, port=8080, more=""):
    return f'{{ address = "{address}", port = {port}{more} }}'


def vip(backends, version=4, name="web", port=80, more=""):
    return f'[[vip]]\nname = "{name}"\naddress = "{VIP[version]}"\nport = {port}\n{more}backends = [{", ".join(backends)}]\n'


@pytest.fixture
def three(lab, daemon):
    pods = [lab.pod(role) for role in "abc"]
    daemon.apply(interfaces(pods) + TENANT)
    for address in (*BACKENDS[4], *BACKENDS[6]):
        eventually(lambda to=address: pods[0].ping(to, count=1, wait=1).received == 1, lambda: str(daemon.drops()))
    return pods


def made(pod, version=4, kind=socket.SOCK_STREAM):
    with pod.entered():
        one = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, kind)
    one.settimeout(20)
    return one


@contextlib.contextmanager
def web(pod, text, version=4):
    """A web server of Python's in a pod, which answers with that text."""
    with pod.entered():
        server = socket.create_server(("", 8080), family=socket.AF_INET if version == 4 else socket.AF_INET6, backlog=256)
    stop = threading.Event()

    def serve():
        server.settimeout(0.2)
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = server.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection):
        connection.settimeout(60)
        with connection, contextlib.suppress(OSError):
            while connection.recv(4096):
                body = text.encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        server.close()


def ask(connection):
    """The body of an answer to a request on a connection that stays."""
    connection.sendall(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n")
    head, _, body = connection.recv(4096).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return body.decode()


def connected(pod, version=4, port=80):
    one = made(pod, version)
    one.connect((VIP[version], port))
    return one


def answers(pod, count, version=4):
    """Who answers so many connections, one after the other."""
    who = collections.Counter()
    for _ in range(count):
        with connected(pod, version) as connection:
            who[ask(connection)] += 1
    return who


def shown(daemon, name="web"):
    return daemon.json("show", "vip", name)["vips"][0]


def sessions(daemon, name="web"):
    return {one["address"]: int(one.get("sessions", 0)) for one in shown(daemon, name).get("backends", [])}


@pytest.mark.parametrize("version", [4, 6])
def test_backends_answer_for_a_vip(three, daemon, version):
    a, b, c = three
    one, other = BACKENDS[version]
    daemon.apply(vip([backend(one), backend(other)], version))
    with web(b, "b", version), web(c, "c", version):
        done = a.run("curl", "-sS", "-m", "20", f"http://{VIP[4]}/" if version == 4 else f"http://[{VIP[6]}]/")
        assert done.stdout in ("b", "c"), done
        who = answers(a, 60, version)
        assert set(who) == {"b", "c"} and min(who.values()) >= 10, who
        with connected(a, version) as connection:
            served = ask(connection)
            state = shown(daemon)
            assert int(state["created"]) == 62 and int(state["sessions"]) >= 1, state
            assert int(state["packets"]) > 62 and int(state["answer_packets"]) > 62, state
            by = daemon.json("show", "session", "--address", VIP[version], "--state", "established")["sessions"]
            assert {"b": one, "c": other}[served] in {session["backend"] for session in by}, by
            assert {session["backend_port"] for session in by} == {8080} and not any(s.get("translated") for s in by), by
    text = daemon.cli("show", "vip").stdout
    assert "maglev" in text and "active" in text, text
    assert 'quiver_vip_backend_sessions{vip="web",backend=' in daemon.scrape()[1]


def test_connections_stay_when_backends_change(three, daemon):
    a, b, c = three
    one, other = (backend(address) for address in BACKENDS[4])
    daemon.apply(vip([one, other]))
    with web(b, "b"), web(c, "c"), contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connected(a)) for _ in range(40)]
        served = [ask(connection) for connection in kept]
        assert set(served) == {"b", "c"}

        def all_stay(which=("b", "c")):
            for connection, by in zip(kept, served, strict=True):
                assert by not in which or ask(connection) == by

        # Taken away, with sessions: these go on, new ones are the other's.
        daemon.apply(vip([one]))
        all_stay()
        assert set(answers(a, 20)) == {"b"}
        assert {one["address"]: one.get("leaving", False) for one in shown(daemon)["backends"]} == {"10.2.0.2": False, "10.3.0.2": True}
        # Back, and draining.
        daemon.apply(vip([one, backend("10.3.0.2", more=', state = "draining"')]))
        all_stay()
        assert set(answers(a, 20)) == {"b"}
        # Weights, and another algorithm.
        daemon.apply(vip([backend("10.2.0.2", more=", weight = 0"), other], more='algorithm = "least_flows"\n'))
        all_stay()
        assert set(answers(a, 20)) == {"c"}
        # Down: its sessions end, the other's stay.
        daemon.apply(vip([one, backend("10.3.0.2", more=', state = "down"')]))
        all_stay(("b",))
        eventually(lambda: sessions(daemon)["10.3.0.2"] == 0, lambda: str(shown(daemon)))
        assert set(answers(a, 20)) == {"b"}
        # None at all.
        daemon.apply(vip([]))
        all_stay(("b",))
        before = int(shown(daemon).get("refused", 0))
        with made(a) as refused:
            refused.settimeout(2)
            with pytest.raises(OSError):
                refused.connect((VIP[4], 80))
        assert int(shown(daemon)["refused"]) > before
        assert ("balance", "no-backend") in daemon.drops(), daemon.drops()
        all_stay(("b",))
    daemon.delete("vip", "web")
    # What clients still send, their FINs above all, are sessions like others now, that nobody takes.
    shared = lambda: [one for one in daemon.json("show", "session").get("sessions", []) if one.get("backend")]
    eventually(lambda: not shared(), lambda: f"its sessions end: {shared()}")


def test_least_flows_are_shared_out_evenly(three, daemon):
    a, b, c = three
    daemon.apply(vip([backend(address) for address in BACKENDS[4]], more='algorithm = "least_flows"\n'))
    with web(b, "b"), web(c, "c"), contextlib.ExitStack() as stack:
        served = collections.Counter(ask(stack.enter_context(connected(a))) for _ in range(40))
        assert served == {"b": 20, "c": 20}


def test_a_client_keeps_its_backend(three, daemon):
    a, b, c = three
    both = [backend(address) for address in BACKENDS[4]]
    daemon.apply(vip(both, more="affinity_seconds = 600\n"))
    with web(b, "b"), web(c, "c"):
        assert len(answers(a, 30)) == 1, "whatever its port"
        daemon.apply(vip(both, more='affinity_seconds = 600\nalgorithm = "least_flows"\n'))
        assert len(answers(a, 30)) == 1


def test_a_backend_asks_itself(three, daemon):
    _, b, _ = three
    daemon.apply(vip([backend("10.2.0.2")]))
    with web(b, "b"):
        assert answers(b, 10) == {"b": 10}
        session = daemon.json("show", "session", "--address", VIP[4])["sessions"][0]
        assert session["translated"] == VIP[4] and session["backend"] == "10.2.0.2", session


def test_datagrams_and_errors(three, daemon):
    a, b, _ = three
    daemon.apply(vip([backend("10.2.0.2", 5353)], name="dns", port=53, more='protocol = "udp"\n'))
    with made(b, kind=socket.SOCK_DGRAM) as server, made(a, kind=socket.SOCK_DGRAM) as client:
        server.bind(("10.2.0.2", 5353))
        client.connect((VIP[4], 53))
        for size in (1, 1400):
            client.send(b"x" * size)
            data, asker = server.recvfrom(2000)
            assert (len(data), asker[0]) == (size, "10.1.0.2")
            server.sendto(b"y" * size, asker)
            assert len(client.recv(2000)) == size
    # Nobody listens any more: the error speaks of the VIP, else the client's kernel wouldn't know it.
    with made(a, kind=socket.SOCK_DGRAM) as client:
        client.connect((VIP[4], 53))

        def refused():
            try:
                client.send(b"x")
                client.settimeout(0.2)
                client.recv(10)
            except ConnectionRefusedError:
                return True
            except TimeoutError:
                return False
            return False

        eventually(refused, lambda: str(daemon.drops()))


def test_connections_move_data(three, daemon):
    a, b, _ = three
    daemon.apply(vip([backend("10.2.0.2", 5201)], port=5201, name="iperf"))
    for more in (["-n", "50M"], ["-n", "20M", "-R"]):
        result = iperf((a, b), *more, to=VIP[4])
        assert result["end"]["sum_received"]["bytes"] >= 10_000_000
    assert not [reason for node, reason in daemon.drops() if node in ("balance", "tcp-check")], daemon.drops()


def test_what_makes_no_sense_is_refused_by_name(lab, daemon):
    web_at_b = vip([backend("10.2.0.2")])
    interface = '[[interface]]\nname = "a"\nsink = {}\naddresses = ["10.96.0.1/24"]\n'
    for toml, field, reason in (
        (web_at_b + vip([], name="web2"), "address", "is vip web's already"),
        (vip([backend(VIP[4], 80)]), "backends[0].address", "the VIP itself"),
        (vip([backend("10.2.0.2", more=", weight = 0")]), "backends", "none has a weight"),
        (vip([backend("fd02::2")]), "backends[0].address", "another family"),
        (web_at_b + interface, "address", "own address of interface a"),
        (web_at_b + vip([backend(VIP[4], 80)], name="web2", port=81), "backends[0].address", "where vip web is asked"),
    ):
        status, outcomes, errors = daemon.offer(toml)
        text = f"{outcomes} {errors}"
        assert status != 0 and field in text and reason in text, text


@pytest.mark.parametrize("version", [4, 6])
def test_clients_are_refused_at_once_or_left_alone_where_nobody_is_behind(three, daemon, version):
    """As the client's kernel means it: a RST ends its connect, an ICMP error is told to whoever has sent by a connected socket."""
    client = three[0]

    def asked(kind):
        with made(client, version, kind) as one:
            one.settimeout(2)
            one.connect((VIP[version], 80))
            one.send(b"who?")
            return one.recv(100)

    for more, refused in (("", TimeoutError), ('without_backends = "reject"\n', ConnectionRefusedError)):
        for protocol, kind in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)):
            daemon.apply(vip([], version, name=protocol, more=f'protocol = "{protocol}"\n{more}'))
            with pytest.raises(refused):
                asked(kind)
    counted = daemon.drops()
    assert counted[("balance", "rejected")]["packets"] >= 2 and counted[("balance", "no-backend")]["packets"] >= 2, counted
    told = {line.rpartition(" ")[0] for line in daemon.scrape()[1].splitlines() if "node_events_total" in line}
    assert 'quiver_node_events_total{node="tcp-reset",event="resets"}' in told, told
    assert f'quiver_node_events_total{{node="icmp{version}-error",event="unreachable"}}' in told, told
    # Who comes is served, and of those who may ask.
    own, others = {4: ("10.1.0.2/32", "10.1.0.3/32"), 6: ("fd01::2/128", "fd01::3/128")}[version]
    with web(three[1], "b", version):
        daemon.apply(vip([backend(BACKENDS[version][0])], version, name="tcp", more=f'sources = ["{own}"]\n'))
        with made(client, version) as one:
            one.connect((VIP[version], 80))
            assert ask(one) == "b"
            daemon.apply(vip([backend(BACKENDS[version][0])], version, name="tcp", more=f'sources = ["{others}"]\n'))
            with pytest.raises(TimeoutError):
                asked(socket.SOCK_STREAM)
            assert daemon.dropped("source-denied") >= 1
            assert ask(one) == "b", "the session that there is goes on"
