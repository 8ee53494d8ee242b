"""Rules: a, b and c in namespaces of their own talk by their kernels' TCP, UDP and ICMP, and lists say who may."""

import contextlib
import socket
import time

import pytest
from lab import eventually
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, PadN
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from test_balance import BACKENDS, ask, backend, interfaces, made, vip, web

# Each flow is one of the two's.
WORKERS = 2

ADDRESS = {4: {"a": "10.1.0.2", "b": "10.2.0.2", "c": "10.3.0.2"}, 6: {"a": "fd01::2", "b": "fd02::2", "c": "fd03::2"}}
CHAIN = "".join(f'{way}_services = ["tcp-check", "l4-lifecycle", "balance", "acl"]\n' for way in ("forward", "reverse"))

#: Neighbour discovery has no sessions; everything else that keeps hosts alive here has none either.
ECHO = [
    '{ action = "reflect", protocol = "icmp", icmp_type = 8 }',
    '{ action = "reflect", protocol = "icmpv6", icmp_type = 128 }',
]


def tenant(*acls, more=""):
    lists = ", ".join(f'"{name}"' for name in acls)
    return f'[[tenant]]\nname = "red"\ninterfaces = ["a", "b", "c"]\n{CHAIN}acls = [{lists}]\n{more}'


def acl(name, *rules, more=""):
    return f'[[acl]]\nname = "{name}"\n{more}rules = [\n' + "".join(f"  {rule},\n" for rule in rules) + "]\n"


def endpoint(name, ingress=(), egress=()):
    def lists(names):
        return ", ".join(f'"{name}"' for name in names)

    addresses = lists(ADDRESS[version][name] for version in (4, 6))
    return f'[[endpoint]]\nname = "{name}"\naddresses = [{addresses}]\ningress_acls = [{lists(ingress)}]\negress_acls = [{lists(egress)}]\n'


def address_set(name, **members):
    text = "".join(f"{field} = [{', '.join(repr(one) for one in value)}]\n" for field, value in members.items())
    return f'[[address_set]]\nname = "{name}"\n{text}'


def tcp(port, action="reflect", more=""):
    return f'{{ action = "{action}", protocol = "tcp", destination_ports = ["{port}"]{more} }}'


@pytest.fixture
def three(lab, daemon):
    pods = [lab.pod(role) for role in "abc"]
    daemon.apply(interfaces(pods))
    for version in (4, 6):
        for name in "bc":
            eventually(lambda to=ADDRESS[version][name]: pods[0].ping(to, count=1, wait=1).received == 1, lambda: str(daemon.drops()))
    return dict(zip("abc", pods, strict=True))


def connect(pod, to, version=4, port=8080, wait=3):
    """A connection, or None where there is no answer."""
    one = made(pod, version)
    one.settimeout(wait)
    try:
        one.connect((ADDRESS[version].get(to, to), port))
    except OSError:
        one.close()
        return None
    one.settimeout(20)
    return one


def reaches(pod, to, version=4, port=8080, wait=1.5):
    one = connect(pod, to, version, port, wait)
    if one is None:
        return False
    with one:
        return bool(ask(one))


def denied(daemon, reason="denied"):
    return daemon.drops().get(("acl", reason), {}).get("packets", 0)


def hits(daemon, name):
    """Hits by rule, and sessions that met none."""
    shown = daemon.json("show", "acl", name)["acls"][0]
    return [int(rule.get("hits", 0)) for rule in shown.get("rules", [])], int(shown.get("unmatched", 0))


def match(daemon, *session):
    return daemon.json("show", "acl", "--match", *session)


