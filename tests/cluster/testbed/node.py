"""A node: namespaces, containerd, kubelet; and what Quiver has there."""

import json
import os
import pathlib
import re
import signal
import time

from lab.process import Process, eventually, run, tool

from . import dns, image

CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
conf_dir = "/etc/cni/net.d"
"""
# A call of gRPC with an empty message; the words of the answer.
CRI_VERSION = (
    r"printf '\0\0\0\0\0' | curl -s -m 10 --http2-prior-knowledge --unix-socket /run/containerd/containerd.sock --data-binary @- "
    "-H 'content-type: application/grpc' -H 'te: trailers' http://localhost/runtime.v1.RuntimeService/Version | tr -cd '[:print:]'"
)
# Of which generation the runtime is: Debian's, or 2, which scripts/cluster.sh builds then. By CNI 1.1 it calls STATUS.
CONTAINERD_GENERATION = int(os.environ.get("QUIVER_CONTAINERD", "1"))
# Where Debian's package has it.
LOOPBACK = "/usr/lib/cni/loopback"
MACHINE = pathlib.Path(__file__).with_name("machine.sh")


class Node:
    """One node, with all that runs there."""

    def __init__(self, directory, name, namespace, addresses):
        self.directory, self.name, self.namespace, self.addresses = directory, name, namespace, addresses
        directory.mkdir()
        self.services = {}
        self.groups = []
        self.machine = self.first = None
        self.inside = ()

    # -- the machine -----------------------------------------------------------------------------------------------

    def boot(self):
        """Starts the first process, in whose namespaces all others are."""
        self._make_groups()
        (self.directory / "up").unlink(missing_ok=True)
        self.machine = Process(
            "nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child",
            "--mount-proc", "bash", MACHINE, self.name, self.directory,
        )  # fmt: skip
        up = lambda: (self.directory / "up").exists() or not self.machine.alive()
        eventually(up, self.machine.output)
        assert self.machine.alive(), self.machine.output()
        (self.first,) = children(self.machine.pid)
        self.inside = ("nsenter", "-t", str(self.first), "-n", "-m", "-u", "-p")

    def _make_groups(self):
        """Control groups in which kubelet's will be, of each hierarchy."""
        for hierarchy in pathlib.Path("/sys/fs/cgroup").iterdir():
            group = hierarchy / self.namespace
            group.mkdir()
            self.groups.append(group)
            for file in ("cpuset.cpus", "cpuset.mems") if hierarchy.name == "cpuset" else ():
                (group / file).write_text((hierarchy / file).read_text())

    def cut_power(self):
        """Ends all that runs here at once, also what containerd has started. The disk stays."""
        if self.machine:
            self.machine.signal(signal.SIGKILL)
            for process in (self.machine, *self.services.values()):
                process.wait()
        self._remove_groups()

    def _remove_groups(self):
        """Removes the control groups: a machine that boots has none of before, in each of which kubelet would look for a container."""
        for group in self.groups:
            for attempt in range(50):
                try:
                    for path, _, _ in os.walk(group, topdown=False):
                        os.rmdir(path)
                    break
                except OSError:
                    # The last processes are still on their way out.
                    time.sleep(0.1 if attempt < 49 else 0)
        self.groups.clear()

    def run(self, *command, **options):
        """Runs a command here to its end."""
        return run(*self.inside, *command, **options)

    def start(self, name, *command):
        """Starts a service of that name."""
        self.services[name] = Process(*self.inside, *command)

    def log(self, name):
        """What a service logged."""
        return self.services[name].output() if name in self.services else ""

    # -- Kubernetes ------------------------------------------------------------------------------------------------

    def start_containerd(self, archives=()):
        """Starts the runtime, with the images, if it hasn't got them yet."""
        settings = self.directory / "containerd.toml"
        settings.write_text(CONTAINERD.format(image=image.NAME))
        # The runtime itself sees to the loopback device.
        self.run("install", "-D", "-t", "/opt/cni/bin", LOOPBACK)
        path = os.environ["PATH"] if CONTAINERD_GENERATION == 1 else f"{image.built('containerd')}:{os.environ['PATH']}"
        its = "env", f"PATH={path}"
        self.start("containerd", *its, "containerd", "-c", settings)
        eventually(lambda: self.run(*its, "ctr", "version", check=False).returncode == 0, lambda: self.log("containerd"), timeout=60)
        # What kubelet asks for comes later, and kubelet ends where it doesn't answer.
        serves = lambda: "containerd" in self.run("sh", "-c", CRI_VERSION, check=False).stdout
        eventually(serves, lambda: f"CRI answers\n{self.log('containerd')[-4000:]}", timeout=120)
        for archive in archives:
            self.run(*its, "ctr", "-n", "k8s.io", "images", "import", archive)

    def start_kubelet(self, box, kubeconfig, pki):
        """Starts kubelet."""
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "tlsCertFile": f"{pki}/{self.name}.crt",
            "tlsPrivateKeyFile": f"{pki}/{self.name}.key",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{pki}/ca.crt"}},
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.namespace}",
            # Also where control groups are those of old, and where the killer of last resort can't be told whom to spare.
            "failCgroupV1": False,
            "oomScoreAdj": 0,
            "failSwapOn": False,
            "volumePluginDir": "/var/lib/kubelet/plugins",
            "resolvConf": "",
            "clusterDNS": [dns.ADDRESS],
            "clusterDomain": dns.DOMAIN,
            # The disk is the machine's: how full it is, is not for a test to judge.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100,
            "syncFrequency": "5s",
            "nodeStatusUpdateFrequency": "2s",
        }
        path = self.directory / "kubelet.json"
        path.write_text(json.dumps(settings))
        self.start(
            "kubelet", box, "kubelet", f"--config={path}", f"--kubeconfig={kubeconfig}", f"--hostname-override={self.name}",
            f"--node-ip={','.join(self.addresses)}",
        )  # fmt: skip

    # -- Quiver ----------------------------------------------------------------------------------------------------

    def signal(self, name, number):
        """Sends a signal to the one process of that name: to a container as if its program had done it."""
        (pid,) = self.pids(name)
        self.run("kill", f"-{int(number)}", pid)

    def pids(self, name):
        """Processes of that name, by the node's own numbers."""
        return self.run("pgrep", "-x", name, check=False).stdout.split()

    def quiver(self, *arguments):
        """Runs `quiver … -o json` and returns the answer."""
        return json.loads(self.run(tool("quiver"), *arguments, "-o", "json").stdout)

    def interfaces(self):
        """Names of the interfaces that quiverd has for pods."""
        objects = self.quiver("get", "interface", "--status").get("objects", [])
        names = {entry["object"]["interface"]["name"] for entry in objects}
        return sorted(name for name in names if name.count(":") > 1)

    def kib(self, name):
        """Memory that the one process of that name has really got."""
        (pid,) = self.pids(name)
        return int(re.search(r"^VmRSS:\s+(\d+) kB", self.run("cat", f"/proc/{pid}/status").stdout, re.MULTILINE)[1])

    def open(self, name):
        """How many files the one process of that name has open."""
        (pid,) = self.pids(name)
        return len(self.run("ls", f"/proc/{pid}/fd").stdout.split())

    def kept(self):
        """Attachments on disk."""
        return sorted(os.listdir(self.directory / "lib/quiver/pods/attachments"))

    def network(self):
        """What the host's network is: devices, addresses, routes and tables of rules, without numbers and what still settles."""
        text = "".join(self.run("ip", *words).stdout for words in (("address",), ("-4", "route"), ("-6", "route"), ("rule",)))
        # (Others may change theirs meanwhile: kubelet has tables of its own.)
        text += "\n".join(sorted(re.findall(r"^table \S+ quiver.*$", self.run("nft", "list", "tables").stdout, re.MULTILINE)))
        return re.sub(r"^\d+: |@if\d+|valid_lft.*| tentative| expires \w+", "", text, flags=re.MULTILINE)

    def files(self):
        """Paths of what Quiver has on the node, what the runtime and kubelet keep for containers apart."""
        places = "/opt", "/etc", "/run", "/var/lib"
        theirs = "/run/containerd", "/var/lib/containerd", "/var/lib/cni", "/var/lib/kubelet"
        pruned = [word for place in theirs for word in ("-path", place, "-prune", "-o")]
        return sorted(self.run("find", *places, *pruned, "-name", "*quiver*", "-print").stdout.split())

    def way(self, address):
        """Device by which the kernel reaches an address."""
        (route,) = json.loads(self.run("ip", "-j", "route", "get", address).stdout)
        return route["dev"]

    def routes(self):
        """Routes of the kernel to pods of other nodes: (prefix, via), by the next hop or the device to quiverd."""
        texts = [self.run("ip", "-j", family, "route", "show", "proto", "81").stdout for family in ("-4", "-6")]
        return sorted((route["dst"], route.get("gateway", route["dev"])) for text in texts for route in json.loads(text or "[]"))


def children(pid):
    """Processes that a process has started."""
    return [int(word) for word in run("pgrep", "-P", pid, check=False).stdout.split()]
