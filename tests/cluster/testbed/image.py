"""The images of the test cluster: Quiver's own, as the manifest calls it, and one of test programs and nothing else for pods."""

import os
import pathlib
import shutil
import sys

from lab.process import ROOT, tool

sys.path.append(str(ROOT / "scripts"))
import image

NAME = "quiver.test/tools:1"
LINKS = "sh", "sleep", "ping", "httpd", "nc", "hostname", "mkdir", "ip", "cat", "chmod", "grep", "tail", "timeout", "touch"


def built(name):
    """Path of a program that scripts/cluster.sh builds."""
    path = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "cluster" / name
    assert path.exists(), f"{path} is missing: scripts/cluster.sh builds it"
    return path


def pack(directory):
    """Writes the images as archives that `ctr images import` takes, and returns their paths."""
    tools, quiver = directory / "tools.tar", directory / "quiver.tar"
    programs = {
        "bin/busybox": pathlib.Path(shutil.which("busybox")).read_bytes(),
        "bin/memif-echo": pathlib.Path(tool("memif-echo")).read_bytes(),
    }
    generator = tool("quiver-tgen")
    programs |= {"bin/quiver-tgen": pathlib.Path(generator).read_bytes()}
    programs |= {library.lstrip("/"): pathlib.Path(library).read_bytes() for library in image.libraries(generator)}
    # A sandbox is made of it, too, and has nothing to do.
    settings = {"Entrypoint": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]}
    image.pack(tools, NAME, programs, {f"bin/{name}": "busybox" for name in LINKS}, settings)
    image.quiver(quiver, image.name(), pathlib.Path(tool("quiverd")).parent)
    return tools, quiver
