#!/usr/bin/env python3
"""Shows Quiver at work: pods (network namespaces) exchange packets over tap and memif through one quiverd.

Needs root for the pods; without it only the memif part is shown, between socket files. Everything that is made is removed
again, also after Ctrl-C or a failure; KEEP=1 leaves it up and prints what to try.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "release"
KEEP = os.environ.get("KEEP") == "1"
HUGE_PAGES = 64
PODS = {"a": "10.1.0", "b": "10.2.0", "c": "10.3.0"}


def say(text=""):
    print(text, flush=True)


def title(text):
    say(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def run(*command, timeout=60, check=True):
    """Runs a command and returns what it printed; a failure shows the command and its output."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def free_huge_pages():
    """As the kernel says."""
    lines = pathlib.Path("/proc/meminfo").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("HugePages_Free")))


class Demo:
    """What is up, and how to take it down again, last thing first."""

    def __init__(self):
        self.root = os.geteuid() == 0
        self.undo = contextlib.ExitStack()
        # The same as `undo`, for people: what KEEP=1 leaves to them, last thing first.
        self.by_hand = []
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="quiver-demo-"))
        self.later(f"rm -r {self.dir}", shutil.rmtree, self.dir, ignore_errors=True)
        self.socket = self.dir / "quiver.sock"
        self.results = []

    def cli(self, *arguments, **options):
        return run(BIN / "quiver", "--socket", self.socket, *arguments, **options)

    def later(self, command, undo, *arguments, **options):
        """Something was made: how it is removed again, by a person and by us."""
        self.by_hand.insert(0, command)
        self.undo.callback(undo, *arguments, **options)

    def note(self, what, good, detail):
        self.results.append((what, good, detail))
        say(f"  {'ok' if good else 'FAILED'}: {what}: {detail}")

    # -- set-up ------------------------------------------------------------------------------------------------

    def huge_pages(self):
        path = pathlib.Path("/proc/sys/vm/nr_hugepages")
        free = free_huge_pages()
        if free >= HUGE_PAGES:
            say(f"huge pages: {free} free")
            return
        before = path.read_text().strip()
        try:
            path.write_text(str(int(before) + HUGE_PAGES - free))
            self.later(f"echo {before} > {path}", path.write_text, before)
        except OSError:
            pass
        free = free_huge_pages()
        if free >= HUGE_PAGES:
            say(f"huge pages: {free} free for the time of this demo ({before} were set before)")
            return
        say("huge pages: none. Everything works; with them memif would be faster (fewer TLB misses):")
        say(f"  echo {HUGE_PAGES} > /proc/sys/vm/nr_hugepages")

    def pods(self):
        there = [name for pod in PODS if pathlib.Path(f"/run/netns/{(name := f'quiver-demo-{pod}')}").exists()]
        if there:
            commands = [f"kill {pid}" for pid in earlier()] + [f"ip netns del {name}" for name in there]
            raise RuntimeError("an earlier demo is still up; take it down:\n  " + "; ".join(commands))
        for pod in PODS:
            name = f"quiver-demo-{pod}"
            self.later(f"ip netns del {name}", run, "ip", "netns", "del", name, check=False)
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")

    def daemon(self):
        settings = self.dir / "quiverd.toml"
        # The worker takes the last core, the generator the first.
        core = max(os.sched_getaffinity(0))
        settings.write_text(
            f'[api]\nsocket = "{self.socket}"\n[state]\ndirectory = "{self.dir / "state"}"\n[workers]\ncores = [{core}]\n'
            f'[metrics]\nlisten = "unix:{self.dir / "metrics.sock"}"\n'
        )
        # In a session of its own: Ctrl-C is ours to deal with, and what is kept outlives the terminal.
        with open(self.dir / "quiverd.log", "w") as log:
            process = subprocess.Popen([BIN / "quiverd", "--config", settings], stdout=log, stderr=log, start_new_session=True)
        self.later(f"kill {process.pid}", self.stop, process)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            if process.poll() is not None:
                raise RuntimeError("quiverd ended at once:\n" + (self.dir / "quiverd.log").read_text())
            if self.socket.exists():
                return
            time.sleep(0.05)
        raise RuntimeError("quiverd did not open its socket:\n" + (self.dir / "quiverd.log").read_text())

    @staticmethod
    def stop(process):
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()

    def lab(self):
        """The configuration, as a user would write it."""
        text = []
        for pod, net in PODS.items():
            if self.root:
                text.append(f"""
[[interface]]
name = "pod-{pod}"
addresses = ["{net}.1/24"]
tap = {{ netns = "quiver-demo-{pod}", host_name = "eth0", host_addresses = ["{net}.2/24"], host_gateways = ["{net}.1"] }}
""")
        for pod, net, mac in (("b", "10.12.0", "02:00:00:00:00:0b"), ("c", "10.13.0", "02:00:00:00:00:0c")):
            where = f'socket = "@memif-{pod}", netns = "quiver-demo-{pod}"' if self.root else f'socket = "{self.dir}/memif-{pod}"'
            text.append(f"""
[[interface]]
name = "memif-{pod}"
mac = "{mac}"
addresses = ["{net}.1/24"]
memif = {{ {where}, role = "server" }}

[[neighbor]]
interface = "memif-{pod}"
address = "{net}.2"
mac = "02:00:00:00:01:{mac[-2:]}"
""")
        lab = self.dir / "lab.toml"
        lab.write_text("\n".join(text).lstrip())
        return lab

    # -- what is shown -----------------------------------------------------------------------------------------

    def ping(self):
        title("ping from pod a to pod b, tap to tap")
        out = run("ip", "netns", "exec", "quiver-demo-a", "ping", "-c", "5", "-i", "0.2", "-q", "10.2.0.2", check=False)
        lines = [line for line in out.splitlines() if "packets" in line or "rtt" in line]
        self.note("ping a -> b", " 0% packet loss" in out, "; ".join(lines) or "no answer")

    def tcp(self):
        title("TCP from pod a to pod b (iperf3), tap to tap")
        server = subprocess.Popen(
            ["ip", "netns", "exec", "quiver-demo-b", "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until = time.monotonic() + 10
            while ":5201" not in run("ip", "netns", "exec", "quiver-demo-b", "ss", "-ltn") and time.monotonic() < until:
                time.sleep(0.05)
            out = run("ip", "netns", "exec", "quiver-demo-a", "iperf3", "-c", "10.2.0.2", "-t", "3", "-J", check=False)
            result = json.loads(out)
            gbps = result["end"]["sum_received"]["bits_per_second"] / 1e9
            self.note("TCP a -> b", gbps > 0, f"{gbps:.2f} Gbit/s, {result['end']['sum_sent'].get('retransmits', 0)} retransmits")
        except (ValueError, KeyError):
            self.note("TCP a -> b", False, "iperf3 could not connect")
        finally:
            self.stop(server)

    def memif(self, size, full):
        command = [BIN / "quiver-tgen", "--source", "10.12.0.2", "--destination", "10.13.0.2", "--output", "json"]
        command += ["--destination-mac", "02:00:00:00:00:0b", "--source-mac", "02:00:00:00:01:0b"]
        if self.root:
            command += ["--tx", "@memif-b", "--tx-netns", "quiver-demo-b", "--rx", "@memif-c", "--rx-netns", "quiver-demo-c"]
        else:
            command += ["--tx", self.dir / "memif-b", "--rx", self.dir / "memif-c"]
        command += ["--size", size, "--seconds", "3", "--core", min(os.sched_getaffinity(0)), "--peer-core", max(os.sched_getaffinity(0))]
        self.cli("clear", "counters")
        result = json.loads(run(*command, *(["--full"] if full else [])))
        runtime = json.loads(self.cli("show", "runtime", "-o", "json"))
        clocks = worker_clocks(runtime)
        far = f", cores {result['placement']}" if result.get("placement") else ""
        self.note(
            f"memif b -> c, {size} B",
            result["received"] > 0,
            f"{result['received_pps'] / 1e6:.2f} Mpps, {result['received_bps'] / 1e9:.1f} Gbit/s, {clocks:.0f} clocks per packet, "
            f"{result['lost']} of {result['sent']} lost{far}",
        )

    def show(self):
        title("memif to memif: IPv4 forwarding by one worker, one generator")
        self.memif(64, False)
        self.memif(1500, True)
        title("What each node cost (quiver show runtime)")
        say(self.cli("show", "runtime").rstrip())
        title("Where packets were dropped (quiver show drops)")
        say(self.cli("show", "drops").rstrip())
        title("The way of one packet (quiver trace add, quiver show trace)")
        # Behind the measurement: while a trace waits for its packet, all packets go node by node.
        self.cli("trace", "add", "tap-input" if self.root else "memif-input", "1")
        if self.root:
            run("ip", "netns", "exec", "quiver-demo-a", "ping", "-c", "1", "10.2.0.2", check=False)
        else:
            self.memif(64, False)
        trace = self.cli("show", "trace").rstrip()
        say(trace)
        self.note("trace", "input" in trace, "one packet followed through the graph")

    def demo(self):
        say("Quiver demo: three pods, one dataplane" if self.root else "Quiver demo without root: memif only, no pods and taps")
        self.huge_pages()
        if self.root:
            self.pods()
        self.daemon()
        lab = self.lab()
        say(self.cli("apply", "-f", lab).rstrip())
        if self.root:
            self.ping()
            self.tcp()
        self.show()
        title("Summary")
        for what, good, detail in self.results:
            say(f"  {'ok    ' if good else 'FAILED'} {what}: {detail}")
        return all(good for _, good, _ in self.results)


def earlier():
    """Processes of daemons that other demos have started."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = path.read_bytes().split(b"\0")
            if command[0].endswith(b"/quiverd") and any(b"quiver-demo-" in word for word in command):
                yield int(path.parent.name)


def worker_clocks(runtime):
    """Clocks per packet of the whole worker: all nodes' clocks over the packets that came in by memif."""
    nodes = [node for worker in runtime["workers"] for node in worker["nodes"]]
    packets = sum(int(node["packets"]) for node in nodes if node["name"] == "memif-input")
    return sum(int(node["clocks"]) for node in nodes) / packets if packets else 0.0


def keep(demo):
    """Says what is still up, what can be tried with it, and how to take it down."""
    quiver = f"{BIN}/quiver --socket {demo.socket}"
    tries = [f"{quiver} {words}" for words in ("show interface", "top", "get", "doctor", f"pcap start --write {demo.dir}/all.pcapng")]
    if demo.root:
        tries += [
            "ip netns exec quiver-demo-a ping 10.3.0.2",
            f"{quiver} trace add pod-a 1 && ip netns exec quiver-demo-a ping -c 1 10.3.0.2 && {quiver} show trace",
        ]
    say("\nKEEP=1: everything is still up. Try:")
    say("\n".join(f"  {command}" for command in tries))
    say("and then, to take it down:\n  " + "; ".join(demo.by_hand))


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    demo = Demo()
    good = kept = False
    try:
        good = demo.demo()
        kept = KEEP
    except KeyboardInterrupt:
        say("\ninterrupted")
        return 130
    except (RuntimeError, OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        kept = KEEP and bool(demo.results)
        say(f"\nFAILED: {error}")
    finally:
        # Whoever is impatient now would leave things behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if kept:
            demo.undo.pop_all()
            keep(demo)
        else:
            demo.undo.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
