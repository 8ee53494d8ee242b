"""What Quiver is held against: the kernel as the network of pods, with the plugin `ptp`, routes between nodes, and kube-proxy."""

import json
import shutil

from lab.process import eventually

# Where Debian's package has them.
PLUGINS = "/usr/lib/cni"
NETWORK = "etc/cni/net.d/10-veth.conflist"


class Veth:
    """A pair of devices for each pod, one end in it, the other on its node; Services by nftables."""

    def __init__(self, cluster):
        self.cluster, self.control = cluster, cluster.control

    def install(self):
        """Installs, and waits until kube-proxies have begun."""
        ranges = {}
        for node in self.cluster.nodes:
            ranges[node] = eventually(lambda node=node: self.cluster.ranges(node), f"{node.name} has ranges", timeout=60)
        for node, own in ranges.items():
            for plugin in ("ptp", "host-local", "portmap"):
                target = node.directory / "opt/cni/bin"
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy2(f"{PLUGINS}/{plugin}", target)
            (node.directory / NETWORK).parent.mkdir(parents=True, exist_ok=True)
            (node.directory / NETWORK).write_text(json.dumps(network(own)))
            for other, theirs in ranges.items():
                for prefix, via in zip(theirs, other.addresses, strict=True) if other is not node else ():
                    node.run("ip", "route", "replace", prefix, "via", via)
            self._start_proxy(node)

    def _start_proxy(self, node):
        settings = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": node.name,
            "clientConnection": {"kubeconfig": str(self.control.kubeconfig(f"{node.name}-proxy", "/CN=system:kube-proxy"))},
            # What is the machine's as a whole stays as it is.
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "oomScoreAdj": 0,
        }
        path = node.directory / "proxy.json"
        path.write_text(json.dumps(settings))
        node.start("kube-proxy", self.cluster.box, "kube-proxy", f"--config={path}")
        synced = lambda: "kube-proxy" in node.run("nft", "list", "tables", check=False).stdout
        eventually(synced, lambda node=node: f"{node.name} has kube-proxy's rules\n{node.log('kube-proxy')[-3000:]}", timeout=120)

    def logs(self):
        """None but those of the nodes' services."""
        return {}


def network(ranges):
    """What the runtime is told to do for a pod of a node with these ranges."""
    routes = [{"dst": "::/0" if ":" in prefix else "0.0.0.0/0"} for prefix in ranges]
    ipam = {"type": "host-local", "ranges": [[{"subnet": prefix}] for prefix in ranges], "routes": routes}
    plugins = [{"type": "ptp", "ipMasq": False, "ipam": ipam}, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "1.0.0", "name": "veth", "plugins": plugins}
