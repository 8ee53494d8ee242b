"""Policers: pod a sends more than was agreed to pod b, by its kernel, and b sees what passes and how it is marked.

Where packets are counted one by one, the rate is one bit per second: only what the buckets begin with is there, however long a test takes.
"""

import socket
import time

import pytest
from lab import eventually

# A tap's packets come in at one worker: those of a and b at different ones, and each flow is one of the two's.
WORKERS = 2

PAYLOAD = 1000
#: From the IP header on.
SIZE = {4: PAYLOAD + 28, 6: PAYLOAD + 48}
ADDRESS = {4: {"a": "10.1.0.2", "b": "10.2.0.2"}, 6: {"a": "fd01::2", "b": "fd02::2"}}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
NOTHING_MORE = "cir = 1\n"
AF12 = 12


def interface(name, number, pod, more=""):
    return (
        f'[[interface]]\nname = "{name}"\naddresses = ["10.{number}.0.1/24", "fd0{number}::1/64"]\n{more}'
        f'tap = {{ netns = "{pod.name}", host_name = "eth0", host_addresses = ["10.{number}.0.2/24", "fd0{number}::2/64"], '
        f'host_gateways = ["10.{number}.0.1", "fd0{number}::1"] }}\n'
    )


def policer(name="gold", more="", rates=NOTHING_MORE):
    return f'[[policer]]\nname = "{name}"\n{rates}{more}'


def tenant(forward="", reverse="", more=""):
    services = {True: '["l4-lifecycle", "policer"]', False: '["l4-lifecycle"]'}
    text = "".join(
        f"{way}_services = {services[bool(name)]}\n" + (f'{way}_policer = "{name}"\n' if name else "")
        for way, name in (("forward", forward), ("reverse", reverse))
    )
    return f'[[tenant]]\nname = "red"\ninterfaces = ["a"]\noutside_interfaces = ["b"]\n{text}{more}'


def nowhere(*policers):
    """The same without interfaces."""
    return tenant(*policers).replace('interfaces = ["a"]\noutside_interfaces = ["b"]\n', "")


def two_pods(lab, daemon):
    """Pods a and b, which reach each other."""
    a, b = lab.pod("a"), lab.pod("b")
    daemon.apply(interface("a", 1, a) + interface("b", 2, b))
    for address in (ADDRESS[4]["b"], ADDRESS[6]["b"]):
        eventually(lambda to=address: a.ping(to, count=1, wait=1).received == 1, lambda: f"b answers: {daemon.drops()}")
    return a, b


@pytest.fixture
def two(lab, daemon):
    return two_pods(lab, daemon)


