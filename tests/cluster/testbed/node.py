"""A node: namespaces, containerd, kubelet, and Quiver."""

import json
import os
import pathlib
import signal
import time

from lab.process import Process, eventually, run, tool

from . import image

CONTAINERD = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{configurations}"
"""
# Where Debian's package has it.
LOOPBACK = "/usr/lib/cni/loopback"
MACHINE = pathlib.Path(__file__).with_name("machine.sh")


class Service(Process):
    """A process of a node. Signals are for it, not for what has brought it there."""

    def __init__(self, node, *command):
        super().__init__(*node.inside, *command)

    def signal(self, number):
        """Sends a signal to the process itself."""
        for pid in children(self.pid):
            os.kill(pid, number)


class Node:
    """One node, with all that runs there."""

    def __init__(self, directory, name, namespace, addresses):
        self.directory, self.name, self.namespace, self.addresses = directory, name, namespace, addresses
        directory.mkdir()
        self.services, self.past = {}, {}
        self.groups = []
        self.machine = None
        self.inside = ()

    # -- the machine -----------------------------------------------------------------------------------------------

    def boot(self):
        """Starts the first process, in whose namespaces all others are."""
        self._make_groups()
        self.machine = Process(
            "nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child",
            "--mount-proc", "bash", MACHINE, self.name, self.directory,
        )  # fmt: skip
        up = lambda: (self.directory / "up").exists() or not self.machine.alive()
        eventually(up, self.machine.output)
        assert self.machine.alive(), self.machine.output()
        (first,) = children(self.machine.pid)
        self.inside = ("nsenter", "-t", str(first), "-n", "-m", "-u", "-p")

    def _make_groups(self):
        """Control groups in which kubelet's will be, of each hierarchy."""
        for hierarchy in pathlib.Path("/sys/fs/cgroup").iterdir():
            group = hierarchy / self.namespace
            group.mkdir()
            self.groups.append(group)
            for file in ("cpuset.cpus", "cpuset.mems") if hierarchy.name == "cpuset" else ():
                (group / file).write_text((hierarchy / file).read_text())

    def shut_down(self):
        """Ends all that runs here, also what containerd has started, and removes the control groups."""
        if self.machine:
            self.machine.signal(signal.SIGKILL)
            for process in (self.machine, *self.services.values()):
                process.wait()
        for group in self.groups:
            for attempt in range(50):
                try:
                    for path, _, _ in os.walk(group, topdown=False):
                        os.rmdir(path)
                    break
                except OSError:
                    # The last processes are still on their way out.
                    time.sleep(0.1 if attempt < 49 else 0)

    def run(self, *command, **options):
        """Runs a command here to its end."""
        return run(*self.inside, *command, **options)

    def start(self, name, *command):
        """Starts a service of that name."""
        self.past[name] = self.log(name)
        self.services[name] = Service(self, *command)

    def log(self, name):
        """What a service logged, over all its lives."""
        service = self.services.get(name)
        return self.past.get(name, "") + (service.output() if service else "")

    # -- Kubernetes ------------------------------------------------------------------------------------------------

    def start_containerd(self, archive):
        """Starts the runtime, with the image."""
        self.configurations = self.directory / "net.d"
        self.configurations.mkdir()
        settings = self.directory / "containerd.toml"
        plugins = self.directory / "plugins"
        plugins.mkdir()
        # The runtime itself sees to the loopback device.
        for plugin in (LOOPBACK, tool("quiver-cni")):
            (plugins / pathlib.Path(plugin).name).symlink_to(plugin)
        settings.write_text(CONTAINERD.format(image=image.NAME, plugins=plugins, configurations=self.configurations))
        self.start("containerd", "containerd", "-c", settings)
        eventually(lambda: self.run("ctr", "version", check=False).returncode == 0, lambda: self.log("containerd"), timeout=60)
        self.run("ctr", "-n", "k8s.io", "images", "import", archive)

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
            # The disk is the machine's: how full it is, is not for a test to judge.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100,
            "syncFrequency": "5s",
            "nodeStatusUpdateFrequency": "2s",
        }
        path = self.directory / "kubelet.json"
        path.write_text(json.dumps(settings))
        self.kubelet = (
            box, "kubelet", f"--config={path}", f"--kubeconfig={kubeconfig}", f"--hostname-override={self.name}",
            f"--node-ip={','.join(self.addresses)}",
        )  # fmt: skip
        self.start("kubelet", *self.kubelet)

    # -- Quiver ----------------------------------------------------------------------------------------------------

    def install(self, kubeconfig):
        """Installs Quiver as its documentation says: quiverd, the agent, and the configuration for the runtime."""
        self.kubeconfig = kubeconfig
        self.start_quiverd()
        self.start_agent()
        plugin = {"type": "quiver-cni", "capabilities": {"io.kubernetes.cri.pod-annotations": True}}
        text = json.dumps({"cniVersion": "1.0.0", "name": "quiver", "plugins": [plugin]})
        (self.configurations / "10-quiver.conflist").write_text(text)

    def start_quiverd(self):
        """Starts quiverd."""
        self.start("quiverd", tool("quiverd"))

    def uninstall(self):
        """Has quiver-agent take away what it made."""
        self.run(tool("quiver-agent"), "--uninstall")

    def start_agent(self):
        """Starts quiver-agent."""
        self.start("quiver-agent", tool("quiver-agent"), "--node", self.name, "--kubeconfig", self.kubeconfig)

    def end(self, name, number=signal.SIGKILL):
        """Ends a service by a signal."""
        self.services[name].signal(number)
        self.services[name].wait()

    def quiver(self, *arguments):
        """Runs `quiver … -o json` and returns the answer."""
        return json.loads(self.run(tool("quiver"), *arguments, "-o", "json").stdout)

    def interfaces(self):
        """Names of the interfaces that quiverd has for pods."""
        objects = self.quiver("get", "interface", "--status").get("objects", [])
        names = {entry["object"]["interface"]["name"] for entry in objects}
        return sorted(names - {"pod:gateway", "pod:host"})

    def kept(self):
        """Attachments on disk."""
        return sorted(os.listdir(self.directory / "lib/quiver/pods/attachments"))

    def routes(self):
        """Routes of the kernel to pods of other nodes: (prefix, via)."""
        texts = [self.run("ip", "-j", family, "route", "show", "proto", "81").stdout for family in ("-4", "-6")]
        return sorted((route["dst"], route["gateway"]) for text in texts for route in json.loads(text or "[]"))


def children(pid):
    """Processes that a process has started."""
    return [int(word) for word in run("pgrep", "-P", pid, check=False).stdout.split()]
