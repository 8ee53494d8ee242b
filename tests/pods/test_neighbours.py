"""What asks for addresses on a pod's Ethernet memif: ARP and neighbour discovery, frame by frame.

The application is a second quiverd that joins the memif with a tap, on which scapy's frames go out and come in.
"""

import json
import socket

import pytest
from lab.process import eventually
from node import addresses
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils6 import in6_getnsma, in6_getnsmac, in6_mactoifaceid
from test_cni import kernel_echo

# As Calico/VPP has them, for a client of Ethernet, whose address is always the same there.
ANNOTATIONS = {
    "cni.projectcalico.org/vppExtraMemifPorts": "udp:5000",
    "cni.projectcalico.org/vppExtraMemifSpec": json.dumps({"rx": 1, "tx": 1, "isl3": False}),
}
CLIENT = "02:00:00:00:00:01"
GATEWAYS = ("169.254.1.1", "10.244.7.1"), ("fd00:10:244:7::1",)


class Client:
    """A pod with a memif, and the wire of its application."""

    def __init__(self, node, application):
        other, pod, self.app = node.pod("other"), node.pod("pod"), node.pod("app")
        self.node, self.other = node, other
        self.others = addresses(node.add(other))
        self.own = addresses(node.add(pod, ANNOTATIONS))
        name = next(name for name in node.attached() if name.endswith("memif-eth0"))
        self.mac = node.daemon.interface(name)["mac"]
        # The kernel there says nothing of its own accord.
        self.app.run("sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1")
        application.start().apply(f"""
[[interface]]
name = "memif"
cross_connect = "tap"
memif = {{ socket = "@vpp/memif-eth0", netns = "{pod.name}", role = "client" }}
[[interface]]
name = "tap"
cross_connect = "memif"
tap = {{ netns = "{self.app.name}", host_name = "eth0" }}
""")
        eventually(lambda: node.daemon.memif(name).get("connected"), "the application connects")

    def asked_by_arp(self, wire, address):
        """Asks who has an address; returns the answer."""
        wire.send(who_has(address, self.own[0]))
        return wire.expect(lambda frame: ARP in frame, f"answer about {address}: {self.node.daemon.drops()}")

    def solicited(self, wire, address, *neighbour):
        """Solicits the neighbour that has an address: whoever it may be, or one that is known; returns the answer."""
        wire.send(solicitation(address, self.own[1], *neighbour))
        return wire.expect(lambda frame: ICMPv6ND_NA in frame, f"answer about {address}: {self.node.daemon.drops()}")

    def exchange(self, wire, family, mac):
        """Has the other pod's kernel answer a datagram that is sent to it by way of a neighbour; returns the frame with the answer."""
        header = (IP, IPv6)[family]
        mine, theirs = self.own[family], self.others[family]
        with kernel_echo(self.other, theirs, 7000, b"kernel"):
            wire.send(Ether(src=CLIENT, dst=mac) / header(src=mine, dst=theirs) / UDP(sport=5000, dport=7000) / Raw(b"ping"))
            return wire.expect(lambda frame: UDP in frame and frame[UDP].dport == 5000, f"datagram: {self.node.daemon.drops()}")


def who_has(address, sender):
    """A request for the address of a station."""
    return Ether(src=CLIENT, dst="ff:ff:ff:ff:ff:ff") / ARP(op="who-has", hwsrc=CLIENT, psrc=sender, pdst=address)


def solicitation(address, sender, to=None, mac=None):
    """A solicitation, multicast unless it says to whom. (Without a sender it has no option: RFC 4861, 4.3.)"""
    raw = socket.inet_pton(socket.AF_INET6, address)
    to, mac = to or socket.inet_ntop(socket.AF_INET6, in6_getnsma(raw)), mac or in6_getnsmac(raw)
    option = ICMPv6NDOptSrcLLAddr(lladdr=CLIENT) if sender != "::" else b""
    return Ether(src=CLIENT, dst=mac) / IPv6(src=sender, dst=to, hlim=255) / ICMPv6ND_NS(tgt=address) / option


@pytest.fixture
def client(node, client_daemon):
    """Everything, connected."""
    return Client(node, client_daemon)


def test_a_memifs_ethernet_client_asks_by_arp(client):
    with client.app.wire() as wire:
        for address in (*GATEWAYS[0], client.others[0]):
            answer = client.asked_by_arp(wire, address)
            arp = ARP(op="is-at", hwsrc=client.mac, psrc=address, hwdst=CLIENT, pdst=client.own[0])
            assert bytes(answer)[:42] == bytes(Ether(src=client.mac, dst=CLIENT) / arp), answer.show(dump=True)
        # What it was told leads there.
        came = client.exchange(wire, 0, answer[ARP].hwsrc)
        assert (came.src, came.dst, came[IP].src, bytes(came[UDP].payload)) == (client.mac, CLIENT, client.others[0], b"kernel")


def test_a_memifs_ethernet_client_solicits_neighbours(client):
    router = f"fe80::{in6_mactoifaceid(client.mac)}".lower()
    with client.app.wire() as wire:
        other = client.others[1]
        for address, *neighbour in (*((gateway,) for gateway in GATEWAYS[1]), (other,), (other, other, client.mac)):
            answer = client.solicited(wire, address, *neighbour)
            # RFC 4861, 4.4 and 7.2.8: a router that answers in another's place doesn't override what others know.
            advertisement = ICMPv6ND_NA(R=1, S=1, O=0, tgt=address) / ICMPv6NDOptDstLLAddr(lladdr=client.mac)
            wanted = Ether(src=client.mac, dst=CLIENT) / IPv6(src=router, dst=client.own[1], hlim=255) / advertisement
            assert bytes(answer) == bytes(wanted), answer.show(dump=True)
        came = client.exchange(wire, 1, answer[ICMPv6NDOptDstLLAddr].lladdr)
        assert (came.src, came.dst, came[IPv6].src, bytes(came[UDP].payload)) == (client.mac, CLIENT, other, b"kernel")


def test_a_memifs_ethernet_client_that_looks_whether_its_address_is_taken_is_told_nothing(client):
    """RFC 5227 and RFC 4862: who is answered gives its address up."""
    probe, gateway = who_has(client.own[0], "0.0.0.0"), who_has(GATEWAYS[0][0], client.own[0])
    with client.app.wire() as wire:
        wire.send(probe, gateway)
        assert wire.collect(lambda frame: ARP in frame, lambda frame: ARP in frame and frame[ARP].psrc == GATEWAYS[0][0]) == []
        wire.send(solicitation(client.own[1], "::"), solicitation(GATEWAYS[1][0], client.own[1]))
        about = lambda address: lambda frame: ICMPv6ND_NA in frame and frame[ICMPv6ND_NA].tgt == address
        assert wire.collect(about(client.own[1]), about(GATEWAYS[1][0])) == []
