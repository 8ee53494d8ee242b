"""Names of suites, and what stands behind them."""

import random
from collections import Counter
from ipaddress import ip_address, ip_network

import pytest

from quiver_bench.errors import BadInput
from quiver_bench.suites import find, suites


@pytest.mark.parametrize(
    "name",
    [
        "64b-1c-memif-ethip4-ip4base-mrr",
        "64b-1c-memif-eth-l2xcbase-mrr",
        "1518b-1c-memif-eth-l2xcbase-mrr",
        "64b-1c-memif-ethip4-ip4scale2m-rnd-mrr",
        "64b-1c-memif-ethip4-ip4base-ndrpdr",
        "64b-1c-memif-eth-l2xcbase-soak",
        "64b-1c-memif-ethip4-ip4base-reconf",
        "64b-1c-memif-ethip4tcp-ip4base-h1024-p63-s64512-cps",
        "100b-1c-memif-ethip4udp-ip4base-h16384-p63-s1032192-tput",
        "64b-1c-memif-eth-l2bd-1ch-2mif-1dcr1t-testpmd-mrr",
        "64b-1c-memif-ethip4tcp-ip4base-session-tcp-h1024-p63-s64512-cps",
        "64b-1c-memif-ethip4tcp-ip4base-session-tcp-h1024-p63-s64512-replay",
        "1518b-1c-memif-eth-l2xcbase-memif-dma-mrr",
        "128kb-1c-podtun-ethip4-ip4pods-near-gso-iperf3-mrr",
        "64b-1c-podmemif-ethip4-ip4pods-far-svc-np-mrr",
    ],
)
def test_published_names_stay(name):
    assert find(name).name == name


def test_names_are_unique_and_found_again():
    names = [suite.name for suite in suites()]
    assert len(names) == len(set(names)) > 500
    assert all(find(name).name == name for name in names)


def test_an_unknown_suite_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match="64b-1c-memif-ethip4-ip4base-mrr"):
        find("64b-1c-memif-ethip4-ip4bas-mrr")
    with pytest.raises(BadInput, match="there is no suite wombat"):
        find("wombat")


def test_a_command_may_bring_the_method():
    assert find("64b-1c-memif-eth-l2xcbase", "ndrpdr").name == "64b-1c-memif-eth-l2xcbase-ndrpdr"
    assert find("64b-1c-memif-eth-l2xcbase-mrr", "soak").name == "64b-1c-memif-eth-l2xcbase-soak"


def test_frame_sizes_count_the_checksum_and_buffers_do_not():
    assert find("1518b-1c-memif-eth-l2xcbase-mrr").traffic.sizes == ((1514, 1),)
    imix = find("imix-1c-memif-ethip4-ip4base-mrr").traffic
    assert imix.sizes == ((60, 28), (566, 16), (1514, 4))
    assert imix.mean_size == pytest.approx((60 * 28 + 566 * 16 + 1514 * 4) / 48)
    assert find("imix-1c-memif-ethip6-ip6base-mrr").frame_sizes[0] == (78, 28)
    assert sorted(imix.pattern) == [60] * 7 + [566] * 4 + [1514]
    assert max(imix.pattern.index(size) for size in (60, 566)) <= 1, "evenly mixed, not one length after the other"


def test_connections_are_counted_as_csit_does():
    suite = find("64b-1c-memif-ethip4tcp-ip4base-h262144-p63-s16515072-cps")
    made = suite.traffic.conversations
    assert made.clients == "16.0.0.0-16.3.255.255:1024-1086"
    assert made.sessions == 16_515_072
    assert (suite.metric, suite.unit, suite.test_type) == ("connections_per_second", "cps", "mrr")
    assert {"TCP", "HOSTS_262144", "CPS"} <= set(suite.tags)
    assert suite.direction == "both ways"
    replayed = find("1518b-1c-memif-ethip4udp-ip4base-h1024-p63-s64512-replay").traffic.conversations
    assert (replayed.kind, replayed.replay) == ("tput", True)


def test_a_bridge_learns_half_of_its_stations_on_either_side():
    suite = find("64b-1c-memif-eth-l2bdscale1mmaclrn-mrr")
    assert (suite.traffic.stations, suite.traffic.both_ways) == (500_000, True)
    assert {"MAC_1M", "SCALE", "L2BDMACLRN"} <= set(suite.tags)
    left, right = (int(mac.replace(":", ""), 16) for mac in suite.traffic.macs)
    assert left + suite.traffic.stations <= right, "no address is on both sides"


def test_a_table_of_the_internets_shape_lies_in_its_range():
    suite = find("64b-1c-memif-ethip4-ip4internet-rnd-mrr")
    left, right = suite.traffic.prefixes
    assert left == [] and right[0] == "0.0.0.0/0"
    assert suite.case.table.size == len(right)
    lengths = Counter(int(prefix.split("/")[1]) for prefix in right)
    assert (len(right), len(set(right)), lengths[24], lengths[16]) == (962_760, 962_760, 590_000, 13_600)
    first = ip_address(suite.traffic.destination)
    last = first + suite.traffic.addressed - 1
    for prefix in random.Random(1).sample(right[1:], 1000):
        network = ip_network(prefix)
        assert first <= network[0] and network[-1] <= last, prefix
    assert {"FIB_1M", "SCALE"} <= set(suite.tags)


def test_routes_by_way_of_a_hundred_routers_are_the_same_ones():
    one, many = (find(f"64b-1c-memif-ethip4-ip4internet{name}-rnd-mrr").traffic for name in ("", "-100nh"))
    assert (one.next_hops, many.next_hops, many.prefixes) == (1, 100, one.prefixes)


def test_scattered_hosts_are_sent_to_and_no_two_of_them_can_be_put_together_often():
    suite = find("64b-1c-memif-ethip4-ip4scattered2m-100nh-rnd-mrr")
    left, right = suite.traffic.prefixes
    assert left == [] and right[0] == "0.0.0.0/0" and len(set(right)) == 2_000_001
    assert suite.case.table.size == len(right)
    hosts = {prefix.removesuffix("/32") for prefix in right[1:]}
    assert len(suite.traffic.listed) == 500_000 and hosts.issuperset(suite.traffic.listed)
    assert len({host.rsplit(".", 1)[0] for host in hosts}) > 1_600_000, "hardly two in a /24"
    assert {"FIB_2M", "SCALE"} <= set(suite.tags)


def test_a_table_of_the_internets_shape_has_prefixes_and_addresses_within_them_of_ipv6_too():
    suite = find("78b-1c-memif-ethip6-ip6internet-rnd-mrr")
    left, right = suite.traffic.prefixes
    assert left == [] and right[0] == "::/0"
    assert suite.case.table.size == len(right)
    lengths = Counter(int(prefix.split("/")[1]) for prefix in right)
    assert (len(right), len(set(right)), lengths[48], lengths[32]) == (250_000, 250_000, 104_749, 31_250)
    networks = {ip_network(prefix) for prefix in right[1:]}
    assert len(suite.traffic.listed) == 500_000
    for address in random.Random(1).sample(suite.traffic.listed, 1000):
        assert any(ip_network((address, length), strict=False) in networks for length in lengths if length), address
    assert {"FIB_250K", "SCALE"} <= set(suite.tags)


def test_scale_is_both_directions_together():
    suite = find("64b-1c-memif-ethip4-ip4scale2m-rnd-mrr")
    assert (suite.traffic.destinations, suite.traffic.random) == (1_000_000, True)
    assert {"FIB_2M", "SCALE", "64B", "1C", "MRR", "MEMIF", "IP4FWD"} <= set(suite.tags)
