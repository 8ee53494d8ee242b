"""What runs in a pod's network without anybody's help: neither the API server nor kubelet is asked."""

import itertools
import json
import pathlib
import re

from lab.process import Process, run
from workload import PORT, Pings

# One line after the other, each of which must have come back: ten a second.
TALK = """
import socket, sys, time
server = socket.create_connection((sys.argv[1], int(sys.argv[2])), 120)
answers, number = server.makefile(), 0
while True:
    number += 1
    server.sendall(f"line {number}\\n".encode())
    answer = answers.readline()
    if not answer:
        sys.exit("the connection has ended")
    print(answer, end="", flush=True)
    time.sleep(0.1)
"""


def inside(node, pod):
    """Words that have a program of the machine run in a pod's network."""
    # (/var/run leads to /run, and from here to ours.)
    path = pathlib.Path(f"/proc/{node.first}/root{record(node, pod)['netns'].replace('/var/run/', '/run/')}")
    assert path.exists(), path
    return ("nsenter", f"--net={path}")


def record(node, pod):
    """What the agent has on disk of a pod."""
    (found,) = [one for one in records(node) if one["podName"] == pod]
    return found


def records(node):
    """The same of all pods."""
    directory = node.directory / "lib/quiver/pods/attachments"
    return [json.loads((directory / name).read_text()) for name in node.kept() if name.endswith(".json")]


def passes(words, address, port=PORT, patience=30):
    """Whether a server answers at all, by TCP."""
    ask = f"exec 3<>/dev/tcp/{address}/{port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
    return "200 OK" in run(*words, "timeout", patience, "bash", "-c", ask, check=False).stdout


def talk(words, address, port):
    """A connection to whoever sends everything back."""
    return Process(*words, "/usr/bin/python3", "-c", TALK, address, port)


class PingsInside(Pings):
    """Pings. While eth0 has nobody at its other end, none is sent."""

    def __init__(self, words, address):
        super().__init__(*words, "ping", "-n", "-D", "-i", "0.1", address, first=1)

    def pause(self):
        """The longest time between two answers, in seconds."""
        times = [float(text) for text in re.findall(r"^\[([\d.]+)\].* ttl", self.output(), re.MULTILINE)]
        return max(after - before for before, after in itertools.pairwise(times))
