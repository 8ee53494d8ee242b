"""The one image of the test cluster: static programs and nothing else, packed as `docker save` does."""

import hashlib
import io
import json
import pathlib
import shutil
import tarfile

from lab.process import tool

NAME = "quiver.test/tools:1"
LINKS = "sh", "sleep", "ping", "httpd", "nc", "hostname", "mkdir", "ip"


def pack(path):
    """Writes the image as an archive that `ctr images import` takes."""
    layer = _tar(
        {
            "bin/busybox": pathlib.Path(shutil.which("busybox")).read_bytes(),
            "bin/memif-echo": pathlib.Path(tool("memif-echo")).read_bytes(),
        },
        {f"bin/{name}": "busybox" for name in LINKS},
    )
    digest = hashlib.sha256(layer).hexdigest()
    settings = {
        "architecture": "amd64",
        "os": "linux",
        # A sandbox is made of it, too, and has nothing to do.
        "config": {"Entrypoint": ["/bin/sleep", "infinity"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    settings = json.dumps(settings).encode()
    name = f"{hashlib.sha256(settings).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [NAME], "Layers": [f"{digest}/layer.tar"]}]
    path.write_bytes(_tar({name: settings, f"{digest}/layer.tar": layer, "manifest.json": json.dumps(manifest).encode()}, {}))
    return path


def _tar(files, links):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(content)
            tar.addfile(entry, io.BytesIO(content))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()