@pytest.mark.parametrize("version", [4, 6])
def test_rules_say_who_may_talk_to_whom(three, daemon, version):
    a, b, c = three.values()
    of = ADDRESS[version]
    whole = 32 if version == 4 else 128
    rules = [
        f'{{ name = "from-a", action = "reflect", sources = ["{of["a"]}/{whole}"], protocol = "tcp", destination_ports = ["8000-8100"] }}',
        '{ action = "reflect", protocol = "udp", destination_ports = ["53"] }',
    ]
    daemon.apply(acl("all", *rules) + tenant("all"))
    with web(b, "b", version):
        assert reaches(a, "b", version)
        assert not reaches(c, "b", version)
        assert a.ping(of["b"], count=2, wait=1).received == 0
        with made(b, version, socket.SOCK_DGRAM) as server, made(c, version, socket.SOCK_DGRAM) as client:
            server.bind((of["b"], 53))
            client.connect((of["b"], 53))
            client.send(b"who?")
            data, asker = server.recvfrom(100)
            server.sendto(b"me", asker)
            assert (data, client.recv(100)) == (b"who?", b"me")
        (from_a, dns), unmatched = hits(daemon, "all")
        assert from_a == 1 and dns == 1 and unmatched >= 2, (from_a, dns, unmatched)
        assert denied(daemon) >= 2
        # The same classifier says it beforehand.
        said = match(daemon, of["a"], of["b"], "tcp/8080")
        assert said["verdict"] == "passes" and said["steps"][0]["rule"]["rule"]["name"] == "from-a", said
        said = match(daemon, of["c"], of["b"], "tcp/8080")
        assert said["verdict"] == "denied" and "rule" not in said["steps"][0], said
        text = daemon.cli("show", "acl", "--match", of["c"], of["b"], "tcp/8080").stdout
        assert "tenant red: denied" in text and "none" in text, text
        # A rule in front.
        daemon.apply(acl("all", tcp(8080, "deny"), *ECHO, *rules))
        assert not reaches(a, "b", version)
        assert a.ping(of["b"], count=2, wait=2).received == 2
        (deny, *_, dns), _ = hits(daemon, "all")
        assert deny >= 1 and dns == 1, "a rule keeps its hits when others come before it"
    assert 'quiver_acl_sessions_total{acl="all",action="deny"}' in daemon.scrape()[1]
    assert "from-a" in daemon.cli("show", "acl", "all").stdout


def test_permit_lets_answers_pass_where_a_rule_does(three, daemon):
    a, b, _ = three.values()
    back = '{ action = "permit", protocol = "tcp", source_ports = ["8080"] }'
    daemon.apply(acl("all", tcp(8080, "permit")) + tenant("all"))
    with web(b, "b"):
        assert not reaches(a, "b")
        assert denied(daemon, "answers-denied") >= 1
        assert match(daemon, "10.1.0.2", "10.2.0.2", "tcp/8080")["verdict"] == "answers_denied"
        daemon.apply(acl("all", tcp(8080, "permit"), back))
        assert reaches(a, "b")
        assert hits(daemon, "all")[0][1] >= 1
        assert match(daemon, "10.1.0.2", "10.2.0.2", "tcp/8080")["verdict"] == "passes"


def test_only_what_begins_with_a_syn(three, daemon):
    a, b, _ = three.values()
    daemon.apply(acl("all", tcp(8080, more=', tcp_flags = ["syn", "!ack"]')) + tenant("all"))
    with web(b, "b"), contextlib.closing(connect(a, "b")) as kept:
        assert ask(kept) == "b"
        # What it began with counts, not what comes by when rules are asked again.
        daemon.apply(acl("all", *ECHO, tcp(8080, more=', tcp_flags = ["syn", "!ack"]')))
        assert ask(kept) == "b"
        daemon.apply(acl("all", tcp(8080, more=', tcp_flags = ["ack"]')))
        assert not reaches(a, "b")


def test_a_new_deny_cuts_what_is_established_and_nothing_else(three, daemon):
    a, b, c = three.values()
    rules = [tcp(8080), *ECHO]
    daemon.apply(acl("all", *rules) + tenant("all"))
    with web(b, "b"), contextlib.closing(connect(a, "b")) as cut, contextlib.closing(connect(c, "b")) as other:
        assert ask(cut) == ask(other) == "b"
        deny = '{ action = "deny", sources = ["10.1.0.2"], protocol = "tcp" }'
        # None of these may be lost.
        with c.pinging("10.2.0.2", 0.01):
            for _ in range(10):
                daemon.apply(acl("all", deny, *rules))
                daemon.apply(acl("all", *rules, deny))
                assert ask(other) == "b"
            daemon.apply(acl("all", deny, *rules))
            cut.settimeout(2)
            with pytest.raises(TimeoutError):
                ask(cut)
            assert ask(other) == "b"
        assert denied(daemon) >= 1
        # Let pass again, it goes on: its kernel has kept what was lost.
        daemon.apply(acl("all", *rules))
        cut.settimeout(20)
        assert cut.recv(4096).endswith(b"b")
        # Sessions may be kept.
        daemon.apply(tenant("all", more="keep_sessions = true\n"))
        assert ask(cut) == "b"
        daemon.apply(acl("all"))
        assert ask(cut) == ask(other) == "b"
        assert not reaches(a, "b")


def test_members_of_a_set_come_and_go(three, daemon):
    a, b, c = three.values()
    rule = '{ action = "reflect", source_sets = ["clients"], protocol = "tcp", destination_ports = ["8080"] }'
    daemon.apply(address_set("clients", members=["10.1.0.2", "192.0.2.0/24"]) + acl("all", rule) + tenant("all"))
    with web(b, "b"), contextlib.closing(connect(a, "b")) as kept:
        assert ask(kept) == "b" and not reaches(c, "b")
        daemon.apply(address_set("clients", add=["10.3.0.2"]))
        assert ask(kept) == "b" and reaches(c, "b")
        daemon.apply(address_set("clients", remove=["10.1.0.2"]))
        assert not reaches(a, "b") and reaches(c, "b")
    members = daemon.json("get", "address_set/clients")["address_set"][0]["members"]
    assert members == ["10.3.0.2", "192.0.2.0/24"], members


