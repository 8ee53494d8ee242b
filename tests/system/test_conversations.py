"""quiver-tgen's conversations: against the kernel's TCP and UDP, and through the router with both ends its own."""

import contextlib
import json
import os
import socket
import threading

import pytest
from lab import eventually
from lab.laboratory import peer_mac, quiver_mac
from lab.process import Process, tool

REQUEST, RESPONSE = 3000, 20000


def generator(mode, *options):
    """Starts `quiver-tgen stateful` or `replay`."""
    core = min(os.sched_getaffinity(0))
    return Process(tool("quiver-tgen"), mode, "--output", "json", "--core", core, "--strict", *options)


def side(lab, name, which, number):
    """Options that put one side behind the memif `name`."""
    return (
        f"--{which}-interface", f"{lab.directory}/{name}", f"--{which}-mac", peer_mac(number),
        f"--{which}-next-hop", quiver_mac(number),
    )  # fmt: skip


def both(lab, *options):
    """Clients behind m12, servers behind m13. Of their addresses Quiver knows the first; for the others it must ask."""
    lab.daemon.apply(lab.memif("m12", 12) + lab.memif("m13", 13))
    return (
        *side(lab, "m12", "client", 12), *side(lab, "m13", "server", 13),
        "--clients", "10.12.0.2-10.12.0.21:1024-1073", "--servers", "10.13.0.2-10.13.0.4:80-81", *options,
    )  # fmt: skip


def meet(options):
    """Lets Quiver know all neighbours before packets are sent that nobody repeats; TCP repeats what waited too long."""
    with generator("stateful", *options) as ends:
        result = json.loads(ends.finish())
    assert result["client"]["closed"] == result["client"]["attempted"] > 0, result["client"]


@contextlib.contextmanager
def kernel_server(pod, answer):
    """A TCP server of the kernel's in the pod: for each connection `answer` runs in a thread."""
    with pod.entered():
        listener = socket.create_server(("::", 7777), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def respond(connection):
    """Answers each request of REQUEST bytes by RESPONSE bytes until the client closes."""
    with connection, contextlib.suppress(OSError):
        got = 0
        while piece := connection.recv(1 << 16):
            got += len(piece)
            while got >= REQUEST:
                got -= REQUEST
                connection.sendall(bytes(RESPONSE))


def pod_behind(lab):
    """A pod behind a tap, and memif m12."""
    pod = lab.pod("kernel")
    lab.daemon.apply(lab.memif("m12", 12) + lab.tap("t14", pod, "10.14.0"))
    return pod


def pod_behind6(lab):
    """The same with addresses of IPv6: fd00:12::/64 behind the memif, fd00:14::2 the pod's."""
    pod = lab.pod("kernel")
    pod.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
    lab.daemon.apply(
        memif6(lab, "m12", 12)
        + '[[interface]]\nname = "t14"\naddresses = ["fd00:14::1/64"]\n'
        + f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["fd00:14::2/64"], '
        + 'host_gateways = ["fd00:14::1"] }\n'
    )
    return pod


def memif6(lab, name, number):
    """A routed memif server, fd00:<number>::1/64, and the first neighbour behind it, as `Laboratory.memif` has it.

    A first SYN that waits for its neighbour would reach it beside its own repetition: a connection more than there is.
    """
    return (
        f'[[interface]]\nname = "{name}"\naddresses = ["fd00:{number}::1/64"]\nmac = "{quiver_mac(number)}"\n'
        f'memif = {{ socket = "{lab.directory}/{name}", role = "server" }}\n'
        f'[[neighbor]]\ninterface = "{name}"\naddress = "fd00:{number}::2"\nmac = "{peer_mac(number)}"\n'
    )


KERNEL_SERVERS = {
    "IPv4": (pod_behind, "10.12.0.2-10.12.0.11:20000-20019", "10.14.0.2:7777"),
    "IPv6": (pod_behind6, "[fd00:12::2-fd00:12::b]:20000-20019", "[fd00:14::2]:7777"),
}


@pytest.mark.parametrize("version", KERNEL_SERVERS)
def test_clients_of_a_kernel_server(lab, version):
    behind, own, servers = KERNEL_SERVERS[version]
    pod = behind(lab)
    with kernel_server(pod, respond), generator(
        "stateful", *side(lab, "m12", "client", 12), "--clients", own,
        "--servers", servers, "--turns", 3, "--request", REQUEST, "--response", RESPONSE,
        "--rate", 100, "--connections", 300, "--seconds", 20, "--verify",
    ) as clients:  # fmt: skip
        result = json.loads(clients.finish())
    assert result["client"]["closed"] == 300 and result["client"]["bytes"] == 300 * 3 * RESPONSE, result
    assert result["client_link"]["bad_checksum"] == 0, result["client_link"]


def test_a_port_where_nobody_listens_refuses(lab):
    pod_behind(lab)
    with generator(
        "stateful", *side(lab, "m12", "client", 12), "--clients", "10.12.0.2:20000-20019",
        "--servers", "10.14.0.2:7778", "--rate", 100, "--connections", 20, "--seconds", 20,
    ) as clients:  # fmt: skip
        assert clients.wait() == 1, "nothing was established"
        # The words follow the figures.
        result = json.loads(clients.output().rpartition("}")[0] + "}")
    assert result["client"]["failed"]["refused"] == 20, result["client"]


@pytest.mark.parametrize(
    ("behind", "address", "connections"),
    [(pod_behind, "10.12.0.2", 1), (pod_behind, "10.12.0.2", 50), (pod_behind6, "fd00:12::2", 20)],
)
def test_servers_of_kernel_clients(lab, behind, address, connections):
    pod = behind(lab)
    own = f"[{address}]:80" if ":" in address else f"{address}:80"
    with generator(
        "stateful", *side(lab, "m12", "server", 12), "--servers", own, "--turns", 2,
        "--request", REQUEST, "--response", RESPONSE, "--seconds", 600, "--verify",
    ) as servers:  # fmt: skip
        for _ in range(connections):
            with pod.entered():
                client = socket.create_connection((address, 80), timeout=20)
            with client:
                for _ in range(2):
                    client.sendall(bytes(REQUEST))
                    left = RESPONSE
                    while left:
                        piece = client.recv(left)
                        assert piece, "closed early"
                        left -= len(piece)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1) == b"", "the server closes, too"
        servers.process.terminate()
        result = json.loads(servers.finish())
    assert result["server"]["closed"] == connections, result["server"]
    assert result["server"]["bytes"] == connections * 2 * REQUEST
    assert result["server_link"]["bad_checksum"] == 0, result["server_link"]


