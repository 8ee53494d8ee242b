"""What happens to pods when quiver-agent or quiverd is gone, killed or started anew."""

import concurrent.futures
import shutil
import time

from lab.process import HANGS, eventually
from node import addresses


def test_an_agent_that_is_killed_gives_no_address_twice(node):
    pods = [node.pod(f"p{number}") for number in range(4)]
    given = [addresses(node.add(pod)) for pod in pods[:2]]
    with pods[0].pinging(given[1][0]), pods[0].pinging(given[1][1]):
        node.kill_agent()
        node.start_agent()
        given += [addresses(node.add(pod)) for pod in pods[2:]]
    flat = [address for both in given for address in both]
    assert len(set(flat)) == len(flat), given
    for address in given[3]:
        pods[0].must_ping(address)
    node.cni("check", pods[0])
    for pod in pods:
        node.cni("del", pod)
    assert node.attached() == [] and node.kept() == []


def test_del_without_agent_is_made_good_when_it_comes(node):
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    node.add(b)
    node.kill_agent()
    for _ in range(2):
        node.cni("del", a)
    assert len(node.kept()) == 2, "nobody was there to do it"
    node.start_agent()
    eventually(lambda: len(node.attached()) == len(node.kept()) == 1, lambda: (node.attached(), node.log()))
    assert node.daemon.names("route") and b.name in node.attached()[0]


def test_add_without_agent_can_be_tried_again(node):
    pod = node.pod("a")
    node.kill_agent()
    arguments = {"CONTAINERID": "c", "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
    status, answer = node.plugin("ADD", {"timeoutSeconds": 1}, **arguments)
    assert status != 0 and answer["code"] == 11 and "quiver-agent" in answer["msg"] and answer["details"], answer
    status, answer = node.plugin("STATUS", {})
    assert status != 0 and answer["code"] == 50, answer
    node.start_agent()
    assert node.plugin("STATUS", {}) == (0, {})
    assert addresses(node.plugin("ADD", {}, **arguments)[1])[0] == "10.244.7.2"


def test_add_without_quiverd_can_be_tried_again(node):
    pod = node.pod("a")
    arguments = {"CONTAINERID": "c", "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
    node.daemon.kill()
    status, answer = node.plugin("ADD", {"timeoutSeconds": 4}, **arguments)
    assert status != 0 and answer["code"] == 11 and "quiverd at" in answer["msg"] and "doesn't answer within" in answer["msg"], answer
    status, answer = node.plugin("STATUS", {})
    assert status != 0 and answer["code"] == 50 and "quiverd at" in answer["msg"] and "doesn't answer within" in answer["msg"], answer
    assert node.kept() == []
    node.daemon.start()
    assert addresses(node.plugin("ADD", {}, **arguments)[1])[0] == "10.244.7.2"


def test_add_waits_for_who_is_about_to_come(node):
    patience = {"timeoutSeconds": HANGS // 2}
    with concurrent.futures.ThreadPoolExecutor() as runtime:
        for number, (goes, comes) in enumerate([(node.daemon.kill, node.daemon.start), (node.kill_agent, node.start_agent)], 2):
            pod = node.pod(f"p{number}")
            arguments = {"CONTAINERID": f"c{number}", "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
            goes()
            asked = runtime.submit(node.plugin, "ADD", patience, **arguments)
            time.sleep(1)
            assert not asked.done(), asked.result()
            comes()
            status, answer = asked.result()
            assert status == 0 and addresses(answer)[0] == f"10.244.7.{number}", answer
    assert len(node.attached()) == len(node.kept()) == 2


def test_pods_return_with_quiverd(node):
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    theirs = addresses(node.add(b))
    before = node.daemon.cli("get", "-o", "toml").stdout
    node.daemon.kill()
    node.daemon.start()
    for address in theirs:
        a.must_ping(address)
    assert node.daemon.cli("get", "-o", "toml").stdout == before

    # And when it has forgotten everything.
    node.daemon.kill()
    shutil.rmtree(node.daemon.state)
    node.daemon.start()
    eventually(lambda: node.daemon.cli("get", "-o", "toml").stdout == before, lambda: node.log())
    for address in theirs:
        a.must_ping(address)


def test_a_pod_that_went_while_quiverd_was_down_is_forgotten(node):
    a, b = node.pod("a"), node.pod("b")
    node.add(a)
    node.add(b)
    node.daemon.kill()
    node.cni("del", a)
    a.remove()
    assert len(node.kept()) == 1
    node.daemon.start()
    eventually(lambda: len(node.attached()) == 1, lambda: (node.attached(), node.log()))
    assert len(node.daemon.names("route")) == 2


def test_what_others_configured_stays(node):
    node.daemon.apply('[[interface]]\nname = "mine"\naddresses = ["10.3.0.1/24"]\nloopback = {}\n')
    node.daemon.apply('[[route]]\nprefix = "10.4.0.0/16"\nnext_hops = [{ interface = "mine" }]\n')
    pod = node.pod("a")
    node.add(pod)
    # A left-over of an earlier life goes, at the next look.
    node.daemon.apply('[[interface]]\nname = "pod:default.gone:00000000:eth0"\nloopback = {}\n')
    node.kill_agent()
    node.start_agent()
    eventually(lambda: "pod:default.gone:00000000:eth0" not in node.daemon.names(), node.log)
    assert {"mine", "default/10.4.0.0/16"} <= set(node.daemon.names())
    assert len(node.attached()) == 2
