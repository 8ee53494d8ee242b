"""A node that boots: of what was there before, the disk is left."""

import re
import shutil

import pytest
from lab.process import eventually, tool
from node import addresses, ask, network

NEIGHBOUR = "192.168.7.2", "fd00:7::2"


def power_cut(node, host, boot):
    """Ends everything at once. Namespaces, devices, and what is in /run are gone; pods' records and quiverd's state are on disk."""
    node.kill_agent()
    node.daemon.kill()
    for pod in node.pods:
        pod.remove()
    for socket in (node.daemon.socket, node.daemon.metrics, node.directory / "agent.sock"):
        socket.unlink(missing_ok=True)
    boot(host)


@pytest.mark.parametrize("disk", ["kept", "quiverd's state lost"])
def test_a_node_that_boots_serves_new_pods_and_forgets_the_old_ones(host_node, host, boot, disk):
    node = host_node
    node.kill_agent()
    node.options = ("--nat-outgoing=both",)
    node.start_agent()
    eventually(lambda: "quiver-outgoing" in network(host), lambda: network(host))
    # (Addresses that devices make up differ.)
    stands = lambda: (re.sub(r"link/ether \S+|fe80:\S+", "", network(host)), node.daemon.names())
    eventually(lambda: "pod:host" in node.daemon.names(), node.log)
    empty = stands()
    old = [node.pod(f"old{number}") for number in range(3)]
    before = [addresses(node.add(pod, {"quiver.io/extraMemifPorts": "udp:4444"} if pod is old[0] else None)) for pod in old]
    old[1].must_ping(before[2][0])
    power_cut(node, host, boot)
    if disk != "kept":
        shutil.rmtree(node.daemon.state)

    # Without the agent: the host has its network, whatever else there is.
    fresh = network(host)
    assert "quiver" not in fresh
    node.daemon.start()
    for address in NEIGHBOUR:
        host.must_ping(address)
    # Before the runtime has told anything, the node is ready for more: those that are gone don't stand in the way.
    node.start_agent()
    ready = lambda: ask(host, "/readyz")
    eventually(lambda: ready() == (200, "forwarding\n"), ready, timeout=60)
    # An address is given only when its last pod was deleted.
    new = node.pod("new")
    given = [addresses(node.add(new))]
    for address in (*NEIGHBOUR, "192.168.7.1", "fd00:7::1"):
        new.must_ping(address)
    for address in given[0]:
        host.neighbour.must_ping(address)
    assert not {*given[0]} & {address for both in before for address in both}, (before, given)
    # The runtime finds its sandboxes dead, and makes others.
    for pod in old:
        node.cni("del", pod)
    assert len(node.attached()) == len(node.kept()) == 1
    again = node.pod("again")
    (own, _) = addresses(node.add(again, {"quiver.io/extraMemifPorts": "udp:4444"}))
    new.must_ping(own)
    with again.start(tool("memif-echo"), "-client", "@vpp/memif-eth0"):
        name = next(name for name in node.attached() if name.endswith(":memif-eth0"))
        eventually(lambda: node.daemon.memif(name).get("connected"), lambda: node.daemon.memif(name))
    for pod in (new, again):
        node.cni("del", pod)
    eventually(lambda: stands() == empty, lambda: (stands(), empty))
