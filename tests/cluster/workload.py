"""Pods of the tests."""

import contextlib
import ipaddress
import json
import re
import time

from lab.process import HANGS, Patience, Process, eventually, tool
from testbed import image

PORT = 8080
# Its name at /, who asks at /cgi-bin/who, and at the next port everything comes back.
SERVE = (
    "mkdir -p /www/cgi-bin && hostname > /www/index.html && printf '#!/bin/sh\\necho\\necho $REMOTE_ADDR\\n' > /www/cgi-bin/who && "
    f"chmod +x /www/cgi-bin/who && (nc -ll -p {PORT + 1} -e cat &) && exec httpd -f -p {PORT} -h /www"
)
PORTS = "cni.projectcalico.org/vppExtraMemifPorts"
SPEC = "cni.projectcalico.org/vppExtraMemifSpec"
# Which packets of the generators go to a memif.
MEMIF_PORT = 4444


def server(name, node, **labels):
    """A pod on a node that serves its name by HTTP, and is ready when kubelet has got it from there."""
    probe = {"httpGet": {"port": PORT, "path": "/"}, "periodSeconds": 1, "timeoutSeconds": 10}
    pod = bare(name, node, {"command": ["sh", "-c", SERVE], "readinessProbe": probe})
    pod["metadata"]["labels"] = labels
    return pod


def memif(name, node, **labels):
    """A pod on a node with a memif beside eth0, whose application sends back what it gets."""
    pod = bare(name, node, {"command": ["memif-echo", "-client", "@vpp/memif-eth0"]})
    pod["metadata"].update(labels=labels, annotations={PORTS: f"udp:{MEMIF_PORT}"})
    return pod


def generator(name, node, **labels):
    """A pod on a node with a memif of IP packets beside eth0, in which `exchange` and `through` have their traffic generators."""
    pod = bare(name, node, {"command": ["sleep", "infinity"]})
    annotations = {PORTS: f"udp:{MEMIF_PORT}", SPEC: json.dumps({"isl3": True})}
    pod["metadata"].update(labels=labels, annotations=annotations)
    return pod


def exchange(cluster, one, other, rate=1000, seconds=5):
    """Has the generators of two pods, each (name, address), send to each other by memif; returns what each says at the end.
    What came from the other is `foreign` to each."""
    processes = []
    for (pod, source), (_, destination) in ((one, other), (other, one)):
        words = (
            "quiver-tgen", "--tx", "@vpp/memif-eth0", "--mode", "ip", "--source", source, "--destination", destination, "--size", 512,
            "--source-port", MEMIF_PORT, "--destination-port", MEMIF_PORT, "--rate", rate, "--seconds", seconds,
            "--drain", 2, "--check", "sequence", "--output", "json",
        )  # fmt: skip
        processes.append(Process(*cluster.control.client, "exec", pod, "--", *words))
    try:
        return [json.loads(process.finish()) for process in processes]
    finally:
        for process in processes:
            process.stop()


def bare(name, node, container):
    container = {"name": "it", "image": image.NAME, "imagePullPolicy": "Never", **container}
    spec = {"nodeName": node.name, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@contextlib.contextmanager
def pods(cluster, *wanted):
    """Pods that are ready, by name: their addresses. Afterwards they are gone."""
    names = [pod["metadata"]["name"] for pod in wanted]
    control = cluster.control
    control.apply(*wanted)
    try:
        ready = control.kubectl(
            "wait", "--for=condition=Ready", f"--timeout={HANGS}s", *(f"pod/{name}" for name in names), check=False, timeout=2 * HANGS
        )
        assert ready.returncode == 0, ready.stderr + control.kubectl("describe", "pods").stdout
        yield {name: addresses(control.get("pod", name)) for name in names}
    finally:
        control.kubectl("delete", "pod", *names, "--ignore-not-found", f"--timeout={HANGS}s", timeout=2 * HANGS)


@contextlib.contextmanager
def replicas(cluster, app, count):
    """A Deployment of servers with that label, one a node, which at their second port say who they are, and then send everything back.
    Gives what tells those that are ready: by name, the pods. One that shall end serves for some seconds more."""
    greets = SERVE.replace("-e cat", "-e sh -c 'echo on $(hostname); exec cat'")
    pod = server(app, cluster.nodes[0], app=app)
    container = {**pod["spec"]["containers"][0], "command": ["sh", "-c", greets]}
    apart = [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}]
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 5,
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
    }
    template = {"metadata": {"labels": {"app": app}}, "spec": spec}
    made = {"replicas": count, "selector": {"matchLabels": {"app": app}}, "template": template}
    control = cluster.control
    control.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": made})

    def ready():
        found = control.get("pods", "-l", f"app={app}")["items"]
        is_ready = lambda pod: any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))
        return {pod["metadata"]["name"]: pod for pod in found if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]}

    try:
        control.kubectl("rollout", "status", f"deployment/{app}", f"--timeout={HANGS}s", timeout=2 * HANGS)
        yield ready
    finally:
        control.kubectl("delete", "deployment", app, "--cascade=foreground", f"--timeout={HANGS}s", timeout=2 * HANGS)