@pytest.mark.parametrize("version", [4, 6])
def test_both_endpoints_of_a_session_are_asked(three, daemon, version):
    """As Kubernetes means it: who has lists for a direction is denied what none of them lets pass."""
    a, b, c = three.values()
    lists = acl("none") + acl("web", tcp(8080)) + acl("other", tcp(9090))
    daemon.apply(lists + tenant() + endpoint("b", ingress=["web"]))
    with web(b, "b", version), web(c, "c", version):
        assert reaches(a, "b", version) and reaches(a, "c", version)
        assert a.ping(ADDRESS[version]["b"], count=1, wait=1).received == 0
        assert b.ping(ADDRESS[version]["a"], count=1, wait=2).received == 1, "b itself may begin what it likes"
        daemon.apply(endpoint("a", egress=["none"]))
        assert not reaches(a, "b", version) and not reaches(a, "c", version)
        assert denied(daemon, "egress-denied") >= 2
        assert reaches(b, "c", version)
        daemon.apply(endpoint("a", egress=["other", "web"]))
        assert reaches(a, "b", version) and reaches(a, "c", version)
        daemon.apply(endpoint("b", ingress=["other"]))
        before = denied(daemon, "ingress-denied")
        assert not reaches(a, "b", version) and reaches(a, "c", version)
        assert denied(daemon, "ingress-denied") > before
        said = match(daemon, ADDRESS[version]["a"], ADDRESS[version]["b"], "tcp/8080")
        assert [(step["place"], step["acl"]) for step in said["steps"]] == [("egress", "other"), ("egress", "web"), ("ingress", "other")], (
            said
        )
        daemon.delete("endpoint", "a", "b")
        assert reaches(a, "b", version)


@pytest.mark.parametrize("version", [4, 6])
def test_what_hides_its_ports_from_the_rules_never_arrives(three, daemon, version):
    """RFC 1858, RFC 3128 and RFC 7112: b's kernel would put it together, and answer at a port that no rule lets anybody ask at."""
    a, b, _ = three.values()
    rules = ['{ action = "reflect", protocol = "tcp", destination_ports = ["80"] }', '{ action = "reflect", protocol = "udp" }']
    daemon.apply(acl("all", *rules) + tenant("all", more='untracked = "pass"\n'))
    src, dst = ADDRESS[version]["a"], ADDRESS[version]["b"]

    def segment(port):
        whole = TCP(sport=40000, dport=port, flags="S")
        # Checksummed as a whole, then cut.
        return bytes(ip() / whole)[len(ip()) :]

    def ip(**more):
        return IP(src=src, dst=dst, id=7, **more) if version == 4 else IPv6(src=src, dst=dst, **more)

    def part(data, offset, more):
        if version == 4:
            return ip(proto=6, frag=offset, flags="MF" if more else 0) / Raw(data)
        return ip() / IPv6ExtHdrFragment(nh=6, offset=offset, m=int(more), id=7) / Raw(data)

    hidden = segment(8080)
    hiding = [part(hidden[:8], 0, True), part(hidden[8:], 1, False)]
    if version == 6:
        # The ports are in the packet, but so far behind that nobody here looks for them.
        hiding.append(ip() / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"x" * 124)]) / TCP(sport=40001, dport=8080, flags="S"))
    allowed = segment(80) + b"x" * 12
    open_ones = [part(allowed[:24], 0, True), part(allowed[24:], 3, False)]
    router = daemon.interface("a")["mac"]

    def is_last(frame):
        return UDP in frame and frame[UDP].dport == 53

    with a.wire() as out, b.wire() as arriving:
        last = ip() / UDP(sport=40000, dport=53) / Raw(b"last")
        before = int(daemon.counter("b", "tx_packets"))
        out.send(*(Ether(src=a.mac(), dst=router) / packet for packet in (*hiding, *open_ones)))
        eventually(lambda: daemon.dropped("too-short") == len(hiding), lambda: str(daemon.drops()))
        eventually(lambda: int(daemon.counter("b", "tx_packets")) >= before + len(open_ones), lambda: str(daemon.drops()))
        out.send(Ether(src=a.mac(), dst=router) / last)
        came = arriving.collect(lambda frame: getattr(frame.payload, "src", "") == src, is_last)
    # Both parts of what may be, each by a worker of its own, and nothing else.
    tails = {bytes(one.lastlayer()) for one in open_ones}
    assert len(came) == len(tails) and all(any(bytes(frame).endswith(tail) for tail in tails) for frame in came), came


