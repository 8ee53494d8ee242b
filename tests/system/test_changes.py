"""What runs is changed, refused, lost and found again, while pods use it."""

import pytest
from lab import eventually
from lab.process import run


@pytest.fixture
def two(lab):
    """Pods a (10.1.0.2) and b (10.2.0.2) behind one router."""
    a, b = lab.pod("a"), lab.pod("b")
    lab.daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    return a, b


def status(daemon, name, kind="interface"):
    """State of an object and why it failed."""
    found = daemon.json("get", kind, name, "--status")["objects"][0]["status"]
    return found["state"], found.get("failure", "")


def link_index(pod, device="eth0"):
    """Number of a device: another one after it was made anew."""
    return pod.ip("-o", "link", "show", device).stdout.split(":")[0]


def identity(pod, device="eth0"):
    """What stays the same as long as a pod notices nothing: its device's number, and how often its link went down and up."""
    changes = pod.run("cat", f"/sys/class/net/{device}/carrier_changes").stdout.strip()
    return link_index(pod, device), changes


def veth(pod, peer):
    """A pair of devices of the kernel: eth0 in one pod, eth0 in the other."""
    run("ip", "link", "add", "eth0", "netns", pod.name, "type", "veth", "peer", "name", "eth0", "netns", peer.name)
    for end in (pod, peer):
        end.ip("link", "set", "eth0", "up")


# -- failures come back ------------------------------------------------------------------------------------------------


def test_what_failed_is_tried_again(lab, daemon):
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(lab.tap("a", a, "10.1.0") + lab.tap("b", b, "10.2.0"))
    daemon.stop()
    b.remove()
    daemon.start()
    assert status(daemon, "b")[0] == "failed"
    run("ip", "netns", "add", b.name)
    eventually(lambda: status(daemon, "b") == ("applied", ""), lambda: f"b is in force: {daemon.states()}", timeout=30)
    a.must_ping("10.2.0.2")


def test_a_tap_deleted_under_traffic_is_named_and_comes_back(lab, two, daemon):
    a, b = two
    daemon.apply('[[route]]\nprefix = "10.99.0.0/24"\nnext_hops = [{ address = "10.2.0.2" }]\n')
    with a.start("ping", "-n", "-i", "0.02", "10.2.0.2") as pings:
        eventually(lambda: pings.output().count("icmp_seq") > 5, "they flow")
        b.ip("link", "del", "eth0")
        state, why = eventually(lambda: (found := status(daemon, "b"))[0] == "failed" and found, lambda: f"it failed: {daemon.states()}")
        assert "eth0" in why and "was deleted" in why and "tried again" in why, (state, why)
        # What depends on it waits, what doesn't goes on.
        assert daemon.states()["default/10.99.0.0/24"] == "pending"
        a.must_ping("10.1.0.1")
        seen = pings.output().count("bytes from")
        eventually(lambda: pings.output().count("bytes from") > seen, pings.output, timeout=30)
    assert daemon.states() == {"a": "applied", "b": "applied", "default/10.99.0.0/24": "applied"}
    assert "tap b" not in daemon.log()[daemon.mark :] and "was deleted" in daemon.log()[daemon.mark :]


def test_a_device_that_goes_and_comes_again_is_opened_again(lab, daemon):
    a, host, peer = lab.pod("a"), lab.pod("host"), lab.pod("peer")
    veth(host, peer)
    peer.ip("address", "add", "10.2.0.2/24", "dev", "eth0")
    peer.ip("route", "add", "default", "via", "10.2.0.1")
    device = f'[[interface]]\nname = "b"\naddresses = ["10.2.0.1/24"]\naf_packet = {{ netns = "{host.name}", host_interface = "eth0" }}\n'
    daemon.apply(lab.tap("a", a, "10.1.0") + device)
    a.must_ping("10.2.0.2")
    host.ip("link", "del", "eth0")
    eventually(lambda: status(daemon, "b")[0] == "failed", lambda: f"it failed: {daemon.states()}")
    eventually(lambda: "no such device" in status(daemon, "b")[1], lambda: status(daemon, "b"), timeout=30)
    a.must_ping("10.1.0.1")
    veth(host, peer)
    peer.ip("address", "add", "10.2.0.2/24", "dev", "eth0")
    peer.ip("route", "add", "default", "via", "10.2.0.1")
    eventually(lambda: status(daemon, "b")[0] == "applied", lambda: status(daemon, "b"), timeout=30)
    a.must_ping("10.2.0.2")


# -- changes of what runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [", queues = 3", ", gso = false", ', host_mac = "02:00:00:00:00:77"', ", host_mtu = 1400"])
def test_a_parameter_of_a_running_tap_changes(lab, two, daemon, change):
    a, b = two
    before, kept = identity(b), lab.tap("b", b, "10.2.0")
    for text in (lab.tap("b", b, "10.2.0", tap=change), kept, lab.tap("b", b, "10.2.0", tap=change)):
        daemon.apply(text)
        a.must_ping("10.2.0.2")
    assert identity(b) == before, "the pod keeps its device and its link"