def addresses(pod):
    """Addresses of a pod, by its status."""
    return [entry["ip"] for entry in pod["status"]["podIPs"]]


def within(texts, ranges):
    """Whether each address is of one of the ranges, and each range has one."""
    return len(texts) == len(ranges) and all(
        ipaddress.ip_address(text) in ipaddress.ip_network(prefix) for text, prefix in zip(texts, ranges, strict=True)
    )


def must_ping(cluster, pod, address, count=3):
    """Pings from a pod. An answer may take its time, as the machine may have others to serve."""
    done = cluster.control.exec(pod, "ping", "-c", count, "-W", "30", address)
    assert f"{count} packets received" in done.stdout, done.stdout


def pings_again(cluster, pod, address):
    """Waits until an address answers a pod."""
    answered = lambda: cluster.control.exec(pod, "ping", "-c", 1, "-W", "2", address, check=False).returncode == 0
    eventually(answered, lambda: f"{address} answers {pod}", timeout=60)


def must_echo(node, address, port):
    """Sends a datagram from a node, which must come back. One may be lost while the application connects."""
    # (Not by bash's `read`: byte by byte it would lose all of a datagram but the first.)
    ask = f"exec 3<>/dev/udp/{address}/{port} && echo hello >&3 && timeout 2 head -n 1 <&3"
    answered = lambda: "hello" in node.run("bash", "-c", ask, check=False).stdout
    eventually(answered, lambda: f"{address} answers {node.name} at UDP port {port}", timeout=60)


def must_fetch(cluster, pod, address, name):
    """Fetches a server's name from a pod, by TCP."""
    assert fetch(cluster, pod, address) == name


def fetch(cluster, pod, address, port=PORT, path="/"):
    """What a server answers a pod, or a node, by TCP."""
    # (wget of a static busybox looks for libraries, which the image hasn't.)
    request = f"printf 'GET {path} HTTP/1.0\\r\\n\\r\\n'"
    if isinstance(pod, str):
        answer = cluster.control.exec(pod, "sh", "-c", f"{request} | nc -w 30 {address} {port}").stdout
    else:
        answer = pod.run("timeout", "30", "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port} && {request} >&3 && cat <&3").stdout
    assert "200 OK" in answer, answer
    return answer.split()[-1]


def asker(cluster, pod, address, port):
    """Whom a server sees when it is asked."""
    return fetch(cluster, pod, address, port, "/cgi-bin/who").strip("[]").removeprefix("::ffff:")


def reaches(cluster, pod, address, port, names):
    """Asks again and again, until exactly these have answered, each at least once; and then some."""
    seen = [fetch(cluster, pod, address, port)]
    while {*seen} < {*names} and len(seen) < 60:
        seen.append(fetch(cluster, pod, address, port))
    seen += [fetch(cluster, pod, address, port) for _ in range(3)]
    assert {*seen} == {*names}, (pod, address, port, seen)


def host_port(pod, port, host_ip=""):
    """The same pod, whose server is asked at a port of its node, too."""
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": PORT, "hostPort": port, **({"hostIP": host_ip} if host_ip else {})}]
    return pod


def tried(cluster, pod, address, port, patience=5):
    """How it looks to a pod, or a node, to ask a server at a port: "answered", "refused" or "silent"."""
    if isinstance(pod, str):
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | timeout {patience} nc -w {patience} {address} {port}"
        done = cluster.control.exec(pod, "sh", "-c", ask, check=False)
        answered = "200 OK" in done.stdout
    else:
        done = pod.run("timeout", patience, "bash", "-c", f"exec 3<>/dev/tcp/{address}/{port}", check=False)
        answered = done.returncode == 0
    return "answered" if answered else "refused" if "refused" in done.stderr else "silent"


def becomes(cluster, client, address, port, how):
    """Waits until a client's tries end so."""
    seen = lambda: tried(cluster, client, address, port)
    eventually(lambda: seen() == how, lambda: f"{client} asks {address} port {port}: {seen()}", timeout=60)


