"""What sends and receives.

* :mod:`~quiver_bench.generators.base`: a trial's input and output.
* :mod:`~quiver_bench.generators.tgen`: quiver-tgen's packets; its flags and its JSON are known here and next door only.
* :mod:`~quiver_bench.generators.one_end`: quiver-tgen as the other side of an application.
* :mod:`~quiver_bench.generators.conversations`: its connections, with and without state.
* :mod:`~quiver_bench.generators.flood`: SYNs beside established connections.
* :mod:`~quiver_bench.generators.hostile`: a canary beside an attack.
* :mod:`~quiver_bench.generators.internal`: packets that the device itself makes.
* :mod:`~quiver_bench.generators.pods`: quiver-tgen's packets between pods' memifs.
* :mod:`~quiver_bench.generators.iperf3`: connections of the kernel, for super-frames.
"""

from quiver_bench.generators.base import Endpoint, Generator, Latency, Load, TrialOutput
from quiver_bench.generators.conversations import Conversing
from quiver_bench.generators.flood import Flooding
from quiver_bench.generators.hostile import Hostile
from quiver_bench.generators.internal import Internal
from quiver_bench.generators.iperf3 import Iperf3
from quiver_bench.generators.one_end import OneEnd
from quiver_bench.generators.pods import BetweenPods
from quiver_bench.generators.tgen import Tgen

__all__ = [
    "BetweenPods",
    "Conversing",
    "Endpoint",
    "Flooding",
    "Generator",
    "Hostile",
    "Internal",
    "Iperf3",
    "Latency",
    "Load",
    "OneEnd",
    "Tgen",
    "TrialOutput",
]
