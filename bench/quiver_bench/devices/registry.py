"""Devices by name. ``quiver@REV`` is Quiver as it was at a commit; the builds are kept."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from quiver_bench.devices.application import CApplication, GoApplication, RustApplication
from quiver_bench.devices.base import Device
from quiver_bench.devices.dpdk import L3fwd, Testpmd, TestpmdMac
from quiver_bench.devices.floor import Floor
from quiver_bench.devices.kernel import Kernel
from quiver_bench.devices.pods import KubeProxyPods, QuiverPods
from quiver_bench.devices.quiver import Quiver
from quiver_bench.devices.trusting import TrustingQuiver
from quiver_bench.devices.vpp import Vpp
from quiver_bench.devices.wire import Wire
from quiver_bench.errors import BadInput

_CLASSES: dict[str, type[Device]] = {
    "quiver": Quiver,
    "quiver-trust": TrustingQuiver,
    "testpmd": Testpmd,
    "testpmd-mac": TestpmdMac,
    "l3fwd": L3fwd,
    "kernel": Kernel,
    "vpp": Vpp,
    "floor": Floor,
    "wire": Wire,
    "k8s-quiver": QuiverPods,
    "k8s-kube-proxy": KubeProxyPods,
    "app-rust": RustApplication,
    "app-c": CApplication,
    "app-go": GoApplication,
}
_ALIASES = {"dpdk-testpmd": "testpmd", "dpdk-testpmd-mac": "testpmd-mac", "dpdk-l3fwd": "l3fwd", "linux": "kernel"}

#: Names as they are shown.
NAMES = tuple(_CLASSES)


@dataclass(frozen=True)
class Choice:
    """A device as the command line names it."""

    text: str
    device: type[Device]
    #: Commit to build, for ``quiver@REV``.
    revision: str | None = None


def device(text: str) -> Choice:
    """The device that ``text`` names. Raises :class:`BadInput` with the nearest names."""
    name, at, revision = text.partition("@")
    name = _ALIASES.get(name, name)
    if name not in _CLASSES:
        near = difflib.get_close_matches(name, NAMES, n=2, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        raise BadInput(f"there is no device {text}{hint} There are: {', '.join(NAMES)}, quiver@REV")
    if at and (name != "quiver" or not revision):
        raise BadInput(f"{text}: only quiver@REV names a commit")
    return Choice(text, _CLASSES[name], revision or None)
