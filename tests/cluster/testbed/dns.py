"""Names of the cluster: CoreDNS as a Deployment, which pods ask at its Service."""

import contextlib

from lab.process import HANGS

from .image import built, image

IMAGE = "registry.k8s.io/coredns/coredns:v1.13.1"
ADDRESS, DOMAIN = "10.96.0.10", "cluster.local"
LABELS = {"k8s-app": "kube-dns"}
# Nobody is asked about names of others: there are none.
COREFILE = f"""
{DOMAIN}:53 in-addr.arpa:53 ip6.arpa:53 {{
    errors
    health
    ready
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
    }}
    cache 30
}}
.:53 {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def pack(directory):
    """Writes the image as an archive, and returns its path."""
    archive = directory / "coredns.tar"
    image.pack(archive, IMAGE, {"coredns": built("coredns").read_bytes()}, {}, {"Entrypoint": ["/coredns"]})
    return (archive,)


def install(control):
    """Starts it, and waits until it answers."""
    control.apply(*_objects())
    control.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", f"--timeout={HANGS}s", timeout=2 * HANGS)


@contextlib.contextmanager
def installed(control):
    """The same, until the end; gives the addresses at which it is asked."""
    try:
        install(control)
        yield control.kubectl("-n", "kube-system", "get", "service", "kube-dns", "-o", "jsonpath={.spec.clusterIPs[*]}").stdout.split()
    finally:
        for made in reversed([*_objects()]):
            named = "-n", "kube-system", "delete", made["kind"].lower(), made["metadata"]["name"]
            control.kubectl(*named, "--cascade=foreground", "--ignore-not-found", f"--timeout={HANGS}s", timeout=2 * HANGS)


def _objects():
    named = {"name": "coredns", "namespace": "kube-system"}
    rules = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    container = {
        "name": "coredns",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "volumeMounts": [{"name": "corefile", "mountPath": "/etc/coredns"}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 2, "timeoutSeconds": 10},
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "corefile", "configMap": {"name": "coredns"}}],
    }
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    ports = [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "coredns"}
    bind = {"roleRef": role, "subjects": [{"kind": "ServiceAccount", **named}]}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named}
    yield {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "coredns"}, "rules": rules}
    yield {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "coredns"}, **bind}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"Corefile": COREFILE}}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": named,
        "spec": {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": ADDRESS, "ipFamilyPolicy": "PreferDualStack", "selector": LABELS, "ports": ports},
    }