class Receiver:
    """A socket of a pod that tells packets apart by their DSCP."""

    def __init__(self, pod, version, host):
        with pod.entered():
            self.socket = socket.socket(FAMILY[version], socket.SOCK_DGRAM)
        level, option = {4: (socket.IPPROTO_IP, socket.IP_RECVTOS), 6: (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS)}[version]
        self.socket.setsockopt(level, option, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((ADDRESS[version][host], 0))
        self.address = self.socket.getsockname()[:2]

    def take(self, until=b"last"):
        """DSCPs of the packets that come before the last one."""
        seen = []
        self.socket.settimeout(30)
        while True:
            data, ancillary, _, _ = self.socket.recvmsg(2000, 100)
            if data == until:
                return seen
            seen.append(int.from_bytes(ancillary[0][2][:4], "little") >> 2)


def sender(pod, version):
    with pod.entered():
        return socket.socket(FAMILY[version], socket.SOCK_DGRAM)


def hits(daemon, name="gold", **user):
    """Packets by colour, and their bytes."""
    users = daemon.json("show", "policer", name)["policers"][0].get("users", [])
    for one in users:
        if all(one.get(field, default) == value for field, (value, default) in {
            "tenant": (user.get("tenant", ""), ""),
            "reverse": (user.get("reverse", False), False),
            "interface": (user.get("interface", ""), ""),
        }.items()):  # fmt: skip
            colours = [one.get(colour, {}) for colour in ("green", "yellow", "red")]
            return [[int(colour.get(field, 0)) for colour in colours] for field in ("packets", "bytes")]
    raise AssertionError(f"nobody of {user} in {users}")


def counted(daemon, packets):
    """Waits until so many packets of the tenant were metered: more at once than a worker is handed over at a time may be lost before."""
    eventually(lambda: sum(hits(daemon, tenant="red")[0]) == packets, lambda: f"{packets}: {hits(daemon, tenant='red')}")


def let_the_last_pass(daemon):
    """Takes the tenant away: what comes now isn't metered."""
    daemon.delete("tenant", "red")


@pytest.mark.parametrize("version", [4, 6])
def test_a_tenant_s_packets_pass_by_the_tokens_that_are_there(two, daemon, version):
    a, b = two
    size = SIZE[version]
    marks = f'cbs = {10 * size + 500}\nebs = {5 * size}\nexceed_action = "mark"\nexceed_dscp = "af12"\n'
    receiver = Receiver(b, version, "b")
    daemon.apply(policer(more=marks) + tenant("gold"))
    with receiver.socket, sender(a, version) as first, sender(a, version) as second:
        for number in range(1, 26):
            first.sendto(b"x" * PAYLOAD, receiver.address)
            second.sendto(b"x" * PAYLOAD, receiver.address)
            # One pair at a time: a worker that isn't let run has room for few turns of the other one's.
            counted(daemon, 2 * number)
        expected = [10, 5, 35]
        assert hits(daemon, tenant="red") == [expected, [count * size for count in expected]]
        assert daemon.dropped("violating") == 35
        text = daemon.cli("show", "policer").stdout
        assert "tenant red, forward" in text and "srtcm 1 bit/s" in text, text
        let_the_last_pass(daemon)
        first.sendto(b"last", receiver.address)
        # Which of the two flows' packets comes first is not said where each has a worker of its own.
        assert sorted(receiver.take()) == [0] * 10 + [AF12] * 5
    assert daemon.nodes() >= {"policer", "interface-policer"}


def test_answers_have_a_policer_of_their_own(two, daemon):
    a, b = two
    daemon.apply(policer(more=f"cbs = {3 * SIZE[4]}\n") + tenant(reverse="gold"))
    with sender(a, 4) as client, Receiver(b, 4, "b").socket as server:
        server.settimeout(30)
        client.settimeout(30)
        for number in range(8):
            client.sendto(b"%d" % number, server.getsockname())
            data, asker = server.recvfrom(2000)
            server.sendto(data * PAYLOAD, asker)
        eventually(lambda: hits(daemon, tenant="red", reverse=True)[0] == [3, 0, 5], lambda: str(hits(daemon, tenant="red", reverse=True)))
        assert [client.recv(2000)[:1] for _ in range(3)] == [b"0", b"1", b"2"]


def test_each_session_may_have_its_own(two, daemon):
    a, b = two
    receiver = Receiver(b, 4, "b")
    daemon.apply(policer(more=f"cbs = {4 * SIZE[4]}\nper_session = true\n") + tenant("gold"))
    clients = [sender(a, 4) for _ in range(8)]
    for number, client in enumerate(clients, 1):
        for sent in range(1, 7):
            client.sendto(b"x" * PAYLOAD, receiver.address)
            if sent % 3 == 0:
                counted(daemon, 6 * (number - 1) + sent)
    eventually(lambda: hits(daemon, tenant="red")[0] == [32, 0, 16], lambda: str(hits(daemon, tenant="red")))
    let_the_last_pass(daemon)
    clients[0].sendto(b"last", receiver.address)
    assert len(receiver.take()) == 32
    for one in (*clients, receiver.socket):
        one.close()


def test_packets_may_come_coloured(two, daemon):
    a, b = two
    receiver = Receiver(b, 4, "b")
    rates = 'unit = "packets"\ncir = 1000000\ncbs = 1000\ntype = "trtcm"\npir = 1000000\npbs = 1000\n'
    actions = 'color_aware = true\nconform_action = "mark"\nconform_dscp = "ef"\nexceed_action = "mark"\nexceed_dscp = "63"\n'
    daemon.apply(policer(rates=rates, more=actions) + tenant("gold"))
    with receiver.socket, sender(a, 4) as client:
        for dscp in (0, 10, 12, 14, 36, 38, 46):
            client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
            client.sendto(b"x", receiver.address)
        client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0)
        eventually(lambda: hits(daemon, tenant="red")[0] == [3, 2, 2], lambda: str(hits(daemon, tenant="red")))
        let_the_last_pass(daemon)
        client.sendto(b"last", receiver.address)
        assert receiver.take() == [46, 46, 63, 63, 46]


def test_all_that_an_interface_receives_is_metered(two, daemon):
    a, b = two
    receiver = Receiver(b, 4, "b")
    # What the pod's kernel asks its neighbours meanwhile counts, too: less than a packet.
    marks = f'cbs = {10 * SIZE[4] + 900}\nviolate_action = "mark"\nviolate_dscp = "cs1"\n'
    daemon.apply(policer(more=marks) + interface("a", 1, a, 'policer = "gold"\n'))
    with receiver.socket, sender(a, 4) as client:
        for _ in range(30):
            client.sendto(b"x" * PAYLOAD, receiver.address)
        client.sendto(b"last", receiver.address)
        # What is marked has a right checksum, or the kernel wouldn't take it.
        assert receiver.take() == [0] * 10 + [8] * 20
    [packets, volume] = hits(daemon, interface="a")
    assert packets[0] >= 10 and packets[2] >= 20 and volume[0] <= 10 * SIZE[4] + 900
    assert 'quiver_policer_packets_total{policer="gold",tenant="",direction="",interface="a",color="red"}' in daemon.scrape()[1]
    # It goes on without.
    daemon.apply(interface("a", 1, a))
    daemon.delete("policer", "gold")
    a.must_ping("10.2.0.2")


