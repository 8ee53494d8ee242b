"""quiverd, and the command line that talks to it."""

import http.client
import json
import os
import pathlib
import signal
import socket

from .process import HANGS, Process, eventually, run, tool


class Daemon:
    """A quiverd with socket, state and log in one directory."""

    def __init__(self, directory, state=None, workers=None, extra="", inside=(), program=None):
        self.directory = pathlib.Path(directory)
        self.socket = self.directory / "quiver.sock"
        self.metrics = self.directory / "metrics.sock"
        self.state = pathlib.Path(state or self.directory / "state")
        self.settings = self.directory / "quiverd.toml"
        self.settings.write_text(
            f'[api]\nsocket = "{self.socket}"\n[state]\ndirectory = "{self.state}"\n'
            f'[metrics]\nlisten = "unix:{self.metrics}"\n[workers]\ncores = {worker_cores(workers)}\n{extra}'
        )
        # Words of a command that runs it somewhere else than here.
        self.inside = inside
        self.program = program or tool("quiverd")
        self.process = None
        self.past = []
        # Where in the log the present test begins.
        self.mark = 0

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self):
        """Starts it and waits until it answers."""
        self.process = Process(*self.inside, self.program, "--config", self.settings)
        eventually(self._answers, lambda: f"quiverd answers\n{self.log()}")
        return self

    def _answers(self):
        assert self.process.alive(), f"quiverd ended at once:\n{self.log()}"
        return self.socket.exists() and self.cli("show", "version", check=False).returncode == 0

    def stop(self):
        """Ends it as systemd would."""
        if self.process:
            self.process.stop()
            self._keep()

    def kill(self):
        """Ends it without a chance to tidy up."""
        self.process.signal(signal.SIGKILL)
        self.process.wait()
        self._keep()

    def _keep(self):
        self.past.append(self.process.output())
        self.process = None

    def log(self):
        """What it logged, over all its lives."""
        return "\n--- restarted ---\n".join(self.past + ([self.process.output()] if self.process else []))

    # -- talking to it ---------------------------------------------------------------------------------------------

    def cli(self, *arguments, **options):
        """Runs `quiver` and returns what became of it."""
        return run(tool("quiver"), "--socket", self.socket, *arguments, **options)

    def json(self, *arguments, **options):
        """Runs `quiver … -o json` and returns the answer."""
        return json.loads(self.cli(*arguments, "-o", "json", **options).stdout)

    def show(self, *what):
        """`quiver show … -o json`."""
        return self.json("show", *what)

    def apply(self, toml, *options):
        """Applies objects, which must all be in force afterwards; returns the answer."""
        answer = self.json("apply", "-f", "-", *options, stdin=toml)
        waiting = [result for result in answer.get("results", []) if "applied" not in result["outcome"]]
        assert not waiting, f"not in force: {waiting}"
        return answer

    def offer(self, toml, *options):
        """Applies objects that may come to anything; returns exit status and the answer per object name."""
        done = self.cli("apply", "-f", "-", "-o", "json", *options, stdin=toml, check=False)
        results = json.loads(done.stdout).get("results", []) if done.stdout else []
        return done.returncode, {result["object"]["name"]: result["outcome"] for result in results}, done.stderr

    def delete(self, kind, *names):
        """Deletes objects."""
        self.cli("delete", kind, *names)

    def clear(self):
        """Deletes everything."""
        self.cli("apply", "--replace", "-f", "-", stdin="")

    def names(self, kind="all"):
        """Names of the objects there are."""
        return [_name(entry["object"]) for entry in self.json("get", kind, "--status").get("objects", [])]

    def states(self):
        """State of every object, by name."""
        objects = self.json("get", "all", "--status").get("objects", [])
        return {_name(entry["object"]): entry["status"]["state"] for entry in objects}

    def workers_of(self, interface):
        """The workers of an interface's receive queues, in order."""
        return [queue.get("worker", 0) for queue in self.interface(interface).get("placement", [])]

    def interface(self, name):
        """An interface as it runs."""
        return self.show("interface", name)["interfaces"][0]

    def counter(self, interface, counter):
        """A counter of an interface; those that are zero are left out of answers."""
        return self.interface(interface).get("counters", {}).get(counter, 0)

    def memif(self, name):
        """A memif connection as it runs."""
        return next(memif for memif in self.show("memif")["memifs"] if memif["interface"] == name)

    def drops(self):
        """Dropped packets by (node, reason), those of all interfaces together."""
        drops = {}
        for drop in self.show("drops").get("drops", []):
            key = drop["node"], drop["reason"]
            packets = drops.get(key, {}).get("packets", 0) + int(drop["packets"])
            drops[key] = {**drop, "packets": packets}
        return drops

    def drops_of(self, interface):
        """Packets of an interface that were dropped, by (node, reason)."""
        drops = self.show("drops").get("drops", [])
        return {(d["node"], d["reason"]): int(d["packets"]) for d in drops if d.get("interface", "") == interface}

    def dropped(self, reason):
        """Packets dropped for a reason, at whatever node."""
        return sum(int(drop["packets"]) for (_, name), drop in self.drops().items() if name == reason)

    def fetch(self, path):
        """What quiverd serves over HTTP, as Prometheus or a probe would ask for it: status, content type and text."""
        connection = http.client.HTTPConnection("quiver")
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(HANGS)
        connection.sock.connect(str(self.metrics))
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("content-type"), answer.read().decode()

    def scrape(self):
        """The metrics: content type and text."""
        status, kind, text = self.fetch("/metrics")
        assert status == 200
        return kind, text

    def nodes(self):
        """Names of the graph's nodes."""
        return {node["name"] for node in self.show("graph")["nodes"]}


def worker_cores(workers=None):
    """Cores of the workers (one, or as many as $QUIVER_WORKERS says): the last that may be used. Generators take the first."""
    workers = workers or int(os.environ.get("QUIVER_WORKERS") or 1)
    return sorted(os.sched_getaffinity(0))[-workers:]


def _name(holder):
    ((kind, thing),) = holder.items()
    if kind == "route":
        return f"{thing.get('vrf', 'default')}/{thing['prefix']}"
    return f"{thing['interface']}/{thing['address']}" if kind == "neighbor" else thing["name"]
