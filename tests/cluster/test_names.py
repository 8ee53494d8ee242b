"""Names: a pod looks them up at the Service of the cluster's CoreDNS, as its resolver is told to."""

import itertools

from inside import inside
from lab.process import eventually, run
from testbed import dns
from workload import PORT, known, left, nothing_left, pods, server, service, services


def looked_up(words, address, name, kind, *options):
    """What is answered to a question, in order; nothing: nobody answers."""
    # (It is asked again: what is late isn't waited for.)
    return sorted(
        run(*words, "dig", "+short", "+time=2", "+tries=1", *options, f"@{address}", name, kind, check=False, timeout=60).stdout.split()
    )


def test_pods_look_up_names_at_a_service_by_udp_and_tcp(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    wanted = server("a", n1), server("c", n2), server("b", n1, app="web"), server("d", n2, app="web")
    web, each = service("web", "web", (80, PORT)), service("each", "web", (80, PORT), clusterIP="None")
    with dns.installed(cluster.control) as asked, pods(cluster, *wanted) as of, services(cluster, web, each) as made:
        assert asked[0] == dns.ADDRESS and len(asked) == 2 and ":" in asked[1]
        vips = made["web"]["spec"]["clusterIPs"]
        known(cluster, vips, 80, [of["b"], of["d"]])
        name = lambda service: f"{service}.default.svc.{dns.DOMAIN}"
        answers = {
            (name(service), kind): sorted(answer)
            for family, kind in enumerate(("A", "AAAA"))
            for service, answer in (("web", [vips[family]]), ("each", [of["b"][family], of["d"][family]]))
        }
        for node, pod in ((n1, "a"), (n2, "c")):
            words = inside(node, pod)
            for address in asked:
                for way, (what, answer) in itertools.product(("+notcp", "+tcp"), answers.items()):
                    now = lambda words=words, address=address, way=way, what=what: looked_up(words, address, *what, way)
                    # (CoreDNS hears of them as everybody does, and remembers for half a minute that there was nobody.)
                    eventually(lambda now=now, answer=answer: now() == answer, lambda now=now, way=way: (way, now()), timeout=60)
            # By what kubelet has written for it.
            said = cluster.control.exec(pod, "busybox", "nslookup", name("web")).stdout
            assert dns.ADDRESS in said and all(vip in said for vip in vips), said
    nothing_left(cluster, before)
