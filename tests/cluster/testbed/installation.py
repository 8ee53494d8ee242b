"""Quiver on the cluster, installed as its users do: by the manifests in deploy/kubernetes, or by Helm from the chart in deploy/helm."""

import json
import os
import re

from lab.process import HANGS, ROOT, eventually, run

from . import image

MANIFEST = ROOT / "deploy/kubernetes/quiver.yaml"
UNINSTALL = ROOT / "deploy/kubernetes/uninstall.yaml"
CHART = ROOT / "deploy/helm/quiver"
NAMESPACE = "quiver"
# By what it is installed: "manifest" or "chart".
BY = os.environ.get("QUIVER_INSTALL", "manifest")
# How pods of the other node are reached: as the manifest says, or through tunnels.
OVERLAY = os.environ.get("QUIVER_OVERLAY", "none")
# Who carries packets between nodes: their kernels, or each quiverd by a port of its own on the uplink.
UPLINK = os.environ.get("QUIVER_UPLINK", "kernel")
# Cores of each quiverd's workers, with commas between; empty: as it chooses itself.
WORKERS = ""
METRICS = '    [metrics]\n    listen = "127.0.0.1:9477"\n'


def manifest(uplink=UPLINK):
    """The manifest, with the overlay, the uplink and the workers that are asked for."""
    text = MANIFEST.read_text()
    assert "--overlay=none" in text and METRICS in text
    if WORKERS:
        text = text.replace(METRICS, f"{METRICS}    [workers]\n    cores = [{WORKERS}]\n")
    return re.sub("( *- )--overlay=none", rf"\1--overlay={OVERLAY}\n\1--uplink={uplink}", text)


class Installation:
    """The DaemonSet and all that belongs to it, by the manifests."""

    def __init__(self, control):
        self.control = control

    def kubectl(self, *arguments, **options):
        """Runs kubectl in Quiver's namespace."""
        return self.control.kubectl("-n", NAMESPACE, *arguments, **options)

    def install(self):
        """Installs, and waits until all nodes forward."""
        # There is no kube-proxy: nodes are told where the API server is.
        self.control.kubectl("create", "namespace", NAMESPACE)
        where = f"--from-literal=KUBERNETES_SERVICE_HOST={self.control.address}", "--from-literal=KUBERNETES_SERVICE_PORT=6443"
        self.kubectl("create", "configmap", "quiver-api-server", *where)
        self.control.kubectl("apply", "-f", "-", stdin=manifest())
        self.rolled_out()

    def rolled_out(self):
        """Waits until every node has what the DaemonSet says now, and is ready."""
        done = self.kubectl("rollout", "status", "daemonset/quiver", f"--timeout={HANGS}s", check=False, timeout=2 * HANGS)
        assert done.returncode == 0, done.stdout + done.stderr + self.kubectl("describe", "pods", check=False).stdout

    def update(self):
        """Replaces the pods, one node after the other."""
        self.kubectl("rollout", "restart", "daemonset/quiver")
        self.rolled_out()

    def set(self, **settings):
        """Has agents follow other settings, by the names of values: nothing is replaced."""
        data = json.dumps({"data": {"agent.yaml": json.dumps(settings)}})
        self.kubectl("patch", "configmap", "quiver-agent", "--patch", data)

    def carry(self, uplink):
        """Has nodes' kernels or ports on their uplinks carry packets between nodes."""
        self.control.kubectl("apply", "-f", "-", stdin=manifest(uplink))
        self.rolled_out()

    def uninstall(self):
        """Takes everything away again."""
        self.control.kubectl("apply", "-f", UNINSTALL)
        self.rolled_out()
        self.control.kubectl("delete", "-f", UNINSTALL, "--ignore-not-found", f"--timeout={HANGS}s", timeout=2 * HANGS)

    def pod(self, node):
        """The pod on a node."""
        (pod,) = json.loads(self.kubectl("get", "pods", "-o", "json", f"--field-selector=spec.nodeName={node.name}").stdout)["items"]
        return pod

    def ready(self, node):
        """Whether a node forwards, as the pod there says."""
        return {entry["type"]: entry["status"] for entry in self.pod(node)["status"]["conditions"]}["Ready"] == "True"

    def restarts(self, node):
        """How often each container on a node was started again."""
        return {entry["name"]: entry["restartCount"] for entry in self.pod(node)["status"]["containerStatuses"]}

    def kill(self, node, container):
        """Kills a container's process; returns what waits until kubelet has started it again and the node forwards."""
        before = self.restarts(node)[container]
        node.signal(container, 9)
        return lambda: self._back(node, container, before)

    def _back(self, node, container, before):
        state = lambda: json.dumps(self.pod(node)["status"])
        eventually(lambda: self.restarts(node)[container] > before, state, timeout=HANGS, interval=0.3)
        eventually(lambda: self.ready(node), state, timeout=HANGS, interval=0.3)

    def logs(self):
        """What the containers logged, also those that have ended."""
        names = self.kubectl("get", "pods", "-o", "name", check=False).stdout.split()
        words = "logs", "--all-containers", "--prefix", "--tail=40"
        return {
            f"{name}{' before' if again else ''}": self.kubectl(*words, *again, name, check=False, timeout=60).stdout
            for name in names
            for again in ((), ("--previous",))
        }


class HelmInstallation(Installation):
    """The same by Helm, from the chart."""

    def __init__(self, control):
        super().__init__(control)
        self.command = (*control.outside, str(image.built("helm")), "--kubeconfig", control.admin)
        self.settings = {"apiServer.host": control.address, "agent.overlay": OVERLAY, "agent.uplink": UPLINK}

    def helm(self, verb, **changes):
        """Runs Helm with all settings so far, and those that change."""
        self.settings |= changes
        words = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        run(*self.command, verb, "quiver", CHART, *words)
        self.rolled_out()

    def install(self):
        """Installs, and waits until all nodes forward."""
        self.helm("install")

    def update(self):
        """Replaces the pods by ones with another setting, one node after the other."""
        self.helm("upgrade", **{"cni.timeoutSeconds": 40})

    def set(self, **settings):
        """Has agents follow other settings, by the names of values: nothing is replaced."""
        self.helm("upgrade", **{f"agent.{name}": value for name, value in settings.items()})

    def carry(self, uplink):
        """Has nodes' kernels or ports on their uplinks carry packets between nodes."""
        self.helm("upgrade", **{"agent.uplink": uplink})

    def uninstall(self):
        """Takes everything away again."""
        self.helm("upgrade", uninstall="true")
        run(*self.command, "uninstall", "quiver", "--wait", f"--timeout={HANGS}s", timeout=2 * HANGS)


def installation(control):
    """Quiver as it is asked for."""
    return {"manifest": Installation, "chart": HelmInstallation}[BY](control)
