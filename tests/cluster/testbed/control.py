"""The control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler; and kubectl, which talks to it."""

import json
import signal

from lab.process import Process, eventually, run

from . import certificates

# Ranges of all nodes' pods, from which each node gets a /24 and a /64; and of services.
PODS = "10.244.0.0/16,fd00:10:244::/48"
SERVICES = "10.96.0.0/16,fd00:10:96::/112"
MANAGER, SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"


class ControlPlane:
    """Runs in the network namespace of the first node, whose address it has."""

    def __init__(self, directory, box, namespace, address):
        self.directory, self.address = directory, address
        self.outside = ("nsenter", f"--net=/run/netns/{namespace}")
        self.here = (*self.outside, box)
        self.server = f"https://{address}:6443"
        self.authority = certificates.Authority(directory / "pki")
        self.authority.issue("apiserver", "/CN=kube-apiserver", f"{certificates.ALL_SERVERS},IP:{address},IP:10.96.0.1")
        self.admin = self.kubeconfig("admin", "/O=system:masters/CN=admin")
        self.client = (*self.here, "kubectl", "--kubeconfig", self.admin, "--cache-dir", directory / "kubectl")
        self.components = {}
        self.serving = self.scheduling = ()

    def kubeconfig(self, name, subject):
        """Path of a kubeconfig for a new user."""
        return self.authority.kubeconfig(name, subject, self.server)

    def start(self):
        """Starts all of it and waits until it answers."""
        pki = self.directory / "pki"
        ca, tokens = pki / "ca.crt", pki / "tokens.key"
        etcd = "http://127.0.0.1:2379"
        self._start(
            "etcd", "--data-dir", self.directory / "etcd", "--unsafe-no-fsync", "--log-level", "warn",
            "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:2380",
        )  # fmt: skip
        self.serving = (
            f"--etcd-servers={etcd}", f"--advertise-address={self.address}", "--bind-address=0.0.0.0",
            f"--service-cluster-ip-range={SERVICES}", "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            f"--client-ca-file={ca}", f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
            f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key",
            f"--kubelet-certificate-authority={ca}", "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={tokens}",
            f"--service-account-signing-key-file={tokens}", f"--cert-dir={self.directory}/apiserver",
        )  # fmt: skip
        self.serve()
        self._start(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig('manager', f'/CN={MANAGER}')}", "--leader-elect=false",
            "--allocate-node-cidrs=true", f"--cluster-cidr={PODS}", f"--service-cluster-ip-range={SERVICES}",
            "--node-cidr-mask-size-ipv4=24", "--node-cidr-mask-size-ipv6=64", "--use-service-account-credentials",
            f"--service-account-private-key-file={tokens}", f"--root-ca-file={ca}",
        )  # fmt: skip
        self.scheduling = f"--kubeconfig={self.kubeconfig('scheduler', f'/CN={SCHEDULER}')}", "--leader-elect=false"
        self._start("kube-scheduler", *self.scheduling)
        ready = lambda: self.kubectl("get", "serviceaccount", "default", check=False).returncode == 0
        eventually(ready, lambda: self.log("kube-controller-manager")[-4000:], timeout=180, interval=0.3)

    def _start(self, component, *arguments):
        self.components[component] = Process(*self.here, component, *arguments)

    def serve(self):
        """Starts the API server, the first time or once more, and waits until it answers."""
        self._start("kube-apiserver", *self.serving)
        eventually(self._answers, lambda: f"the API server answers\n{self.log('kube-apiserver')[-4000:]}", timeout=180, interval=0.3)
        if self.scheduling:
            self._start("kube-scheduler", *self.scheduling)

    def kill_server(self):
        """Kills the API server: until `serve`, nobody is told anything."""
        # The scheduler ends by itself when it notices what it has missed, maybe much later, and here is no kubelet that starts it again.
        self.components.pop("kube-scheduler").stop()
        self.components["kube-apiserver"].signal(signal.SIGKILL)
        self.components["kube-apiserver"].wait()

    def _answers(self):
        for name, process in self.components.items():
            assert process.alive(), f"{name} ended:\n{self.log(name)[-4000:]}"
        return self.kubectl("get", "--raw", "/readyz", check=False).stdout == "ok"

    def stop(self):
        """Ends all of it, what was started last first."""
        for process in reversed(self.components.values()):
            process.stop()

    def log(self, component):
        """What a component logged."""
        return self.components[component].output()

    # -- talking to it ---------------------------------------------------------------------------------------------

    def kubectl(self, *arguments, **options):
        """Runs kubectl to its end."""
        return run(*self.client, *arguments, **options)

    def get(self, *what):
        """`kubectl get … -o json`."""
        return json.loads(self.kubectl("get", *what, "-o", "json").stdout)

    def apply(self, *objects):
        """`kubectl apply` of objects."""
        return self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def exec(self, pod, *command, **options):
        """Runs a command in a pod to its end."""
        return self.kubectl("exec", pod, "--", *command, **options)
