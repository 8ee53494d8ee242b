#!/usr/bin/env python3
"""Packs container images without a container engine: image.py FILE packs the one of Quiver from target/release, for `ctr images import`,
`skopeo copy oci-archive:FILE`, `podman load`. The same input makes the same bytes."""

import argparse
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = "ghcr.io/quiver-dataplane/quiver"
PROGRAMS = "quiverd", "quiver", "quiver-agent", "quiver-cni"


def main():
    """Packs Quiver's image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path, help="archive to write (an OCI layout as a tar file)")
    parser.add_argument("--name", default=name(), help="name of the image, as manifests call it (default: %(default)s)")
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release")
    arguments = parser.parse_args()
    quiver(arguments.file, arguments.name, arguments.programs)
    print(f"{arguments.name}: {arguments.file}, {arguments.file.stat().st_size >> 20} MiB")


def version():
    """Version of the programs."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def name():
    """What the image is called in deploy/kubernetes."""
    return f"{REPOSITORY}:{version()}"


def commit(programs):
    """The commit that `quiverd --version` of a directory of programs tells, or "unknown"."""
    program = programs / "quiverd"
    if not program.exists():
        sys.exit(f"{program} is missing: make build")
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\(commit ([^)\s]+)\)", told)
    return match[1] if match else "unknown"


def quiver(path, name, programs):
    """Writes the image of Quiver: its programs, and the libraries that they need."""
    files = {}
    for program in PROGRAMS:
        source = programs / program
        if not source.exists():
            sys.exit(f"{source} is missing: make build, scripts/pods.sh build")
        files[f"usr/bin/{program}"] = source.read_bytes()
        files |= {library.lstrip("/"): pathlib.Path(library).read_bytes() for library in libraries(source)}
    files["etc/passwd"] = b"root:x:0:0:root:/:/usr/bin/false\n"
    links = {"var/run": "/run"}
    revision = commit(programs)
    if revision == "unknown":
        # Whoever reports a fault of this image couldn't say what it was made of.
        print(f"{programs}/quiverd tells no commit: build it where git is, or with QUIVER_COMMIT", file=sys.stderr)
    labels = {
        "org.opencontainers.image.version": version(),
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    pack(path, name, files, links, {"Cmd": ["quiverd"], "Env": ["PATH=/usr/bin"], "Labels": labels}, directories=("run", "tmp"))


def libraries(program):
    """Paths of the shared libraries that a program needs, the loader among them."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    if "not found" in told:
        sys.exit(f"{program} needs what isn't here:\n{told}")
    return re.findall(r"(/\S+) \(0x", told)


def pack(path, name, files, links, settings, directories=(), aliases=()):
    """Writes an image of one layer as an OCI layout, under a name and others: files by path, links by path, the runtime's settings."""
    layer = tree(files, links, directories)
    blobs = {}

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    described = blob(layer, "layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [described["digest"]]},
    }
    config = blob(text(config), "config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [described]}
    manifest = blob(text(manifest), "manifest.v1+json")
    # By the first containerd knows what to call it; the other is of the OCI, for the part after the colon.
    called = lambda name: {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    manifests = [{**manifest, "annotations": called(name)} for name in (name, *aliases)]
    top = {"oci-layout": text({"imageLayoutVersion": "1.0.0"}), "index.json": text({"schemaVersion": 2, "manifests": manifests})}
    path.write_bytes(tree({**top, **blobs}, {}, ()))


def text(value):
    """JSON, the same bytes every time."""
    return json.dumps(value, sort_keys=True).encode()


def tree(files, links, directories):
    """A tar archive of files, links and the directories that they need. Nothing in it tells when it was made."""
    out = io.BytesIO()
    parents = {str(parent) for path in (*files, *links) for parent in pathlib.PurePosixPath(path).parents}
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(({*directories} | parents) - {"."}):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            tar.addfile(entry)
        for path, content in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.mode, entry.size = 0o644 if path.startswith("etc/") else 0o755, len(content)
            tar.addfile(entry, io.BytesIO(content))
        for path, target in sorted(links.items()):
            entry = tarfile.TarInfo(path)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


if __name__ == "__main__":
    main()