def both6(lab, *options):
    """Clients and servers as of `both`, over IPv6."""
    lab.daemon.apply(memif6(lab, "m12", 12) + memif6(lab, "m13", 13))
    return (
        *side(lab, "m12", "client", 12), *side(lab, "m13", "server", 13),
        "--clients", "[fd00:12::2-fd00:12::15]:1024-1073", "--servers", "[fd00:13::2-fd00:13::4]:80-81", *options,
    )  # fmt: skip


@pytest.mark.parametrize("ends_of", [both, both6])
@pytest.mark.parametrize("profile", ["tcp-cps", "udp-cps", "tcp-tput", "udp-tput"])
def test_both_ends_through_the_router(lab, profile, ends_of):
    options = ("--rate", 1000, "--connections", 2000, "--seconds", 60, "--timeout", 20)
    meet(ends_of(lab, *options))
    with generator("stateful", *ends_of(lab, "--profile", profile, *options)) as ends:
        result = json.loads(ends.finish())
    assert result["client"]["closed"] == result["client"]["attempted"] == 2000, result["client"]
    turns = {"tcp-cps": 0, "udp-cps": 1}.get(profile, 5)
    assert result["client"]["messages"] == result["server"]["messages"] == 2000 * turns
    assert result["connect_latency_ns"]["count"] == 2000


def test_a_device_that_goes_away_is_told(lab):
    lab.daemon.apply(lab.memif("m12", 12) + lab.memif("m13", 13))
    with generator("stateful", *both(lab, "--rate", 100, "--seconds", 600)) as ends:
        up = lambda name: lab.daemon.memif(name).get("connected")
        eventually(lambda: up("m12") and up("m13"), "both links are up")
        lab.daemon.delete("interface", "m12")
        assert ends.wait() == 4
        assert "m12" in ends.output() and "lost" in ends.output(), ends.output()


def test_replayed_conversations_come_through(lab):
    options = ("--rate", 1000, "--connections", 1280, "--seconds", 60)
    meet(both(lab, *options))
    with generator("replay", *both(lab, *options, "--profile", "tcp-tput", "--apart", 1, "--drain", 5)) as replay:
        result = json.loads(replay.finish())
    assert len(result["steps"]) == 16
    assert all(step["sent"] == step["received"] == 1280 for step in result["steps"]), result["steps"]
