"""The cluster: a switch, two nodes at it, and the control plane on the first."""

import os
import pathlib

from lab.process import eventually, run

from . import image
from .control import ControlPlane
from .installation import installation
from .node import Node

# What kubelet sets for the machine as a whole.
KERNEL = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


class Cluster:
    """Nodes n1 and n2, with 10.200.0.x and fd00:200::x, and Quiver as their pods' network."""

    def __init__(self, directory, *packers, network=None):
        """Packers write images that nodes have besides into a directory, and return the archives' paths. Another network than Quiver is
        a class as that in `veth`."""
        self.network = network
        self.directory, self.packers = pathlib.Path(directory), (image.pack, *packers)
        self.box = str(image.built("k8sbox"))
        prefix = f"qk{os.getpid()}"
        self.switch = f"{prefix}-switch"
        self.nodes = [
            Node(self.directory / f"n{number}", f"n{number}", f"{prefix}-n{number}", (f"10.200.0.{number}", f"fd00:200::{number}"))
            for number in (1, 2)
        ]
        self.control = self.quiver = None
        self.before = {}
        self.kernel = {path: path.read_text() for path in (pathlib.Path("/proc/sys", name) for name in KERNEL)}

    def start(self):
        """Starts everything and waits until all nodes are ready for pods."""
        self._cable()
        first = self.nodes[0]
        self.control = control = ControlPlane(self.directory, self.box, first.namespace, first.addresses[0])
        control.start()
        archives = [archive for pack in self.packers for archive in pack(self.directory)]
        for node in self.nodes:
            node.boot()
            node.start_containerd(archives)
            names = ",".join([f"DNS:{node.name}", *(f"IP:{address}" for address in node.addresses)])
            control.authority.issue(node.name, f"/O=system:nodes/CN=system:node:{node.name}", names)
            control.kubeconfig(f"{node.name}-kubelet", f"/O=system:nodes/CN=system:node:{node.name}")
            self.start_kubelet(node)
        for node in self.nodes:
            there = lambda node=node: control.kubectl("get", "node", node.name, check=False).returncode == 0
            eventually(there, lambda node=node: self._trouble(node), timeout=180, interval=0.3)
        self.before = {node.name: (node.network(), node.files()) for node in self.nodes}
        self.quiver = self.network(self) if self.network else installation(control)
        self.quiver.install()
        for node in self.nodes:
            eventually(lambda node=node: self._ready(node), lambda node=node: self._trouble(node), timeout=180, interval=0.3)
        return self

    def start_kubelet(self, node):
        """Starts a node's kubelet."""
        pki = self.control.authority.directory
        node.start_kubelet(self.box, pki / f"{node.name}-kubelet.kubeconfig", pki)

    def boot(self, node):
        """Has a node without power boot as far as its network, which is new: no runtime, no kubelet."""
        run("ip", "netns", "del", node.namespace)
        # Of a namespace that goes, the kernel takes devices away a moment later.
        cable = lambda: f"{self._port(node)}@" in run("ip", "-n", self.switch, "link").stdout
        eventually(lambda: not cable(), "the cable is gone", timeout=60)
        self._plug(node)
        node.boot()

    def _cable(self):
        """The network between the nodes: Ethernet, and nothing that knows of pods."""
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "br0", "up", "type", "bridge")
        for node in self.nodes:
            self._plug(node)

    def _port(self, node):
        return f"port{self.nodes.index(node) + 1}"

    def _plug(self, node):
        """Gives a node its network."""
        run("ip", "netns", "add", node.namespace)
        ip = lambda *words: run("ip", "-n", node.namespace, *words)
        ip("link", "set", "lo", "up")
        port = self._port(node)
        # A card keeps its address when its machine boots.
        card = f"02:00:0a:c8:00:{self.nodes.index(node) + 1:02x}"
        peer = "peer", "name", "eth0", "address", card, "netns", node.namespace
        run("ip", "-n", self.switch, "link", "add", port, "type", "veth", *peer)
        run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
        for address, length in zip(node.addresses, (24, 64), strict=True):
            ip("address", "add", f"{address}/{length}", "dev", "eth0", *(("nodad",) if length == 64 else ()))
        ip("link", "set", "eth0", "up")
        # Nobody is there, but components take the device of the default route for the node's.
        ip("route", "add", "default", "via", "10.200.0.254")
        ip("route", "add", "default", "via", "fd00:200::254")

    def _ready(self, node):
        shown = self.control.kubectl("get", "node", node.name, "-o", "json", check=False).stdout
        return '"reason": "KubeletReady"' in shown

    def ranges(self, node):
        """Ranges of addresses that the cluster has given a node."""
        return self.control.get("node", node.name)["spec"].get("podCIDRs", [])

    def _trouble(self, node):
        return f"{node.name} is ready\n{self.logs()}"

    def logs(self):
        """The ends of all logs."""
        parts = [f"--- {name}\n{self.control.log(name)[-1000:]}" for name in self.control.components]
        for node in self.nodes:
            parts += [f"--- {node.name} {name}\n{node.log(name)[-3000:]}" for name in node.services]
        parts += [f"--- {name}\n{text[-3000:]}" for name, text in self.quiver.logs().items()] if self.quiver else []
        return "\n".join(parts)

    def stop(self):
        """Takes everything away, whatever of it is there."""
        for node in self.nodes:
            node.cut_power()
        if self.control:
            self.control.stop()
        for path, text in self.kernel.items():
            path.write_text(text)
        for namespace in (self.switch, *(node.namespace for node in self.nodes)):
            run("ip", "netns", "del", namespace, check=False)
