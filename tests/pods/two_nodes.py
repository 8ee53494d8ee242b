"""Two nodes that know of each other, whatever lies between their hosts."""

import contextlib
import tempfile

from node import Node, addresses

# Of pods, the first node's and the second's.
RANGES = ("10.244.1.0/24", "fd00:10:244:1::/64"), ("10.244.2.0/24", "fd00:10:244:2::/64")


@contextlib.contextmanager
def two_nodes(hosts, own, *options, first=None):
    """Nodes on both hosts, with these addresses each and options of the agent; `first` is done with a node before its agent starts."""
    with contextlib.ExitStack() as stack:
        both = []
        for number, host in enumerate(hosts):
            here, there = (",".join(own[n]) for n in (number, 1 - number))
            given = ["--address", here, "--peer", f"{there}={','.join(RANGES[1 - number])}", *options]
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="qt-", dir="/tmp"))
            node = Node(directory, ranges=RANGES[number], host=host, options=given)
            stack.callback(node.close)
            node.daemon.start()
            if first:
                first(node)
            both.append(node.start_agent())
        try:
            yield both
        except BaseException:
            for node in both:
                # Its drops tell most, where it is alive to tell them.
                drops = node.daemon.cli("show", "drops", check=False).stdout
                print(node.log()[-4000:], node.daemon.log()[-4000:], drops, node.host.run("nft", "list", "ruleset").stdout)
            raise
        for node in both:
            assert node.agent.alive() and "panic" not in node.log(), node.log()


def pair(both):
    """A pod on each node, with its addresses."""
    pods = [node.pod(role) for node, role in zip(both, "ab", strict=True)]
    return pods, [addresses(node.add(pod)) for node, pod in zip(both, pods, strict=True)]
