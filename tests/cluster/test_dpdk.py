"""DPDK in pods, on the memif that Calico/VPP's annotations ask for."""

import re

from lab.process import HANGS, eventually
from manifests import applied, asked
from testbed import peers
from workload import PORTS, addresses, bare, events, generator, known, left, must_echo, nothing_left, pods, through

# As DPDK's own documentation has it for a pod: without huge pages, and one thread that sends and receives.
TESTPMD = (
    "{}exec dpdk-testpmd --no-huge -m 256 --no-pci --no-shconf --no-telemetry --lcores=0@0-1,1@0-1 "
    "--vdev=net_memif0,role=client,id=0,socket=vpp/memif-eth0,socket-abstract=yes,bsize=2048,rsize=10 "
    "-- --forward-mode={} --auto-start --no-flush-rx --total-num-mbufs=8192 --no-mlockall --stats-period=1"
)
PORT = 4444


# Who only sends asks nobody for addresses: it is told to whom frames go.
TOLD = "while [ ! -e /tmp/mac ]; do sleep 0.1; done; "


def with_testpmd(name, node, mode, before=""):
    """A pod on a node whose memif testpmd has, in that mode of forwarding, once something else is done."""
    made = bare(name, node, {"image": peers.NAME, "command": ["sh", "-c", TESTPMD.format(before, mode)]})
    own = {"name": "OWN", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    # It polls for all it is worth, and others want to run, too.
    made["spec"]["containers"][0] |= {"env": [own], "resources": {"limits": {"cpu": "300m"}}}
    made["metadata"]["annotations"] = {PORTS: f"udp:{PORT}-20000"}
    return made


def memif_of(node, name):
    """What quiverd on a node tells of a pod's memif."""
    (found,) = [one for one in node.quiver("show", "memif").get("memifs", []) if f".{name}:" in one["interface"]]
    return found


def mac_of(node, name):
    """The address of quiverd's end of a pod's memif."""
    told = node.quiver("show", "interface")["interfaces"]
    (mac,) = [one["mac"] for one in told if f".{name}:" in one["name"] and one["name"].endswith(":memif-eth0")]
    return mac


def received(cluster, name):
    """Packets that testpmd of a pod has received so far, as it tells."""
    told = re.findall(r"RX-packets: (\d+)", cluster.control.kubectl("logs", name, "--tail=40").stdout)
    return int(told[-1]) if told else 0


def test_testpmd_sends_back_what_pods_and_nodes_send(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with applied(cluster, "testpmd") as here, pods(cluster, generator("x", n1), generator("y", n2)) as of:
        swaps = {name: addresses(here.control.get("pod", name)) for name in ("swap", "swap-far")}
        for node, name, queues, ring in ((n1, "swap", 1, 1024), (n2, "swap-far", 2, 512)):
            connected = lambda node=node, name=name: memif_of(node, name).get("connected")
            eventually(connected, lambda node=node: node.quiver("show", "memif"), timeout=60)
            shown = memif_of(node, name)
            assert shown["peer_name"].startswith("DPDK"), shown
            # As many queues as the annotation says, if the client has them, and rings of its own size.
            sizes = {(one.get("rx", False), one.get("index", 0)): one["ring_size"] for one in shown["queues"]}
            assert sizes == {(rx, n): ring for rx in (True, False) for n in range(queues)}, shown
            assert any("@vpp/memif-eth0" in text for text in events(here, name, "QuiverMemif"))
        # From nodes, from pods on one node and across both, and through the Service of both.
        for name, its in swaps.items():
            for family in (0, 1):
                for node in cluster.nodes:
                    must_echo(node, its[family], PORT)
                for client in ("x", "y"):
                    end = through(cluster, client, of[client][family], its[family], 20000, seconds=2)
                    assert 0 < end["received"] <= end["sent"] and end["foreign"] == 0 and end["duplicated"] == 0, end
                    told(f"DPDK in a pod, {client} to {name}, {its[family]}: came back {end['received']} of {end['sent']}")
        services = asked(here, "swap")
        known(cluster, services, PORT, swaps.values())
        for family in (0, 1):
            for client in ("x", "y"):
                end = through(cluster, client, of[client][family], services[family], PORT, seconds=2)
                assert 0 < end["received"] <= end["sent"] and end["foreign"] == 0, end
    nothing_left(cluster, before)


def test_testpmd_sends_to_testpmd_on_its_node_and_across_nodes(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with pods(cluster, with_testpmd("near", n1, "rxonly"), with_testpmd("far", n2, "rxonly")) as of:
        for name in ("near", "far"):
            sends = f"txonly --eth-peer=0,$(cat /tmp/mac) --txpkts=128 --tx-udp={PORT},{PORT} --tx-ip=$OWN,{of[name][0]}"
            count = received(cluster, name)
            with pods(cluster, with_testpmd("sends", n1, sends, TOLD)):
                cluster.control.exec("sends", "sh", "-c", f"echo {mac_of(n1, 'sends')} > /tmp/mac")
                came = lambda name=name, count=count: received(cluster, name) - count
                eventually(
                    lambda came=came: came() > 10_000, lambda: cluster.control.kubectl("logs", "sends").stdout[-3000:], timeout=HANGS
                )
                told(f"DPDK in both pods, n1 to {name}: {came()} packets came")
    nothing_left(cluster, before)
