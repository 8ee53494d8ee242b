"""Kubernetes' own end-to-end suite, and the images that its pods ask for."""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import xml.etree.ElementTree as xml

from lab.process import run

from . import dns
from .image import built, image

TEST = "registry.k8s.io/e2e-test-images"
# One image for all: its program can be each of them, and nobody asks a pod of the last three anything.
AGNHOST = f"{TEST}/agnhost:2.59"
ALIASES = (
    *(f"{TEST}/{name}" for name in ("agnhost:2.55", "jessie-dnsutils:1.7", "busybox:1.37.0-1", "nginx:1.14-4")),
    "registry.k8s.io/pause:3.10.1",
)
# What specs run in it besides, where Kubernetes' own image has it. (wget of a static busybox crashes beside the libraries of these.)
TOOLS = "bash", "curl", "dash", "dig", "getent", "nc", "ss", "wget"


def pack(directory):
    """Writes the images as archives, and returns their paths."""
    files = {name: built(name).read_bytes() for name in ("agnhost", "coredns", "localhost.crt", "localhost.key")}
    files |= {"bin/busybox": pathlib.Path(shutil.which("busybox")).read_bytes()}
    for name in TOOLS:
        # Of the programs called nc on a machine the specs mean OpenBSD's.
        source = shutil.which("nc.openbsd" if name == "nc" else name)
        assert source, f"{name} is missing: scripts/setup.sh cluster"
        files[f"usr/bin/{name}"] = pathlib.Path(source).read_bytes()
        files |= {library.lstrip("/"): pathlib.Path(library).read_bytes() for library in image.libraries(source)}
    # As it is where names are looked up in /etc/hosts first.
    files |= {"etc/passwd": b"root:x:0:0:root:/:/bin/sh\n", "etc/nsswitch.conf": b"hosts: files dns\n"}
    applets = run("busybox", "--list").stdout.split()
    links = {f"bin/{name}": "busybox" for name in applets if f"usr/bin/{name}" not in files and name != "busybox"}
    # (Busybox as a shell takes its own programs before others: it isn't asked.)
    links |= {"bin/sh": "../usr/bin/dash", "agnhost-2": "agnhost"}
    settings = {"Entrypoint": ["/agnhost"], "Cmd": ["pause"], "Env": ["PATH=/usr/bin:/bin"]}
    archive = directory / "agnhost.tar"
    image.pack(archive, AGNHOST, files, links, settings, ("tmp", "uploads", "results"), ALIASES)
    return archive, *dns.pack(directory)


def pack_administrators(directory):
    """The same for the suite of administrators' policies, which asks for an older image of the one program."""
    shell = shutil.which("bash")
    files = {"agnhost": built("agnhost").read_bytes(), "bin/bash": pathlib.Path(shell).read_bytes()}
    files |= {library.lstrip("/"): pathlib.Path(library).read_bytes() for library in image.libraries(shell)}
    links = {"bin/sh": "bash"}
    if not sctp():
        # A server that can't listen ends, and the suite waits for all: without SCTP they are there and say nothing.
        files["agnhost-real"] = files["agnhost"]
        files["agnhost"] = b'#!/bin/bash\n[ "$1" != porter ] || set -- pause\nexec /agnhost-real "$@"\n'
    settings = {"Entrypoint": ["/agnhost"], "Cmd": ["pause"], "Env": ["PATH=/bin"]}
    archive = directory / "agnhost-2.45.tar"
    image.pack(archive, f"{TEST}/agnhost:2.45", files, links, settings, ("tmp",))
    return (archive,)


def sctp():
    """Whether the kernel has SCTP."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
    except OSError:
        return False
    return True


# Of that suite, whole tests, and parts of others, which use SCTP, too.
NEED_SCTP = "TestConformance/SCTP|TestConformance/./(deny-egress.*node-peer|egress-cidr-peer|across_different_protocols)"


def judge_administrators(cluster, focus):
    """Runs the suite of the API of administrators' policies; returns whether it passed. What it says goes to our own output."""
    cluster.control.kubectl("apply", "-f", built("clusternetworkpolicies.yaml"))
    words = (
        *cluster.control.outside, built("conformance.test"), "-test.v", "-test.timeout=2h", f"-test.run=TestConformance/{focus}",
        *(() if sctp() else (f"-test.skip={NEED_SCTP}",)), f"-kubeconfig={cluster.control.admin}",
    )  # fmt: skip
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, check=False).returncode == 0


@dataclasses.dataclass
class Spec:
    """A spec that was run."""

    name: str
    seconds: float
    failure: str


def judge(cluster, reports, focus, skip, side_by_side):
    """Runs the specs whose names match `focus` and not `skip`; returns them. What they say goes to our own output."""
    kubectl = cluster.directory / "kubectl-e2e"
    kubectl.write_text(f'#!/bin/sh\nexec {cluster.box} kubectl "$@"\n')
    kubectl.chmod(0o755)
    words = (
        *cluster.control.outside, built("ginkgo"), f"--procs={side_by_side}", "--timeout=3h", "--no-color", f"--focus={focus}",
        *((f"--skip={skip}",) if skip else ()), built("e2e.test"), "--", f"--kubeconfig={cluster.control.admin}",
        f"--kubectl-path={kubectl}", "--provider=skeleton", f"--dns-domain={dns.DOMAIN}", f"--report-dir={reports}",
    )  # fmt: skip
    # A session of its own: whoever is interrupted here ends those that run side by side, too.
    process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return sorted(_read(reports), key=lambda spec: spec.name)


def _read(reports):
    """Specs of the reports that the suite has written: those that were run."""
    for path in pathlib.Path(reports).glob("junit*.xml"):
        for case in xml.parse(path).iter("testcase"):
            name = case.get("name")
            if case.find("skipped") is None and name.startswith("[It] "):
                trouble = [node for kind in ("failure", "error") for node in case.iter(kind)]
                failure = "; ".join((node.get("message") or node.get("type") or "") for node in trouble)
                yield Spec(name.removeprefix("[It] "), float(case.get("time")), failure if trouble else "")