def test_of_a_balanced_session_the_backend_is_asked_about(three, daemon):
    a, b, c = three.values()
    daemon.apply(
        vip([backend(BACKENDS[4][0])])
        + acl("web", '{ action = "reflect", sources = ["10.1.0.2"], protocol = "tcp", destination_ports = ["8080"] }')
        + acl("out", '{ action = "reflect", destinations = ["10.2.0.0/16"] }')
        + endpoint("b", ingress=["web"])
        + endpoint("a", egress=["out"])
        + tenant()
    )
    with web(b, "b"):
        assert reaches(a, "10.96.0.1", port=80)
        assert not reaches(c, "10.96.0.1", port=80)
        daemon.apply(acl("web", tcp(80)))
        assert not reaches(a, "10.96.0.1", port=80), "the VIP's port isn't the backend's"


def test_a_hundred_thousand_rules_and_members(three, daemon):
    a, b, c = three.values()
    count = 100_000
    hosts = [f"100.{64 + (n >> 16)}.{n >> 8 & 255}.{n & 255}" for n in range(count)]
    rules = [
        f'{{ action = "deny", sources = ["{host}"], protocol = "tcp", destination_ports = ["{n % 60000 + 1}"] }}'
        for n, host in enumerate(hosts)
    ]
    last = '{ action = "reflect", source_sets = ["many"], protocol = "tcp", destination_ports = ["8080"] }'
    began = time.monotonic()
    daemon.apply(address_set("many", members=[*hosts, "10.1.0.2"]) + acl("all", *rules, last, *ECHO) + tenant("all"))
    loaded = time.monotonic() - began
    with web(b, "b"), contextlib.closing(connect(a, "b")) as kept:
        assert ask(kept) == "b" and not reaches(c, "b")
        said = match(daemon, hosts[-1], "10.2.0.2", f"tcp/{(count - 1) % 60000 + 1}")
        assert said["verdict"] == "denied" and said["steps"][0]["rule"]["number"] == count, said
        assert match(daemon, "10.1.0.2", "10.2.0.2", "tcp/8080")["steps"][0]["rule"]["number"] == count + 1
        with a.pinging("10.2.0.2", 0.01):
            began = time.monotonic()
            daemon.apply(address_set("many", add=["10.3.0.2"]))
            changed = time.monotonic() - began
            assert reaches(c, "b") and ask(kept) == "b"
        shown = daemon.json("show", "acl", "all", "--hits")["acls"][0]
        assert [rule["number"] for rule in shown["rules"]] == [count + 1, count + 2] and int(shown["rule_count"]) == count + 3
    print(f"{count} rules loaded in {loaded:.2f} s; a member of {count} added in {changed:.3f} s")


def test_what_makes_no_sense_is_refused_by_name(lab, daemon):
    web_list = acl("web", tcp(80))
    for toml, field, reason in (
        (tenant("web"), "acls[0]", "there is no acl web"),
        (acl("web", '{ action = "permit", source_sets = ["pods"] }'), "rules[0].source_sets", "there is no address_set pods"),
        (endpoint("a", ingress=["web"]), "ingress_acls[0]", "there is no acl web"),
        (web_list + endpoint("a") + endpoint("a").replace('"a"', '"z"'), "addresses", "is already endpoint a's"),
        (web_list + '[[tenant]]\nname = "red"\nacls = ["web"]\n', "acls", "by the service acl only"),
        (
            acl("web", '{ action = "permit", sources = ["10.0.0.0/8"], destinations = ["fd00::/8"] }'),
            "rules[0].destinations",
            "different families",
        ),
        (acl("web", '{ action = "permit", destination_ports = ["80"] }'), "rules[0].destination_ports", "without a protocol"),
        (acl("web", '{ protocol = "tcp" }'), "rules[0].action", "is missing"),
        (acl("web", '{ action = "deny", name = "x" }', '{ action = "deny", name = "x" }'), "rules[1].name", "another rule"),
        (address_set("pods", members=["10.0.0.1", "10.0.0.1/32"]), "members", "appears twice"),
    ):
        status, outcomes, errors = daemon.offer(toml)
        text = f"{outcomes} {errors}"
        assert status != 0 and field in text and reason in text, text
    # What is in use stays.
    daemon.apply(
        address_set("pods", members=["10.0.0.1"])
        + acl("web", '{ action = "permit", source_sets = ["pods"] }')
        + tenant("web").replace('"a", "b", "c"', "")
    )
    for kind, name, user in (("address_set", "pods", "acl web"), ("acl", "web", "tenant red")):
        done = daemon.cli("delete", kind, name, check=False)
        assert done.returncode != 0 and f"{user} refers to it" in done.stdout + done.stderr, done
