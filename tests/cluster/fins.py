"""FINs, counted where they are sent and where they come in.

What TCP counts doesn't tell a lost one: FIN is the last segment, which a probe sends once more, and an acknowledgement of that says nothing
of the first (nobody acknowledges more than all). When answers are only late it looks the same.
"""

from inside import inside
from lab.process import Process, eventually, run

TABLE = """
add table inet fins
delete table inet fins
table inet fins {{
  counter sent {{ }}
  counter came {{ }}
  chain out {{
    type filter hook output priority 300;
    ip daddr {{ {four} }} tcp flags & fin == fin counter name sent
    ip6 daddr {{ {six} }} tcp flags & fin == fin counter name sent
  }}
  chain in {{
    type filter hook input priority -300;
    ip saddr {{ {four} }} tcp flags & fin == fin counter name came
    ip6 saddr {{ {six} }} tcp flags & fin == fin counter name came
  }}
}}
"""
# Before they are counted, and only what would be: kubelet asks each second whether a pod is ready, and ends that, too.
LOSE = """
table inet losing {{
  counter dropped {{ }}
  chain in {{
    type filter hook input priority -400;
    ip saddr {{ {four} }} tcp flags & fin == fin counter name dropped drop
    ip6 saddr {{ {six} }} tcp flags & fin == fin counter name dropped drop
  }}
}}
"""


class Fins:
    """Those between a client and others, from now on. Networks outlive their pods here: what came in is known when they are gone, too."""

    def __init__(self, client, others, asked):
        """The client and the others are (node, pod, its addresses); `asked` are addresses of Services for which the others answer."""
        node, pod, own = client
        known = [address for *_, its in others for address in its] + list(asked)
        self.ends = [_End(node, pod, known), *(_End(node, pod, own) for node, pod, _ in others)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self.ends:
            end.close()

    def counted(self):
        """How many were sent, and how many of these came in."""
        counts = [end.counts() for end in self.ends]
        return sum(sent for sent, _ in counts), sum(came for _, came in counts)

    def none_missing(self):
        """Waits until all that were sent have come in; returns how many there were."""
        there = lambda: (lambda sent, came: sent and sent == came and [sent])(*self.counted())
        (count,) = eventually(there, lambda: "FINs sent {}, come in {}".format(*self.counted()), timeout=60)
        return count


class _End:
    """The network of a pod, in which FINs to and from some addresses are counted."""

    def __init__(self, node, pod, peers):
        self.holder = Process(*inside(node, pod), "sleep", "infinity")
        self.words = ("nsenter", "-t", self.holder.pid, "-n", "nft")
        eventually(lambda: "sleep" in run("ps", "-o", "comm=", self.holder.pid, check=False).stdout, "it is in the pod's network")
        self.families = {of: ", ".join(one for one in peers if (":" in one) == (of == "six")) for of in ("four", "six")}
        run(*self.words, "-f", "-", stdin=TABLE.format(**self.families))

    def counts(self):
        """How many were sent, and how many came in."""
        return self._count("fins", "sent"), self._count("fins", "came")

    def lose(self):
        """Drops all that come in, until `take`."""
        run(*self.words, "-f", "-", stdin=LOSE.format(**self.families))

    def take(self):
        """Ends that; returns how many were dropped."""
        # (One that comes in between is dropped, too.)
        count = self.dropped()
        run(*self.words, "delete", "table", "inet", "losing")
        return count

    def dropped(self):
        """How many were dropped so far."""
        return self._count("losing", "dropped")

    def _count(self, table, name):
        """What a counter of the network says."""
        said = run(*self.words, "list", "counter", "inet", table, name).stdout.split()
        return int(said[said.index("packets") + 1])

    def close(self):
        """Lets go of the network."""
        self.holder.stop()
