"""Desired state: what is refused, what waits, what is kept."""

import json
import re
import signal
import subprocess
import time

import pytest
from lab import eventually
from lab.process import Process, tool


def loopback(name, network):
    return f'[[interface]]\nname = "{name}"\naddresses = ["{network}.1/24"]\nloopback = {{}}\n'


BAD = [
    ('[[interface]]\nname = "x"\naddresses = ["10.0.0.300/24"]\nloopback = {}\n', "x", "addresses"),
    ('[[interface]]\nname = "x"\nmac = "02:00"\nloopback = {}\n', "x", "mac"),
    ('[[interface]]\nname = "x"\nmtu = 20\nloopback = {}\n', "x", "mtu"),
    ('[[interface]]\nname = "x"\n', "x", None),
    ('[[interface]]\nname = "x"\nmemif = { socket = "/tmp/s", ring_size = 1000 }\n', "x", "memif.ring_size"),
    ('[[interface]]\nname = "x"\nmemif = { socket = "/tmp/s", secret = "more than twenty-four bytes" }\n', "x", "memif.secret"),
    ('[[interface]]\nname = "x"\ntap = { host_name = "longer-than-fifteen-characters" }\n', "x", "tap.host_name"),
    ('[[interface]]\nname = "x"\ntap = { netns = "there-is-no-such-namespace" }\n', "x", "tap.netns"),
    ('[[interface]]\nname = "x"\nvlan = { parent = "l", outer_id = 5000 }\n', "x", "vlan.outer_id"),
    ('[[route]]\nprefix = "10.0.0.1/8"\nnext_hops = [{ address = "10.0.0.1" }]\n', "default/10.0.0.1/8", "prefix"),
    ('[[route]]\nprefix = "10.0.0.0/8"\n', "default/10.0.0.0/8", "next_hops"),
    ('[[neighbor]]\ninterface = "l"\naddress = "10.0.0.2"\nmac = "nonsense"\n', "l/10.0.0.2", "mac"),
]


@pytest.mark.parametrize("bad, name, field", BAD, ids=[f"{name}-{field}".replace("/", "-") for _, name, field in BAD])
def test_a_bad_object_is_refused_and_nothing_is_applied(daemon, bad, name, field):
    daemon.apply(loopback("l", "10.0.0"))
    generation = daemon.show("version")["generation"]
    status, outcomes, _ = daemon.offer(loopback("good", "10.55.0") + bad)
    assert status == 5
    refused = outcomes[name]["refused"]
    assert refused["reason"] and (field is None or refused["field"].startswith(field)), refused
    # For people: kind, name, field, reason and remedy in one place.
    done = daemon.cli("apply", "-f", "-", stdin=loopback("good", "10.55.0") + bad, check=False)
    text = done.stdout + done.stderr
    for part in (name, refused.get("field", ""), refused["reason"], refused.get("remedy", "")):
        assert part in re.sub(r"\s+", " ", text) or part in text, (part, text)
    assert daemon.names() == ["l"]
    assert daemon.show("version")["generation"] == generation


def test_every_refusal_has_a_remedy(daemon):
    without = []
    for bad, name, _ in BAD:
        outcome = daemon.offer(loopback("l", "10.0.0") + bad)[1][name]["refused"]
        # Some reasons say it themselves: "… is no Ethernet address; write six bytes as …".
        if not outcome.get("remedy") and not re.search("[;:] ", outcome["reason"]):
            without.append((name, outcome["field"], outcome["reason"]))
    assert not without, without


@pytest.mark.parametrize(
    "text, words",
    [
        ('[[interface]]\nname = "x\n', ":2:"),
        ('[[interface]]\nname = "x"\nadresses = []\nloopback = {}\n', "adresses"),
        ('[[interfaces]]\nname = "x"\n', "interfaces"),
        ('[[interface]]\nname = "x"\nmtu = "large"\nloopback = {}\n', "mtu"),
    ],
    ids=["syntax", "misspelt-field", "misspelt-kind", "wrong-type"],
)
def test_a_malformed_file_is_refused_with_its_place(daemon, text, words):
    done = daemon.cli("apply", "-f", "-", stdin=text, check=False)
    assert done.returncode == 7 and words in done.stderr, (done.returncode, done.stderr)
    assert daemon.names() == []


