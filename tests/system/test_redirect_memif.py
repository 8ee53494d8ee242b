"""Engines at a pair of memifs: Suricata by DPDK, with the settings of docs/redirect.md, and testpmd, which copies whatever comes."""

import contextlib
import http.client
import json
import os
import shutil
import signal

import pytest
from lab import Process, eventually
from lab.dpdk import forwarder
from test_redirect import FILES, SERVER, SILENCE, Connection, Suricata, datagrams, engine, serving, since, tenant

WORKERS = 1

suricatas = pytest.mark.skipif(not shutil.which("suricata"), reason="Suricata isn't installed: scripts/setup.sh")
SIDES = ["ids-a", "ids-b"]


@pytest.fixture
def two(lab, daemon, tmp_path):
    """Pods a (tenant red) and b with the HTTP server, and memifs to an engine, which isn't there yet."""
    a, b = lab.pod("a"), lab.pod("b")
    side = '[[interface]]\nname = "{0}"\nmtu = 9000\nmemif = {{ socket = "{1}/{0}" }}\n'
    sides = "".join(side.format(name, lab.directory) for name in SIDES)
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0") + sides + tenant())
    with serving(b, tmp_path / "www"):
        yield a, b


@pytest.fixture
def suricata(lab, daemon, two, tmp_path):
    """Suricata, which is there."""
    log = tmp_path / "suricata"
    log.mkdir()
    made = Suricata(Process, log, "dpdk")
    settings = log / "suricata.yaml"
    cores = str(sorted(os.sched_getaffinity(0))[:2])
    settings.write_text(settings.read_text().replace("/run/quiver", str(lab.directory)).replace("[ 0, 1 ]", cores))
    with contextlib.ExitStack() as stack:
        stack.callback(made.stop)
        made.start()
        there(daemon, made.process)
        yield made


def there(daemon, process, name="red"):
    """Waits until a tenant's engine is."""
    eventually(lambda: engine(daemon, name), lambda: f"heartbeats come back: {process.output()}\n{daemon.cli('show', 'memif').stdout}")


def refused(pod):
    """Nobody answers what a pod asks."""
    with pytest.raises(OSError), pod.entered():
        http.client.HTTPConnection(SERVER, timeout=SILENCE).connect()
    return True


@suricatas
def test_a_rule_drops_one_flow_and_others_pass(daemon, two, suricata):
    a, _ = two
    assert [daemon.memif(name)["peer_interface"] for name in SIDES] == ["net_memif0", "net_memif1"], daemon.show("memif")
    counted = since(daemon)
    assert Connection(a).get("good") == FILES["good"]
    assert Connection(a).get("large") == FILES["large"]
    evil = Connection(a)
    assert evil.is_cut("evil")
    eventually(suricata.alerts, "Suricata says so")
    for event in map(json.loads, suricata.alerts()):
        assert (event["alert"]["action"], event["src_port"], event["in_iface"]) == ("blocked", evil.port, "net_memif0"), event
    assert Connection(a).get("good") == FILES["good"], "another flow"
    assert counted("sent") > 100 and counted("returned", "ip4-redirect-input") > 100


@suricatas
def test_a_session_that_was_judged_visits_suricata_no_more(daemon, two, suricata):
    a, _ = two
    allowed = Connection(a)
    assert allowed.get("good") == FILES["good"]
    words = ("--tenant", "red", "--protocol", "tcp", "--address", "10.1.0.2", "--port", allowed.port)
    assert daemon.cli("verdict", "allow-rest", *words).stdout == "1 session judged\n"
    assert allowed.get("good") == FILES["good"]
    counted = since(daemon)
    assert allowed.get("large") == FILES["large"]
    assert allowed.get("evil") == FILES["evil"], "which Suricata would have dropped"
    assert counted("sent") == 0 and not suricata.alerts(), "the rest of the session doesn't visit it"
    assert Connection(a).is_cut("evil"), "others visit it as before"


@suricatas
def test_whole_datagrams_pass_suricata(daemon, two, suricata):
    a, b = two
    assert a.ping(SERVER, count=1, wait=5).received == 1
    daemon.apply(tenant(", reassemble = true"))
    counted = since(daemon)
    content = bytes(range(250)) * 16
    # Longer than a buffer of the ring: they come and go in several.
    for _ in range(3):
        assert datagrams(a, b, content) == (content, content[::-1])
    assert counted("reassembled", "ip4-redirect-reassembly") == counted("returned", "ip4-redirect-input") == 6


@pytest.mark.parametrize("on_failure", ["drop", "pass"])
def test_an_engine_is_killed_under_traffic_and_comes_back(lab, daemon, two, on_failure):
    a, _ = two
    daemon.apply(tenant(f', on_failure = "{on_failure}"'))

    def visited():
        counted = since(daemon)
        assert Connection(a).get("large") == FILES["large"]
        assert counted("sent") > 100 and counted("returned", "ip4-redirect-input") > 100, "what is sent comes back"

    with forwarder(lab, SIDES) as first:
        there(daemon, first)
        visited()
        with a.start("ping", "-n", "-i", "0.05", SERVER):
            first.signal(signal.SIGKILL)
            first.wait()
            eventually(lambda: not engine(daemon), "it is missed")
            counted = since(daemon)
            if on_failure == "drop":
                eventually(lambda: daemon.dropped("engine-away") > 0, lambda: f"its packets: {daemon.drops()}")
                assert refused(a)
            else:
                assert Connection(a).get("large") == FILES["large"]
                assert counted("passed-engine-away") > 0
            assert counted("sent") == 0
    with forwarder(lab, SIDES) as second:
        there(daemon, second)
        visited()


def test_tenants_share_a_pair_by_vlans(lab, daemon, two):
    a, _ = two
    c = lab.pod("c")
    sub = '[[interface]]\nname = "{0}.{1}"\nvlan = {{ parent = "{0}", outer_id = {1} }}\n'
    subs = "".join(sub.format(side, tag) for side in SIDES for tag in (10, 20))
    red = tenant().replace('ids-a"', 'ids-a.10"').replace('ids-b"', 'ids-b.10"')
    blue = red.replace('"red"', '"blue"').replace('["a"]', '["c"]').replace(".10", ".20")
    daemon.apply(lab.tap("c", c, "10.3.0") + subs + red + blue)
    carried = lambda tag: sum(int(daemon.counter(f"{side}.{tag}", way)) for side in SIDES for way in ("rx_bytes", "tx_bytes"))
    large = FILES["large"]
    with forwarder(lab, SIDES) as dpdk:
        for name, pod, mine, other in (("red", a, 10, 20), ("blue", c, 20, 10)):
            there(daemon, dpdk, name)
            before = carried(mine), carried(other)
            assert Connection(pod).get("large") == large
            assert carried(mine) - before[0] > 2 * len(large), "there and back"
            assert carried(other) - before[1] < len(large), "heartbeats"
            assert Connection(pod).get("good") == FILES["good"]
        dpdk.signal(signal.SIGKILL)
        dpdk.wait()
    for name, pod in (("red", a), ("blue", c)):
        eventually(lambda name=name: not engine(daemon, name), "it is missed")
        assert refused(pod)
