"""The image of Quiver as scripts/image.py packs it; no cluster is needed."""

import json
import pathlib
import tarfile

from lab.process import run, tool
from testbed.image import image


def settings(archive):
    """The runtime's settings in an image, and the files of its one layer by path."""
    with tarfile.open(archive) as layout:
        blob = lambda described: layout.extractfile(f"blobs/sha256/{described['digest'].partition(':')[2]}")
        (manifest,) = json.load(layout.extractfile("index.json"))["manifests"]
        manifest = json.load(blob(manifest))
        (layer,) = manifest["layers"]
        with tarfile.open(fileobj=blob(layer)) as files:
            names = files.getnames()
        return json.load(blob(manifest["config"]))["config"], names


def test_an_image_tells_the_commit_of_its_programs(tmp_path):
    programs = pathlib.Path(tool("quiverd")).parent
    image.quiver(tmp_path / "quiver.tar", image.name(), programs)
    found, names = settings(tmp_path / "quiver.tar")
    told = run(programs / "quiverd", "--version").stdout
    revision = found["Labels"]["org.opencontainers.image.revision"]
    assert revision != "unknown" and f"(commit {revision})" in told
    assert {f"usr/bin/{name}" for name in image.PROGRAMS} <= {*names}


def test_programs_without_a_commit_are_said_to_be_so(tmp_path, capsys):
    """Built from an archive of the sources, where nobody has said which."""
    for name in image.PROGRAMS:
        (tmp_path / name).write_text("#!/bin/sh\necho 'quiverd 0.1.0 (commit unknown), release build'\n")
        (tmp_path / name).chmod(0o755)
    image.quiver(tmp_path / "quiver.tar", image.name(), tmp_path)
    found, _ = settings(tmp_path / "quiver.tar")
    assert found["Labels"]["org.opencontainers.image.revision"] == "unknown"
    assert "with QUIVER_COMMIT" in capsys.readouterr().err
