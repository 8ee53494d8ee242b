"""What other tests judge by, held against faults that are known."""

import contextlib

from fins import Fins
from lab.process import HANGS, Process, eventually
from test_churn import asking
from workload import PORT, fetch, known, left, lost, nothing_left, pods, segments, server, service, services


def test_a_fin_that_is_lost_is_seen_where_tcp_counts_none(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with contextlib.ExitStack() as stack:
        of = stack.enter_context(pods(cluster, server("a", n1), server("web", n2, app="web")))
        made = stack.enter_context(services(cluster, service("web", "web", (80, PORT))))
        asked = made["web"]["spec"]["clusterIPs"]
        known(cluster, asked, 80, [of["web"]])
        fins = stack.enter_context(Fins((n1, "a", of["a"]), [(n2, "web", of["web"])], asked))
        ways = [(of["web"][0], PORT), (of["web"][1], PORT), *((address, 80) for address in asked)]
        for way in ways:
            assert fetch(cluster, "a", *way) == "web"
        # One of each side of each connection, and those that were sent again since answers were late.
        assert fins.none_missing() >= 2 * len(ways)

        counts = segments(cluster, "a")
        _, end = fins.ends
        end.lose()
        ask = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 60 {asked[0]} 80"
        asks = stack.enter_context(Process(*cluster.control.client, "exec", "a", "--", "sh", "-c", ask))
        eventually(end.dropped, "a FIN is dropped", timeout=60)
        dropped = end.take()
        assert asks.wait() == 0, asks.output()
        # (Both ends aren't counted in one moment: what is sent again in between has come before it was sent.)
        missing = lambda: (lambda sent, came: sent - came)(*fins.counted())
        eventually(lambda: missing() >= dropped > 0, lambda: f"{fins.counted()}, {dropped} dropped", timeout=60)
        since = {name: number - counts[name] for name, number in segments(cluster, "a").items()}
        told(f"{dropped} FINs dropped: {missing()} missed by count; by TCP's counters {lost(since)}")
    nothing_left(cluster, before)


def test_an_answer_whose_end_never_comes_is_told_as_nobodys(cluster):
    """Other tests ask again and again, and look for that word."""
    n1, _ = cluster.nodes
    before = left(cluster)
    with pods(cluster, server("a", n1)) as of, contextlib.ExitStack() as stack:
        # It says who it is, as a server does, and then keeps the connection.
        stays = "exec nc -ll -p 80 -e sh -c 'echo; echo b; sleep 600'"
        control = cluster.control
        stack.enter_context(Process(*control.client, "exec", "a", "--", "sh", "-c", stays))
        listens = lambda: ":0050 " in control.exec("a", "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
        eventually(listens, "somebody listens", timeout=60)
        again = stack.enter_context(asking(cluster, "a", of["a"][0]))
        eventually(lambda: again.output().split(), again.output, timeout=HANGS)
        assert again.output().split()[0] == "nobody", again.output()
    nothing_left(cluster, before)
