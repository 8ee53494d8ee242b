"""Applications of pods, at the other end of a memif."""

import contextlib

from lab.process import tool


@contextlib.contextmanager
def ip_application(daemon, pod, own=(), behind=""):
    """A second quiverd, behind a memif of IP packets: with these addresses, or with objects behind it; all else leads to the pod's node."""
    addresses = ", ".join(f'"{address}/{128 if ":" in address else 32}"' for address in own)
    daemon.start().apply(f"""
[[interface]]
name = "app"
addresses = [{addresses}]
memif = {{ socket = "@vpp/memif-eth0", netns = "{pod.name}", role = "client", mode = "ip" }}
[[route]]
prefix = "0.0.0.0/0"
next_hops = [{{ interface = "app" }}]
[[route]]
prefix = "::/0"
next_hops = [{{ interface = "app" }}]
{behind}""")
    yield
    daemon.stop()


@contextlib.contextmanager
def ethernet_application(_daemon, pod, _own):
    """The Go library's example, started inside of the pod as its user would."""
    with pod.start(tool("memif-echo"), "-client", "@vpp/memif-eth0"):
        yield