def test_an_object_waits_for_what_it_needs_and_then_works(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    b.ip("address", "add", "10.99.0.1/32", "dev", "lo")
    daemon.apply(lab.tap("a", a, "10.1.0"))
    status, outcomes, _ = daemon.offer('[[route]]\nprefix = "10.99.0.0/24"\nnext_hops = [{ address = "10.2.0.2" }]\n')
    assert status == 0
    assert "10.2.0.2" in outcomes["default/10.99.0.0/24"]["pending"]["waits_for"][0]["reason"]
    assert daemon.states()["default/10.99.0.0/24"] == "pending"
    assert "Net Unreachable" in a.ping("10.99.0.1", count=1).text
    daemon.apply(lab.tap("b", b, "10.2.0"))
    assert daemon.states()["default/10.99.0.0/24"] == "applied"
    a.must_ping("10.99.0.1")
    daemon.delete("interface", "b")
    assert daemon.states()["default/10.99.0.0/24"] == "pending"
    daemon.apply(lab.tap("b", b, "10.2.0"))
    b.ip("address", "replace", "10.99.0.1/32", "dev", "lo")
    a.must_ping("10.99.0.1")


@pytest.mark.parametrize(
    "dependent, kind, name, needed",
    [
        ('[[interface]]\nname = "v"\nvlan = { parent = "l", outer_id = 7 }\n', "interface", "l", loopback("l", "10.0.0")),
        ('[[interface]]\nname = "v"\nvrf = "red"\nloopback = {}\n', "vrf", "red", '[[vrf]]\nname = "red"\n'),
        (
            '[[interface]]\nname = "v"\nloopback = {}\nbridge = { name = "lan", bvi = true }\n',
            "bridge",
            "lan",
            '[[bridge]]\nname = "lan"\n',
        ),
    ],
    ids=["vlan-parent", "vrf", "bridge"],
)
def test_what_an_object_waits_for_is_named(lab, daemon, dependent, kind, name, needed):
    if "vlan" in dependent:
        needed = lab.plain_tap("l", lab.pod("a"))
    status, outcomes, _ = daemon.offer(dependent)
    assert status == 0, outcomes
    assert outcomes["v"]["pending"]["waits_for"][0]["object"] == {"kind": kind, "name": name}, outcomes
    daemon.apply(needed)
    assert daemon.states()["v"] == "applied"


def test_order_does_not_matter(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    parts = [
        '[[route]]\nvrf = "red"\nprefix = "10.9.0.0/16"\nnext_hops = [{ address = "10.2.0.2" }]\n',
        '[[neighbor]]\ninterface = "b"\naddress = "10.2.0.77"\nmac = "02:00:00:00:00:77"\n',
        lab.tap("b", b, "10.2.0", 'vrf = "red"'),
        lab.tap("a", a, "10.1.0", 'vrf = "red"'),
        '[[vrf]]\nname = "red"\n',
    ]
    for part in parts:
        assert daemon.offer(part)[0] == 0
    assert set(daemon.states().values()) == {"applied"}
    a.must_ping("10.2.0.2")
    one_by_one = daemon.cli("get", "-o", "toml").stdout
    daemon.clear()
    for order in (parts, parts[::-1]):
        daemon.apply("".join(order))
        assert daemon.cli("get", "-o", "toml").stdout == one_by_one
        a.must_ping("10.2.0.2")
        daemon.clear()


def test_what_contradicts_is_refused_and_names_the_other(daemon):
    daemon.apply(loopback("l", "10.0.0") + '[[vrf]]\nname = "red"\nid = 5\n')
    for text, name, words in (
        ('[[vrf]]\nname = "green"\nid = 5\n', "green", "red"),
        ('[[interface]]\nname = "m"\naddresses = ["10.0.0.1/24"]\nloopback = {}\n', "m", "l"),
        ('[[interface]]\nname = "n"\nloopback = {}\nbridge = { name = "lan" }\ncross_connect = "l"\n', "n", ""),
    ):
        status, outcomes, _ = daemon.offer(text)
        assert status == 5 and words in outcomes[name]["refused"]["reason"], outcomes
    assert sorted(daemon.names()) == ["l", "red"]


def test_what_get_prints_can_be_applied_again(lab, daemon):
    a = lab.pod("a")
    daemon.apply(
        lab.tap("a", a, "10.1.0", "mtu = 9000", tap=", queues = 2") + lab.memif("m12", 12, memif=', secret = "s"')
        + loopback("l", "10.5.0") + '[[vrf]]\nname = "red"\n[[bridge]]\nname = "lan"\nlearn = false\n'
        + '[[route]]\nprefix = "10.9.0.0/16"\nnext_hops = [{ address = "10.1.0.2", weight = 3 }]\n'
    )  # fmt: skip
    generation = daemon.show("version")["generation"]
    for form in ("toml", "json"):
        text = daemon.cli("get", "-o", form).stdout
        assert daemon.cli("diff", "-f", "-", stdin=text, check=False).returncode == 0
        answer = daemon.json("apply", "-f", "-", "--replace", stdin=text)
        assert answer["counts"]["unchanged"] == answer["counts"]["applied"] == 7, answer["counts"]
    assert daemon.show("version")["generation"] == generation, "nothing changed, so it is the same generation"
    changed = daemon.cli("get", "-o", "toml").stdout.replace("mtu = 9000", "mtu = 1400")
    done = daemon.cli("diff", "-f", "-", stdin=changed, check=False)
    assert done.returncode == 1 and "9000" in done.stdout and "1400" in done.stdout, done.stdout
    assert daemon.interface("a")["mtu"] == 9000, "diff changes nothing"


def test_only_the_expected_generation(daemon):
    generation = int(daemon.show("version").get("generation", 0))
    daemon.apply(loopback("l", "10.0.0"), "--expect-generation", generation)
    done = daemon.cli("apply", "-f", "-", "--expect-generation", generation, stdin=loopback("k", "10.1.0"), check=False)
    assert done.returncode == 6, done.stderr
    assert daemon.names() == ["l"]


def test_replace_deletes_what_is_not_named_and_dry_run_nothing(daemon):
    daemon.apply(loopback("l", "10.0.0") + loopback("k", "10.1.0"))
    daemon.cli("apply", "--replace", "--dry-run", "-f", "-", stdin=loopback("l", "10.0.0"))
    assert sorted(daemon.names()) == ["k", "l"]
    daemon.cli("apply", "--replace", "-f", "-", stdin=loopback("l", "10.0.0"))
    assert daemon.names() == ["l"]


def test_deleting_what_is_not_there(daemon):
    done = daemon.cli("delete", "interface", "ghost", check=False)
    assert done.returncode == 4 and "ghost" in done.stderr, done.stderr
    daemon.cli("delete", "interface", "ghost", "--ignore-not-found")


def test_names_that_cannot_be_are_refused_with_the_reason(daemon):
    done = daemon.cli("delete", "route", "garbage", check=False)
    assert done.returncode == 5 and "garbage" in done.stdout and "reason" in done.stdout, done.stdout


def test_addresses_of_no_station_are_refused(daemon):
    for address in ("10.3.0.0/24", "10.3.0.255/24", "255.255.255.255/32", "224.0.0.1/24", "127.0.0.1/8"):
        status, outcomes, _ = daemon.offer(f'[[interface]]\nname = "l"\naddresses = ["{address}"]\nloopback = {{}}\n')
        assert status == 5 and outcomes["l"]["refused"]["field"] == "addresses", outcomes
    # A link of two has neither network nor broadcast address (RFC 3021).
    daemon.apply(
        '[[interface]]\nname = "l"\naddresses = ["10.3.0.0/31"]\nloopback = {}\n'
        '[[interface]]\nname = "k"\naddresses = ["10.4.0.0/32"]\nloopback = {}\n'
    )


def test_what_is_not_there_is_not_shown(daemon):
    for what in ("interface", "neighbor", "bridge", "memif"):
        done = daemon.cli("show", what, "ghost", check=False)
        assert done.returncode == 4 and "ghost" in done.stderr, (what, done.returncode, done.stderr)


def test_an_unreachable_daemon_is_named(lab, daemon):
    done = daemon.cli("--socket", "/tmp/there-is-no-quiverd.sock", "show", "version", check=False)
    assert done.returncode in (2, 3) and done.stderr, done.stderr


def test_a_daemon_that_hangs_is_named(own_daemon):
    """Also where it hangs while something is watched."""
    daemon = own_daemon().start()
    with Process(tool("quiver"), "--socket", daemon.socket, "show", "version", "--watch", "-o", "json") as watch:
        eventually(lambda: "generation" in watch.output(), watch.output)
        daemon.process.signal(signal.SIGSTOP)
        try:
            done = daemon.cli("show", "version", check=False)
            assert watch.wait() == 3, watch.output()
        finally:
            daemon.process.signal(signal.SIGCONT)
        said = f"quiver: show version: quiverd at {daemon.socket} doesn't answer (within 5 s): it hangs"
        assert said in watch.output(), watch.output()
    assert done.returncode == 3 and not done.stdout and done.stderr.startswith(said), done
    assert "systemctl restart quiverd" in done.stderr, done
    assert daemon.show("version")["version"], "it goes on as if nothing had been"


def test_a_hundred_thousand_routes_while_packets_flow(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0") + lab.memif("m12", 12) + lab.memif("m13", 13))
    a.must_ping("10.2.0.2")
    routes = [{"prefix": f"20.{n >> 16}.{n >> 8 & 255}.{n & 255}/32", "next_hops": [{"address": "10.2.0.2"}]} for n in range(100_000)]
    text = json.dumps({"route": routes})
    file = daemon.directory / "routes.json"
    file.write_text(text)
    with (
        a.pinging("10.2.0.2"),
        lab.generator("m12", "m13", 12, 13, "--rate", 3000, "--count", 12000) as generator,
    ):
        eventually(lambda: daemon.counter("m13", "tx_packets") > 100, lambda: f"packets flow\n{generator.output()}")
        answer = daemon.json("apply", "-f", file)
        assert answer["committed"] and answer["counts"]["applied"] == 100_000, answer["counts"]
        lab.lossless_end(generator)
    b.ip("address", "add", "20.1.134.159/32", "dev", "lo")
    a.must_ping("20.1.134.159")
    # Who looks at the table and then stops reading holds nobody up: a neighbour is asked, a change is made.
    command = [tool("quiver"), "--socket", daemon.socket, "show", "fib", "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as reader:
        reader.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        reader.send_signal(signal.SIGCONT)
        time.sleep(0.05)
        reader.send_signal(signal.SIGSTOP)
        b.ip("address", "add", "10.2.0.77/24", "dev", "eth0")
        a.must_ping("10.2.0.77")
        daemon.apply('[[vrf]]\nname = "meanwhile"\n')
        reader.send_signal(signal.SIGCONT)
        shown = json.loads(reader.stdout.read())
    assert len(shown["entries"]) >= 100_000
    daemon.cli("delete", "-f", file)
    assert daemon.names("route") == []
    assert "Net Unreachable" in a.ping("20.1.134.159", count=1).text
