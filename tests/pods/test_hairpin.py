"""A pod whose memif application asks a Service of its own, and is chosen itself."""

import socket

import pytest
from application import ip_application
from lab.process import eventually
from node import addresses

PORTS, SPEC = "cni.projectcalico.org/vppExtraMemifPorts", "cni.projectcalico.org/vppExtraMemifSpec"
VIP = "10.96.0.1", "fd96::1"
ASKED, LISTENS = 5555, 4444


def kernel(inside, own):
    """What is behind the application: a kernel with the pod's addresses. Real sockets ask and answer there."""
    return f"""
[[interface]]
name = "sockets"
addresses = ["10.88.0.1/24", "fd88::1/64"]
tap = {{ netns = "{inside.name}", host_name = "eth0", mode = "tun", host_addresses = ["{own[0]}/32", "{own[1]}/128"], host_routes = [{{ prefix = "0.0.0.0/0" }}, {{ prefix = "::/0" }}] }}
[[route]]
prefix = "{own[0]}/32"
next_hops = [{{ interface = "sockets" }}]
[[route]]
prefix = "{own[1]}/128"
next_hops = [{{ interface = "sockets" }}]
"""  # noqa: E501 (an inline table has one line)


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_a_memif_s_application_is_its_own_service_s_backend(node, client_daemon, protocol):
    pod, inside = node.pod("m"), node.pod("sockets")
    own = addresses(node.add(pod, {PORTS: f"{protocol}:{LISTENS}", SPEC: '{"isl3": true}'}))
    memif = next(name for name in node.attached() if name.endswith("memif-eth0"))
    # As the agent of a cluster has it.
    services = '["l4-lifecycle", "balance"]'
    names = ", ".join(f'"{name}"' for name in node.attached())
    node.daemon.apply(
        f'[[tenant]]\nname = "all"\ninterfaces = [{names}]\nforward_services = {services}\nreverse_services = {services}\n'
        + "".join(
            f'[[vip]]\nname = "svc-{at}"\naddress = "{vip}"\nprotocol = "{protocol}"\nport = {ASKED}\n'
            f'backends = [{{ address = "{address}", port = {LISTENS} }}]\n'
            for at, (vip, address) in enumerate(zip(VIP, own, strict=True))
        )
    )
    kind = socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM
    with ip_application(client_daemon, pod, behind=kernel(inside, own)):
        eventually(lambda: node.daemon.memif(memif).get("connected"), "the application connects")
        for address, vip in zip(own, VIP, strict=True):
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            with inside.entered():
                server, client = socket.socket(family, kind), socket.socket(family, kind)
            with server, client:
                for end in (server, client):
                    end.settimeout(30)
                server.bind((address, LISTENS))
                client.bind((address, 0))
                if protocol == "tcp":
                    server.listen()
                client.connect((vip, ASKED))
                client.send(b"who")
                if protocol == "tcp":
                    taken, seen = server.accept()
                    with taken:
                        assert taken.recv(9) == b"who"
                        taken.send(b"me")
                        assert client.recv(9) == b"me"
                else:
                    question, seen = server.recvfrom(9)
                    assert question == b"who"
                    server.sendto(b"me", seen)
                    assert client.recv(9) == b"me"
                # It isn't seen with its own address: the answer would stay in its kernel.
                assert seen[0] == vip, seen
    # Each was one session, both ways, and nothing of it was the pod's kernel's.
    vips = node.daemon.show("vip")["vips"]
    for vip in vips:
        assert int(vip["created"]) == 1 and int(vip["packets"]) > 0 and int(vip["answer_packets"]) > 0, vip
    tun = next(name for name in node.attached() if name != memif)
    assert int(node.daemon.counter(memif, "tx_packets")) >= sum(int(vip["packets"]) for vip in vips)
    assert int(node.daemon.counter(tun, "tx_packets")) == 0
    node.cni("del", pod)