@contextlib.contextmanager
def services(cluster, *wanted):
    """Services, by name: their objects as the API server has completed them. Afterwards they are gone."""
    names = [service["metadata"]["name"] for service in wanted]
    cluster.control.apply(*wanted)
    try:
        yield {name: cluster.control.get("service", name) for name in names}
    finally:
        cluster.control.kubectl("delete", "service", *names, "--ignore-not-found", f"--timeout={HANGS}s", timeout=2 * HANGS)


def service(name, app, *ports, **spec):
    """A Service of both families for pods with the label app: of ports (port, target port), by TCP unless a third word says otherwise."""
    entries = [
        {"name": f"p{number}", "port": number, "targetPort": target, "protocol": protocol[0] if protocol else "TCP"}
        for number, target, *protocol in ports
    ]
    spec = {"selector": {"app": app}, "ipFamilyPolicy": "RequireDualStack", "ports": entries, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def policy(name, selects, **spec):
    """A policy for pods of that label."""
    spec = {"podSelector": {"matchLabels": {"app": selects}}, **spec}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


def by_label(**labels):
    """A peer: pods of the same namespace with these labels."""
    return {"podSelector": {"matchLabels": labels}}


@contextlib.contextmanager
def policies(cluster, *wanted):
    """Policies, which are gone afterwards."""
    cluster.control.apply(*wanted)
    try:
        yield
    finally:
        names = [one["metadata"]["name"] for one in wanted]
        cluster.control.kubectl("delete", "networkpolicy", *names, "--ignore-not-found", f"--timeout={HANGS}s", timeout=2 * HANGS)


def backends(node, address, port, clients=None):
    """Who takes sessions at a place, by quiverd on a node: addresses. With clients, those alone that are for these."""
    vips = node.quiver("show", "vip").get("vips", [])
    its = [vip for vip in vips if (vip["address"], vip["port"]) == (address, port)]
    takes = lambda one: one["state"] == "active" and not one.get("leaving") and clients in (None, one["clients"])
    return sorted(one["address"] for vip in its for one in vip.get("backends", []) if takes(one))


def known(cluster, asked, port, pods):
    """Waits until all nodes have these backends for a Service's addresses."""
    for node in cluster.nodes:
        for family, address in enumerate(asked):
            want = sorted(pod[family] for pod in pods)
            there = lambda node=node, address=address: backends(node, address, port)
            eventually(lambda there=there, want=want: there() == want, there, timeout=60)


def through(cluster, pod, source, destination, port, rate=1000, seconds=3):
    """Has a generator in a pod send to somebody who sends everything back; returns what it says at the end."""
    words = (
        "quiver-tgen", "--tx", "@vpp/memif-eth0", "--mode", "ip", "--source", source, "--destination", destination, "--size", 512,
        "--source-port", 33333, "--destination-port", port, "--rate", rate, "--seconds", seconds, "--drain", 2,
        "--check", "sequence", "--output", "json",
    )  # fmt: skip
    return json.loads(cluster.control.exec(pod, *words).stdout)


def events(cluster, pod, reason=None):
    """What was told of a pod to its owner."""
    words = ["--field-selector", f"involvedObject.name={pod}" + (f",reason={reason}" if reason else "")]
    return [event["message"] for event in cluster.control.get("events", *words)["items"]]


@contextlib.contextmanager
def pinging(cluster, pod, address):
    """Pings from a pod, ten a second, which have begun and go on until the end."""
    with PingsOfPod(cluster.control, pod, address) as pings:
        pings.goes_on()
        yield pings


class Pings(Process):
    """Pings, ten a second, with what became of them, of a program that counts them from `first` on."""

    def __init__(self, *words, first):
        super().__init__(*words)
        self.first = first

    def answered(self):
        """Numbers of the pings that were answered."""
        return [int(number) for number in re.findall(r"seq=(\d+) ttl", self.output())]

    def goes_on(self):
        """Waits until more are answered than now."""
        seen = len(self.answered())
        eventually(lambda: len(self.answered()) > seen + 10 or not self.alive(), self.output, timeout=HANGS)
        assert self.alive(), self.output()

    def sent(self):
        """How many there were, up to the last that was answered."""
        return self.answered()[-1] + 1 - self.first

    def lost(self):
        """How many of those weren't answered."""
        return self.sent() - len({*self.answered()})


class PingsOfPod(Pings):
    """The same, from a pod: its program counts from 0."""

    def __init__(self, control, pod, address):
        super().__init__(*control.client, "exec", pod, "--", "ping", "-i", "0.1", address, first=0)
        self.what = f"{pod} → {address}"

    def summary(self):
        """What became of them, in words."""
        return f"{self.what}: {self.lost()} of {self.sent()} pings lost, ten a second"


@contextlib.contextmanager
def node_object(cluster, name, addresses):
    """A node of which there is no more than what the API server knows: its ranges."""
    control = cluster.control
    # Nothing runs there.
    taint = {"key": "quiver.test/none", "effect": "NoExecute"}
    control.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}})
    try:
        status = {"status": {"addresses": [{"type": "InternalIP", "address": address} for address in addresses]}}
        control.kubectl("patch", "node", name, "--subresource=status", "--patch", json.dumps(status))
        ranges = lambda: control.get("node", name)["spec"].get("podCIDRs", [])
        yield eventually(lambda: len(ranges()) == 2 and ranges(), f"{name} has ranges", timeout=60)
    finally:
        control.kubectl("delete", "node", name)


