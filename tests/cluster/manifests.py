"""Workloads as their owners write them: manifests in a namespace of their own."""

import contextlib
import copy
import pathlib

import yaml
from lab.process import HANGS
from workload import addresses

DIRECTORY = pathlib.Path(__file__).with_name("manifests")


@contextlib.contextmanager
def applied(cluster, name, namespace=None):
    """What a manifest says, once all its pods are ready, in a namespace of that name or another: gives the cluster as those see it who work
    there. Afterwards it is gone."""
    namespace = namespace or name
    control = copy.copy(cluster.control)
    control.client = (*control.client, "--namespace", namespace)
    seen = copy.copy(cluster)
    seen.control = control
    control.kubectl("create", "namespace", namespace)
    try:
        control.kubectl("apply", "-f", DIRECTORY / f"{name}.yaml")
        patience = {"timeout": 2 * HANGS, "check": False}
        made = [one["metadata"]["name"] for one in control.get("deployments")["items"]]
        waits = [("rollout", "status", f"deployment/{one}") for one in made] + [("wait", "--for=condition=Ready", "pod", "--all")]
        for words in waits:
            done = control.kubectl(*words, f"--timeout={HANGS}s", **patience)
            assert done.returncode == 0, done.stderr + control.kubectl("describe", "pods").stdout
        yield seen
    finally:
        control.kubectl("delete", "namespace", namespace, f"--timeout={HANGS}s", timeout=2 * HANGS)


def pod(cluster, name):
    """The addresses of a pod, or of the one pod with that label app."""
    found = cluster.control.get("pods")["items"]
    (one,) = [pod for pod in found if name in (pod["metadata"]["name"], pod["metadata"].get("labels", {}).get("app"))]
    return addresses(one)


def asked(cluster, service):
    """A Service's addresses."""
    return cluster.control.get("service", service)["spec"]["clusterIPs"]


@contextlib.contextmanager
def step(cluster, name, label):
    """Those objects of a manifest that have the label `step`: in force, and then gone."""
    objects = [one for one in yaml.safe_load_all((DIRECTORY / f"{name}.yaml").read_text()) if one["metadata"]["labels"]["step"] == label]
    assert objects, f"{name}.yaml has nothing for step {label}"
    cluster.control.apply(*objects)
    try:
        yield
    finally:
        cluster.control.kubectl("delete", "networkpolicy", "-l", f"step={label}", f"--timeout={HANGS}s", timeout=2 * HANGS)