def test_damage_is_switched_on_and_off_on_running_ports(lab, two, daemon):
    a, b = two
    index = link_index(b)
    # b is known: else it is asked for once a second, and by the time it can answer more pings wait than may.
    a.must_ping("10.2.0.2")
    daemon.apply(lab.tap("b", b, "10.2.0", "fault = { drop_ppm = 1000000 }"))
    assert a.ping("10.2.0.2", wait=1).received == 0
    lost = daemon.drops()[("tap-input", "fault")]
    assert int(lost["packets"]) > 0, lost
    daemon.apply(lab.tap("b", b, "10.2.0"))
    a.must_ping("10.2.0.2")
    assert link_index(b) == index


def test_a_memif_peer_can_send_on_though_all_its_packets_are_lost_on_purpose(lab, daemon):
    daemon.apply(lab.memif("one", 1) + lab.memif("two", 2))
    lab.lossless("one", "two", 1, 2)
    fault = lab.memif("one", 1, "fault = { drop_ppm = 1000000 }")
    daemon.apply(fault)
    result = lab.generate("one", "two", 1, 2, "--count", 20_000, "--rate", 100_000, "--drain", 1)
    assert result["sent"] == 20_000, result
    assert int(daemon.drops()[("memif-input", "fault")]["packets"]) == 20_000, daemon.drops()
    daemon.apply(lab.memif("one", 1))
    lab.lossless("one", "two", 1, 2)


def test_the_mtu_reaches_the_kernels_side(lab, two, daemon):
    _, b = two
    index = link_index(b)
    for mtu in (9000, 1400, 1500):
        daemon.apply(lab.tap("b", b, "10.2.0", f"mtu = {mtu}"))
        assert f"mtu {mtu} " in b.ip("link", "show", "eth0").stdout
    assert link_index(b) == index


def test_another_name_or_kind_leaves_no_device_behind(lab, two, daemon):
    a, b = two
    daemon.apply(lab.tap("b", b, "10.2.0", device="net1"))
    assert "eth0" not in b.ip("link").stdout
    a.must_ping("10.2.0.2")
    daemon.apply(lab.tap("b", b, "10.2.0", device="net1", tap=', mode = "tun"'))
    assert "link/none" in b.ip("link", "show", "net1").stdout
    a.must_ping("10.2.0.2")
    daemon.apply(lab.memif("b", 2))
    assert "net1" not in b.ip("link").stdout


def test_two_taps_exchange_their_devices(lab, two, daemon):
    a, b = two
    indexes = link_index(a), link_index(b)
    daemon.apply(lab.tap("a", b, "10.1.0") + lab.tap("b", a, "10.2.0"))
    assert (link_index(a), link_index(b)) == indexes
    assert "10.1.0.2" in b.ip("addr").stdout and "10.2.0.2" not in b.ip("addr").stdout
    b.must_ping("10.2.0.2")


def test_what_quiver_gave_a_device_goes_and_what_others_gave_stays(lab, two, daemon):
    a, b = two
    b.ip("address", "add", "192.0.2.9/32", "dev", "eth0")
    more = ', host_routes = [{ prefix = "10.96.0.0/12", via = "10.2.0.1" }]'
    daemon.apply(lab.tap("b", b, "10.2.0", tap=more))
    assert "10.96.0.0/12" in b.ip("route").stdout
    daemon.apply(lab.tap("b", b, "10.3.0"))
    assert "10.96.0.0/12" not in b.ip("route").stdout
    addresses = b.ip("address").stdout
    assert "10.3.0.2/24" in addresses and "192.0.2.9/32" in addresses and "10.2.0.2" not in addresses, addresses
    a.must_ping("10.3.0.2")


# -- refused changes ---------------------------------------------------------------------------------------------------


def test_a_refused_change_leaves_what_was(lab, two, daemon):
    a, b = two
    device = identity(b)
    before = daemon.cli("get", "all").stdout
    with a.start("ping", "-n", "-i", "0.02", "10.2.0.2"):
        for bad in (
            # The kernel refuses it when the old port is closed already.
            lab.tap("b", b, "10.2.0", tap=", host_mtu = 65535"),
            # The change of b is through when that of c fails.
            lab.tap("b", b, "10.2.0", tap=", queues = 2")
            + '[[interface]]\nname = "c"\nmemif = { socket = "/nowhere/at/all", role = "server" }\n',
            # Damage and address changed, and the file of another can't be written.
            lab.tap("b", b, "10.2.0", "mtu = 1300", "fault = { drop_ppm = 1000000 }")
            + '[[interface]]\nname = "c"\npcap = { tx_file = "/nowhere/at/all" }\n',
        ):
            code, outcomes, words = daemon.offer(bad)
            assert code != 0 and any("refused" in outcome for outcome in outcomes.values()), (bad, outcomes, words)
            a.must_ping("10.2.0.2")
    assert daemon.cli("get", "all").stdout == before
    assert set(daemon.states().values()) == {"applied"}
    assert identity(b) == device
    assert "mtu 1500 " in b.ip("link", "show", "eth0").stdout
