"""A tenant whose established sessions fill the workers' tables: others get their share nevertheless."""

import pytest
from lab import Laboratory

ROOM = 64


def tenants(red, blue):
    return "".join(
        f'[[tenant]]\nname = "{name}"\ncontext = {number}\ninterfaces = ["{inside}"]\noutside_interfaces = ["{outside}"]\n'
        f"max_sessions = {quota}\n"
        for number, (name, inside, outside, quota) in enumerate([("red", "a", "b", red), ("blue", "c", "d", blue)], 1)
    )


@pytest.fixture
def world(own_daemon):
    """Two tenants, each with a client's pod and a server's; tables have room for 64 sessions."""
    daemon = own_daemon(workers=1)
    daemon.settings.write_text(daemon.settings.read_text().replace("[workers]\n", f"[workers]\nsessions = {ROOM}\n"))
    daemon.start()
    lab = Laboratory(daemon)
    pods = [lab.pod(role) for role in "abcd"]
    daemon.apply("".join(lab.tap(role, pod, f"10.{number}.0") for number, (role, pod) in enumerate(zip("abcd", pods, strict=True), 1)))
    yield daemon, pods
    lab.close()


ECHO = """
import socket
answering = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
answering.bind(("0.0.0.0", 7))
print("ready", flush=True)
while True:
    data, whom = answering.recvfrom(100)
    answering.sendto(data, whom)
"""

TALK = """
import socket, sys
answered = 0
for port in range(int(sys.argv[2]), int(sys.argv[3])):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("0.0.0.0", port))
        one.settimeout(0.5)
        for _ in range(int(sys.argv[4])):
            one.sendto(b"x", (sys.argv[1], 7))
            try:
                answered += one.recv(10) == b"x"
                break
            except TimeoutError:
                pass
print(answered)
"""


def talk(pod, server, ports, tries=20):
    """Sends from each port until it is answered; returns how many are."""
    return int(pod.run("python3", "-c", TALK, server, ports.start, ports.stop, tries).stdout)


def sessions(daemon):
    return {tenant["name"]: int(tenant["sessions"]) for tenant in daemon.show("tenant")["tenants"]}


def test_a_tenant_gets_its_share_of_a_full_table(world):
    daemon, (a, b, c, d) = world
    daemon.offer(tenants(red=ROOM, blue=ROOM))
    with b.start("python3", "-c", ECHO), d.start("python3", "-c", ECHO):
        assert talk(a, "10.2.0.2", range(20000, 20000 + ROOM)) == ROOM
        filled = sessions(daemon)
        assert filled["red"] >= ROOM - 2, filled
        # All of red's are established; blue's begin nevertheless, one after the other, at the first try but for the neighbour's.
        assert talk(c, "10.4.0.2", range(30000, 30024), tries=4) == 24
        shared = sessions(daemon)
        assert shared["blue"] >= 24 and ROOM // 2 <= shared["red"] <= ROOM - 24, shared
        assert daemon.dropped("table-full") == 0, daemon.drops()
        # And red keeps its share: as many go on.
        assert talk(a, "10.2.0.2", range(20000, 20000 + ROOM), tries=1) >= ROOM // 2


def test_apply_warns_of_quotas_that_do_not_fit(world):
    daemon, _ = world
    answer = daemon.json("apply", "-f", "-", stdin=tenants(red=40, blue=24))
    assert not any(result.get("warnings") for result in answer["results"]), answer
    done = daemon.cli("apply", "-f", "-", stdin=tenants(red=60, blue=40))
    words = f"max_sessions of all tenants are 100, and workers have room for {ROOM}: 38 of its 60 are guaranteed"
    assert words in done.stdout and "25 of its 40" in done.stdout, done.stdout
    answer = daemon.json("apply", "--dry-run", "-f", "-", stdin=tenants(red=60, blue=40))
    warned = {result["object"]["name"]: result["warnings"] for result in answer["results"] if result.get("warnings")}
    assert set(warned) == {"red", "blue"} and words in warned["red"][0], answer
    shares = {tenant["name"]: int(tenant["guaranteed_sessions"]) for tenant in daemon.show("tenant")["tenants"]}
    assert shares == {"red": 38, "blue": 25}
    # A change of something else says nothing of it.
    answer = daemon.json("apply", "-f", "-", stdin='[[vrf]]\nname = "other"\n')
    assert not any(result.get("warnings") for result in answer["results"]), answer
