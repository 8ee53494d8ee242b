"""One test's world: its pods and its daemon, and the snippets of configuration they are joined with."""

import json
import os

from .pod import Pod
from .process import Process, eventually, tool


class Laboratory:
    """Pods of one test around the daemon of its module."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.directory = daemon.directory
        self.pods = []

    def pod(self, role):
        """A new pod."""
        pod = Pod(role)
        self.pods.append(pod)
        return pod

    def close(self):
        """Takes all pods away."""
        for pod in self.pods:
            pod.remove()

    # -- configuration ---------------------------------------------------------------------------------------------

    @staticmethod
    def tap(name, pod, network, *more, device="eth0", tap=""):
        """A routed tap: Quiver is .1 of the /24 `network`, the pod .2 with Quiver as its gateway."""
        return _interface(
            name,
            f'addresses = ["{network}.1/24"]',
            *more,
            f'tap = {{ netns = "{pod.name}", host_name = "{device}", host_addresses = ["{network}.2/24"], '
            f'host_gateways = ["{network}.1"]{tap} }}',
        )

    @staticmethod
    def plain_tap(name, pod, *more, address=None, device="eth0"):
        """A tap without addresses on Quiver's side, for bridges and cross-connects."""
        host = f', host_addresses = ["{address}"]' if address else ""
        return _interface(name, *more, f'tap = {{ netns = "{pod.name}", host_name = "{device}"{host} }}')

    def memif(self, name, number, *more, memif="", mode="ethernet"):
        """A routed memif server: 10.<number>.0.1/24, with a static neighbour .2 where there is Ethernet."""
        text = _interface(
            name,
            f'addresses = ["10.{number}.0.1/24"]',
            *([f'mac = "{quiver_mac(number)}"'] if mode == "ethernet" else []),
            *more,
            f'memif = {{ socket = "{self.directory}/{name}", role = "server", mode = "{mode}"{memif} }}',
        )
        if mode == "ethernet":
            text += f'[[neighbor]]\ninterface = "{name}"\naddress = "10.{number}.0.2"\nmac = "{peer_mac(number)}"\n'
        return text

    # -- traffic ---------------------------------------------------------------------------------------------------

    def generator(self, tx, rx, tx_number, rx_number, *options, to=None):
        """quiver-tgen from one memif to another, or `to` an address behind it. Packets that are counted may take what time they need."""
        patience = ("--seconds", 120, "--drain", 20) if "--count" in options and "--drain" not in options else ()
        return Process(
            tool("quiver-tgen"), "--output", "json", "--core", min(os.sched_getaffinity(0)), *patience,
            "--tx", f"{self.directory}/{tx}", "--rx", f"{self.directory}/{rx}",
            "--source", f"10.{tx_number}.0.2", "--destination", to or f"10.{rx_number}.0.2",
            "--source-mac", peer_mac(tx_number), "--destination-mac", quiver_mac(tx_number), *options,
        )  # fmt: skip

    def generate(self, *arguments):
        """Runs quiver-tgen to its end and returns its figures."""
        with self.generator(*arguments) as process:
            return json.loads(process.finish())

    def lossless(self, *arguments, count=2000, rate=5000):
        """Sends `count` packets, all of which must arrive whole."""
        with self.generator(*arguments, "--count", count, "--rate", rate) as process:
            return self.lossless_end(process, count)

    def lossless_end(self, process, count=None):
        """The end of a generator, none of whose packets may be lost."""
        result = json.loads(process.finish())
        # Foreign frames, such as the announcement (gratuitous ARP) of an interface that comes up, are counted apart.
        # A generator that now and then doesn't run sends what was due at once, and hasn't made room for it.
        stood_still = result["stalled_ns"] > 50_000_000
        overflown = min(self.daemon.dropped("ring-full"), result["stalled_packets"]) if stood_still else 0
        assert 0 < result["sent"] <= result["received"] + overflown, (result, self.daemon.drops())
        assert result["received"] <= result["sent"], result
        assert count is None or result["sent"] == count, result
        # Where payloads are looked at (`--check payload`).
        assert not result.get("corrupted") and not result.get("duplicated"), result
        return result


def iperf(pods, *options, to="10.2.0.2", port=5201):
    """iperf3 from the first pod to a server in the second; returns its figures."""
    client, server = pods
    with server.start("iperf3", "-s", "-1", "-p", port) as listener:
        eventually(lambda: f":{port}" in server.run("ss", "-ltn").stdout, lambda: f"iperf3 listens\n{listener.output()}")
        done = client.run("iperf3", "-c", to, "-J", *options, check=False)
        result = json.loads(done.stdout)
        assert "error" not in result, result["error"]
        return result


def quiver_mac(number):
    """Ethernet address of Quiver's end of memif `number`."""
    return f"02:00:00:00:01:{number:02x}"


def peer_mac(number):
    """Ethernet address of the other end of memif `number`."""
    return f"02:00:00:00:02:{number:02x}"


def _interface(name, *lines):
    return "\n".join(["[[interface]]", f'name = "{name}"', *lines]) + "\n"
