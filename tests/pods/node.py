"""A node: quiverd, quiver-agent, and a runtime that calls quiver-cni as a kubelet's would."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import threading

from lab import Daemon, Pod
from lab.process import HANGS, Process, eventually, run, tool

RANGES = "10.244.7.0/24", "fd00:10:244:7::/64"
# What annotations may have pods send from.
SOURCES = "10.0.0.0/8", "192.168.0.0/16", "fd00::/8"
# Where the agent of a node in a namespace of its own is asked how it is.
HEALTH = "127.0.0.1:9478"


class Node:
    """One of each, in one directory."""

    def __init__(self, directory, ranges=RANGES, host=None, quiverd=None, agent=None, options=()):
        self.directory = pathlib.Path(directory)
        # The namespace that is the node's own; without one, pods reach each other only: the machine's is left alone.
        # (No `ip netns exec`: in its copy of the mounts, namespaces that are made later would be missing.)
        self.host = host
        self.inside = ("nsenter", f"--net=/run/netns/{host.name}") if host else ()
        self.daemon = Daemon(directory, inside=self.inside, program=quiverd)
        self.program = agent or tool("quiver-agent")
        self.ranges = ranges
        self.options = options
        # By what the agent asks an API server; without, it is told its ranges by us.
        self.cluster = ()
        self.agent = None
        self.past = ""
        self.pods = []
        # Where the runtime finds plugins.
        self.plugins = [pathlib.Path(tool("quiver-cni")).parent]
        self.network = {
            "type": "quiver-cni",
            "agentSocket": str(self.directory / "agent.sock"),
            "stateDirectory": str(self.directory / "pods"),
            "timeoutSeconds": HANGS // 2,
            "capabilities": {"io.kubernetes.cri.pod-annotations": True},
        }
        (self.directory / "net.d").mkdir()
        self.configure(self.network)

    def configure(self, *plugins, version="1.1.0"):
        """Tells the runtime which plugins make a pod's network, one after the other."""
        text = {"cniVersion": version, "name": "quiver", "plugins": plugins}
        (self.directory / "net.d/10-quiver.conflist").write_text(json.dumps(text))

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self):
        """Starts both daemons."""
        self.daemon.start()
        return self.start_agent()

    def start_agent(self):
        """Starts quiver-agent and waits until quiver-cni would find it ready."""
        self.agent = Process(
            *self.inside, self.program, *(self.cluster or ("--standalone", "--pod-cidr", ",".join(self.ranges))),
            "--host-device", "quiver0" if self.inside else "", "--quiverd", self.daemon.socket,
            "--socket", self.network["agentSocket"], "--state", self.network["stateDirectory"],
            "--health", HEALTH if self.inside else "", "--allowed-source-prefixes", ",".join(SOURCES), *self.options,
        )  # fmt: skip
        words = "all nodes' pods can be reached" if self.inside else "ready for quiver-cni"
        eventually(lambda: words in self.agent.output() or not self.agent.alive(), self.log)
        assert self.agent.alive(), self.log()
        return self

    def uninstall(self, *options, **others):
        """Ends quiver-agent, and has it take away what it made."""
        self.agent.stop()
        self.past += self.agent.output()
        return run(
            *self.inside, tool("quiver-agent"), "--uninstall", "--quiverd", self.daemon.socket,
            "--socket", self.network["agentSocket"], "--state", self.network["stateDirectory"], *options, **others,
        )  # fmt: skip

    def kill_agent(self):
        """Ends quiver-agent without a chance to tidy up."""
        self.agent.signal(signal.SIGKILL)
        self.agent.wait()
        self.past += self.agent.output()

    def log(self):
        """What quiver-agent logged, over all its lives."""
        return self.past + self.agent.output()

    def close(self):
        """Takes everything away."""
        if self.agent:
            self.agent.stop()
        self.daemon.stop()
        for pod in self.pods:
            pod.remove()

    # -- what a runtime does ---------------------------------------------------------------------------------------

    def pod(self, role):
        """A pod's sandbox, without a network yet."""
        pod = Pod(role)
        self.pods.append(pod)
        return pod

    def cni(self, verb, pod, annotations=None, check=True):
        """Has the runtime ask for something; returns what became of it."""
        # cnitool (libcni) names the container by its namespace.
        environment = {
            "CNI_PATH": ":".join(map(str, self.plugins)),
            "NETCONFPATH": str(self.directory / "net.d"),
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={pod.name};K8S_POD_UID=u-{pod.name}",
            "CAP_ARGS": json.dumps({"io.kubernetes.cri.pod-annotations": annotations or {}}),
        }
        words = [f"{key}={value}" for key, value in environment.items()]
        return run("env", *words, tool("cnitool"), verb, "quiver", f"/run/netns/{pod.name}", check=check)

    def add(self, pod, annotations=None):
        """Gives a pod its network and returns the result."""
        return json.loads(self.cni("add", pod, annotations).stdout)

    def plugin(self, command, text, **variables):
        """Calls quiver-cni itself; returns exit status and answer."""
        words = [f"CNI_{key}={value}" for key, value in {"COMMAND": command, "PATH": "/", **variables}.items()]
        configuration = {"cniVersion": "1.1.0", "name": "quiver", **self.network, **text}
        done = run("env", *words, tool("quiver-cni"), stdin=json.dumps(configuration), check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else {}

    def attached(self):
        """Interfaces of pods that quiverd has, the node's own apart."""
        return sorted(set(self.daemon.names("interface")) - {"pod:gateway", "pod:host"})

    def kept(self):
        """Attachments on disk."""
        return sorted(os.listdir(pathlib.Path(self.network["stateDirectory"]) / "attachments"))


def addresses(result, interface=0):
    """Addresses of an interface of a CNI result, without lengths."""
    return [ip["address"].split("/")[0] for ip in result["ips"] if ip["interface"] == interface]


def network(host):
    """Devices, addresses, routes and rules of a namespace, without numbers, lifetimes, and what still settles."""
    text = "".join(host.ip(*words).stdout for words in (("address",), ("-4", "route"), ("-6", "route"), ("rule",), ("-6", "rule")))
    text = re.sub(r"^\d+: |@if\d+|valid_lft.*| tentative", "", text, flags=re.MULTILINE)
    return text + host.run("nft", "--stateless", "list", "ruleset").stdout


def echo(pod, address, port, payload=b"ping"):
    """What a pod is answered by UDP; `None`: nobody is there."""
    with pod.entered():
        asker = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    with asker:
        asker.settimeout(20)
        asker.connect((address, port))
        asker.send(payload)
        try:
            return asker.recv(65536)
        except ConnectionRefusedError:
            return None


@contextlib.contextmanager
def serving(serve):
    """Runs `serve(ends)` beside what is inside; at the end the event `ends` is set, which it has to heed, and it is waited for."""
    ends = threading.Event()
    thread = threading.Thread(target=serve, args=(ends,))
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def ask(host, path):
    """Asks the agent how it is: status and text."""
    with host.entered():
        connection = http.client.HTTPConnection(HEALTH, timeout=60)
        connection.connect()
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