def test_no_more_passes_than_was_agreed(two, daemon):
    a, b = two
    receiver = Receiver(b, 4, "b")
    rate, burst = 2_000_000, 20_000
    began = time.monotonic()
    daemon.apply(policer(rates=f"cir = {rate}\n", more=f"cbs = {burst}\n") + tenant("gold"))
    with receiver.socket, sender(a, 4) as client:
        while time.monotonic() < began + 3:
            for _ in range(20):
                client.sendto(b"x" * PAYLOAD, receiver.address)
            time.sleep(0.001)
        packets, volume = hits(daemon, tenant="red")
        ended = time.monotonic()
        # Counted until then, whatever was paused or slow: the bucket and what has come into it.
        assert burst - SIZE[4] <= volume[0] <= burst + rate / 8 * (ended - began), (packets, ended - began)
        assert packets[2] > 0


def test_tokens_begin_anew_with_another_policer_and_figures_go_on(two, daemon):
    a, b = two
    receiver = Receiver(b, 4, "b")
    with receiver.socket, sender(a, 4) as client:
        for more, expected in (("", [2, 0, 3]), ('exceed_action = "drop"\n', [4, 0, 6])):
            daemon.apply(policer(more=f"cbs = {2 * SIZE[4]}\n{more}") + tenant("gold"))
            for _ in range(5):
                client.sendto(b"x" * PAYLOAD, receiver.address)
            eventually(lambda expected=expected: hits(daemon, tenant="red")[0] == expected, lambda: str(hits(daemon, tenant="red")))
        # Another change of the tenant leaves them as they are.
        daemon.apply(tenant("gold", more="max_sessions = 77\n"))
        client.sendto(b"x" * PAYLOAD, receiver.address)
        eventually(lambda: hits(daemon, tenant="red")[0] == [4, 0, 7], lambda: str(hits(daemon, tenant="red")))


def test_policers_return_after_a_restart(own_daemon):
    daemon = own_daemon().start()
    daemon.apply(policer(more="cbs = 1000\n") + policer("tin", "cbs = 7\nper_session = true\n") + nowhere("gold", "tin"))
    daemon.apply('[[interface]]\nname = "s"\nsink = {}\npolicer = "gold"\n')
    before = daemon.cli("get", "-o", "toml").stdout
    assert 'policer = "gold"' in before
    daemon.kill()
    daemon.start()
    assert daemon.cli("get", "-o", "toml").stdout == before
    assert [one["policer"]["name"] for one in daemon.json("show", "policer")["policers"]] == ["gold", "tin"]


def test_what_makes_no_sense_is_refused_by_name(lab, daemon):
    gold = policer(more="cbs = 1000\n")
    for toml, field, reason in (
        (policer(more="cbs = 1000\n", rates=""), "cir", "is 0"),
        (policer(), "cbs", "is 0"),
        (policer(more='type = "trtcm"\ncbs = 1000\npir = 1\npbs = 999\n'), "pbs", "below cbs"),
        (policer(more='type = "trtcm"\ncbs = 1000\n'), "pir", "below cir"),
        (policer(more="cbs = 1000\npir = 1\n"), "pir", "of type srtcm"),
        (policer(more='cbs = 1000\nexceed_action = "mark"\n'), "exceed_dscp", "isn't said"),
        (tenant("gold"), "forward_policer", "there is no policer gold"),
        ('[[interface]]\nname = "s"\nsink = {}\npolicer = "gold"\n', "policer", "there is no policer gold"),
        (gold + '[[tenant]]\nname = "red"\nforward_policer = "gold"\n', "forward_policer", "isn't on that chain"),
        (gold + '[[tenant]]\nname = "red"\nreverse_services = ["policer"]\n', "reverse_policer", "needs one"),
        (gold + "per_session = true\n" + '[[interface]]\nname = "s"\nsink = {}\npolicer = "gold"\n', "per", "has none"),
        (gold + '[[interface]]\nname = "s"\nsink = {}\n[[interface]]\nname = "s.5"\nvlan = { parent = "s", outer_id = 5 }\n'
         'policer = "gold"\n', "policer", "sub-interface"),
    ):  # fmt: skip
        status, outcomes, errors = daemon.offer(toml)
        text = f"{outcomes} {errors}"
        assert status != 0 and field in text and reason in text, text
    daemon.apply(gold + nowhere("gold"))
    done = daemon.cli("delete", "policer", "gold", check=False)
    assert done.returncode != 0 and "tenant red refers to it" in done.stdout + done.stderr, done
    daemon.delete("tenant", "red")
    daemon.delete("policer", "gold")
