"""Devices under test, each behind one adapter.

* :mod:`~quiver_bench.devices.base`: what an adapter does.
* :mod:`~quiver_bench.devices.quiver`, :mod:`~quiver_bench.devices.revision`: Quiver, as built here or at a commit.
* :mod:`~quiver_bench.devices.containers`: what packets pass through besides.
* :mod:`~quiver_bench.devices.dpdk`: testpmd and l3fwd.
* :mod:`~quiver_bench.devices.kernel`: Linux' own bridge and forwarding.
* :mod:`~quiver_bench.devices.hostile`: pods that take part in an attack.
* :mod:`~quiver_bench.devices.vpp`: FD.io VPP.
* :mod:`~quiver_bench.devices.floor`: the bare copy.
* :mod:`~quiver_bench.devices.application`: programs written with a memif library.
* :mod:`~quiver_bench.devices.pods`, :mod:`~quiver_bench.devices.cluster`: networks of pods, on a Kubernetes cluster.
* :mod:`~quiver_bench.devices.registry`: names.
"""

from quiver_bench.devices.base import Device, Setup
from quiver_bench.devices.registry import NAMES, device

__all__ = ["NAMES", "Device", "Setup", "device"]
