"""The image of programs that aren't Quiver's, for pods as in tests/cluster/manifests: DPDK's testpmd, iperf, socat. They are Debian's,
packed from this machine."""

import pathlib
import shutil

from .image import image

NAME = "quiver.test/peers:1"
PROGRAMS = "dpdk-testpmd", "iperf", "iperf3", "socat"
# What of DPDK finds a memif, and has its buffers: it loads all that are where it looks.
DRIVERS = "librte_bus_vdev.so.23.0", "librte_mempool_ring.so.23.0", "librte_net_memif.so.23.0"
DRIVERS_AT = pathlib.Path("/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0")
APPLETS = "sh", "sleep", "cat", "httpd", "nc", "mkdir", "hostname", "ping", "timeout", "head", "tail", "chmod"


def pack(directory):
    """Writes the image as an archive, and returns its path."""
    files = {"bin/busybox": pathlib.Path(shutil.which("busybox")).read_bytes()}
    programs = {name: shutil.which(name) for name in PROGRAMS}
    missing = [name for name, path in programs.items() if path is None]
    assert not missing and DRIVERS_AT.exists(), f"{', '.join(missing) or DRIVERS_AT} is missing: scripts/setup.sh cluster"
    sources = {f"usr/bin/{name}": path for name, path in programs.items()}
    sources |= {str(DRIVERS_AT / name).lstrip("/"): str(DRIVERS_AT / name) for name in DRIVERS}
    for path, source in sources.items():
        files[path] = pathlib.Path(source).read_bytes()
        files |= {library.lstrip("/"): pathlib.Path(library).read_bytes() for library in image.libraries(source)}
    settings = {"Cmd": ["sleep", "infinity"], "Env": ["PATH=/usr/bin:/bin"]}
    links = {f"bin/{name}": "busybox" for name in APPLETS} | {"var/run": "/run"}
    # Debian has a driver under several names, which are links: as several files it would be loaded twice, and each know half of it.
    first = {}
    for path, content in list(files.items()):
        if first.setdefault(content, path) != path:
            links[path] = f"/{first[content]}"
            del files[path]
    archive = directory / "peers.tar"
    image.pack(archive, NAME, files, links, settings, ("run", "tmp"))
    return (archive,)