def begins(cluster):
    """Waits for what earlier tests have left to go. A node that one of them has broken is named, since nothing else would be true there."""
    for node in cluster.nodes:
        for name in ("containerd", "kubelet"):
            assert node.services[name].alive(), f"{node.name} is broken since an earlier test: {name} has ended\n{node.log(name)[-2000:]}"
        moves = lambda node=node: node.run(tool("quiver"), "show", "version", check=False).returncode == 0
        eventually(moves, lambda node=node: f"{node.name} is broken since an earlier test: quiverd doesn't answer", timeout=60)
    pods = lambda: [(node.name, node.interfaces(), node.kept()) for node in cluster.nodes]
    # What stays for good is told by the test that has left it; others go on beside it.
    patience = Patience(60)
    while any(its or kept for _, its, kept in pods()) and patience.left() > 0:
        time.sleep(0.3)


def nothing_left(cluster, before):
    """What nodes have of pods becomes what it was. (After an outage of the API server a kubelet asks it again in its own time.)"""
    eventually(lambda: left(cluster) == before, lambda: json.dumps([before, left(cluster)]), timeout=HANGS)


def left(cluster):
    """What nodes have of pods and Services: interfaces, VIPs and routes in quiverd, attachments, devices, namespaces."""
    return [
        {
            "interfaces": node.interfaces(),
            "vips": sorted(entry["object"]["vip"]["name"] for entry in node.quiver("get", "vip", "--status").get("objects", [])),
            "routes": sorted(entry["object"]["route"]["prefix"] for entry in node.quiver("get", "route", "--status").get("objects", [])),
            "attachments": node.kept(),
            "devices": sorted(link["ifname"] for link in json.loads(node.run("ip", "-j", "link").stdout)),
            "namespaces": sorted(node.run("ls", "/run/netns").stdout.split()),
        }
        for node in cluster.nodes
    ]


def talk(cluster, pod, address, port, end="/nothing"):
    """A connection from a pod to whoever sends everything back: ten lines a second, which must all come back, until there is a file."""
    lines = f"(n=0; while [ ! -e {end} ]; do n=$((n+1)); echo line $n; sleep 0.1; done) | nc {address} {port}"
    return Process(*cluster.control.client, "exec", pod, "--", "sh", "-c", lines)


def segments(cluster, pod):
    """What a pod's kernel has counted of TCP."""
    text = cluster.control.exec(pod, "cat", "/proc/net/snmp", "/proc/net/netstat").stdout.splitlines()
    counts = {}
    for names, numbers in zip(text[::2], text[1::2], strict=True):
        kind, *names = names.split()
        counts |= {kind + name: int(number) for name, number in zip(names, numbers.split()[1:], strict=True)}
    return counts


def lost(counts):
    """How many segments were lost. One that was sent again was so only if the other end hasn't said that it had it, and if TCP has found
    out that it was: by a timeout, by what came behind it, or by a probe that has mended something. When answers are late it probes though
    nothing was lost, and on a connection that closes nobody says any more that he had something twice. So a FIN that was lost isn't
    among them: `Fins` counts these."""
    again = counts["Tcp:RetransSegs"] - counts["TcpExt:TCPDSACKRecv"]
    ways = "TCPTimeouts", "TCPFastRetrans", "TCPSlowStartRetrans", "TCPLossProbeRecovery"
    return min(again, sum(counts[f"TcpExt:{way}"] for way in ways))


def goes_on(lines):
    """Waits until on each connection more has come back, and that nothing is missing."""
    for line in lines:
        seen = len(line.output().splitlines())
        more = lambda line=line, seen=seen: len(line.output().splitlines()) > seen + 5 or not line.alive()
        eventually(more, line.output, timeout=HANGS)
        assert line.alive(), line.output()
        # (Who is behind a Deployment says first who it is.)
        numbers = [int(text.split()[1]) for text in line.output().splitlines()[:-1] if not text.startswith("on ")]
        assert numbers == [*range(1, len(numbers) + 1)]
