"""Sessions that begin at one tenant's interface and are others', by rules. Pods a (10.1.0.2, fd00:1::2) and b (10.2.0.2, fd00:2::2)."""

import socket

import pytest
from lab.sessions import VERSIONS, only, sockets, tenant

LISTS = """
[[acl]]
name = "dns"
rules = [{ action = "permit", protocol = "udp", destination_ports = ["5353"] }]
[[acl]]
name = "connections"
rules = [{ action = "reflect", protocol = "tcp", tcp_flags = ["syn", "!ack"] }]
"""
CLASSES = 'classes = [{ acl = "dns", tenant = "voice" }, { acl = "connections", tenant = "web" }]'
OTHERS = """
[[tenant]]
name = "voice"
[[tenant]]
name = "web"
max_sessions = 1
"""


def created(daemon):
    return {it["name"]: int(it.get("created", 0)) for it in daemon.json("show", "tenant")["tenants"]}


def classified(daemon):
    daemon.apply(LISTS + tenant(CLASSES) + OTHERS)


@VERSIONS
def test_a_session_is_of_the_tenant_whose_class_lets_it_pass(two, daemon, family, there):
    classified(daemon)
    with sockets(two, family, socket.SOCK_DGRAM, there, 5353) as (client, server):
        client.sendto(b"?", server.getsockname())
        _, asker = server.recvfrom(100)
        server.sendto(b"!", asker)
        client.recv(100)
        session = only(daemon, "--protocol", "udp", "--port", "5353")
        assert (session["tenant"], session["phase"]) == ("voice", "established")
    with sockets(two, family, socket.SOCK_DGRAM, there) as (client, server):
        client.sendto(b"?", server.getsockname())
        server.recvfrom(100)
        assert only(daemon, "--protocol", "udp", "--port", str(server.getsockname()[1]))["tenant"] == "red"
    with sockets(two, family, socket.SOCK_STREAM, there) as (client, server):
        server.listen()
        client.connect(server.getsockname())
        mine = ("--protocol", "tcp", "--port", str(server.getsockname()[1]))
        assert only(daemon, *mine)["tenant"] == "web"
        # Its tenant may have one, which is in use; red has room for a million.
        with pytest.raises(TimeoutError), two[0].entered(), socket.socket(family, socket.SOCK_STREAM) as second:
            second.settimeout(2)
            second.connect(server.getsockname())
        assert only(daemon, *mine)["tenant"] == "web"
    hits = {acl["name"]: int(acl.get("permitted", 0)) + int(acl.get("reflected", 0)) for acl in daemon.json("show", "acl")["acls"]}
    assert hits["dns"] == 1 and hits["connections"] >= 2
    (red,) = (it for it in daemon.json("show", "tenant")["tenants"] if it["name"] == "red")
    assert red["classes"] == [{"acl": "dns", "tenant": "voice"}, {"acl": "connections", "tenant": "web"}]
    assert "dns:voice connections:web" in daemon.cli("show", "tenant").stdout


def test_explain_says_which_lists_decide(two, daemon):
    classified(daemon)
    said = daemon.cli("explain", "10.1.0.2:4000", "10.2.0.2", "udp/5353").stdout
    assert "whose it is: permit" in said and "voice" in said, said
    said = daemon.cli("explain", "10.1.0.2:4000", "10.2.0.2", "udp/53").stdout
    assert said.count("whose it is: no rule is met") == 2 and "voice" not in said.split("begins a session")[1], said


@pytest.mark.parametrize(
    "more, says",
    [
        (tenant(CLASSES) + OTHERS, "there is no acl dns"),
        (LISTS + tenant(CLASSES) + '[[tenant]]\nname = "web"\n', "there is no tenant voice"),
        (LISTS + tenant(CLASSES) + OTHERS.replace('"voice"\n', '"voice"\ncontext = 7\n'), "has another context"),
        (LISTS + tenant(CLASSES) + OTHERS.replace("max_sessions = 1", 'classes = [{ acl = "dns", tenant = "voice" }]'), "nobody"),
        (LISTS + tenant(CLASSES.replace('"web"', '"red"')) + OTHERS, "is the tenant itself"),
        (LISTS + tenant(CLASSES.replace("connections", "dns")) + OTHERS, "appears twice"),
    ],
)
def test_what_cannot_be_a_class_is_refused_by_name(two, daemon, more, says):
    refused = daemon.cli("apply", "-f", "-", stdin=more, check=False)
    assert refused.returncode != 0 and says in refused.stderr + refused.stdout, refused
    assert not daemon.json("show", "tenant").get("tenants")


def test_what_is_a_class_is_not_deleted_alone(two, daemon):
    classified(daemon)
    for kind, name in (("acl", "dns"), ("tenant", "voice")):
        refused = daemon.cli("delete", kind, name, check=False)
        assert refused.returncode != 0 and "refers to it" in refused.stderr + refused.stdout, refused
