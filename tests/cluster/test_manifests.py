"""What users of Calico/VPP try first, by manifests of the same kinds: Services, policies, both together, ports by name, iperf."""

import re

from lab.process import eventually
from manifests import applied, asked, pod, step
from test_policies import becomes, passes
from workload import asker, fetch, known, left, nothing_left, reaches

CLIENTS = "near", "far"


def echoes(cluster, client, address, port):
    """Whether a datagram from a pod comes back."""
    end = f"[{address}]" if ":" in address else address
    return "hello" in cluster.control.exec(client, "sh", "-c", f"echo hello | socat -t 3 - UDP:{end}:{port}", check=False).stdout


def echo_becomes(cluster, client, address, port, expected):
    """Waits until datagrams come back, or none any more."""
    there = lambda: echoes(cluster, client, address, port) == expected
    eventually(there, lambda: f"{client} to {address} UDP port {port}: comes back {expected}", timeout=60)


def serve(cluster, web, echo, port):
    """Waits until web (TCP port 80) and echo (UDP) answer all clients by both families, or answer none any more; `None`: isn't asked."""
    for family, address in enumerate(web[0][:2]):
        for client in CLIENTS:
            if web[1] is not None:
                becomes(cluster, client, address, web[1], 80)
            if echo[1] is not None:
                echo_becomes(cluster, client, echo[0][family], port, echo[1])


def ready_to_serve(cluster):
    """Waits until all nodes know all of what nat.yaml has; returns the addresses of its Services."""
    services = {name: asked(cluster, name) for name in ("web", "echo", "itself")}
    for name, port in (("web", 80), ("echo", 7), ("itself", 8080)):
        known(cluster, services[name], port, [pod(cluster, name)])
    return services


def test_services_by_manifest(cluster):
    before = left(cluster)
    with applied(cluster, "nat") as here:
        services = ready_to_serve(here)
        for family in (0, 1):
            for client in CLIENTS:
                # Who is asked sees who asks.
                assert fetch(here, client, services["web"][family], 80) == "web"
                assert asker(here, client, services["web"][family], 80) == pod(here, client)[family]
                assert echoes(here, client, services["echo"][family], 7)
                assert fetch(here, client, services["itself"][family], 8080) == "itself"
            assert fetch(here, "itself", services["itself"][family], 8080) == "itself"
    nothing_left(cluster, before)


def test_policies_by_manifest(cluster):
    """Pods are asked at their own addresses."""
    before = left(cluster)
    with applied(cluster, "nat", "policy") as here:
        ready_to_serve(here)
        web, echo = pod(here, "web"), pod(here, "echo")
        with step(here, "policy", "nobody"):
            serve(here, (web, False), (echo, False), 9999)
            for address in web[:2]:
                becomes(here, "itself", address, False, 80)
            with step(here, "policy", "clients"):
                serve(here, (web, True), (echo, True), 9999)
                assert not any(passes(here, "itself", address, 80) for address in web[:2])
        with step(here, "policy", "nowhere"):
            serve(here, (web, False), (echo, None), 9999)
            assert all(passes(here, "itself", address, 80) for address in web[:2])
            # What any policy lets pass passes.
            with step(here, "policy", "to-echo"):
                serve(here, (web, None), (echo, True), 9999)
                assert not any(passes(here, client, address, 80) for client in CLIENTS for address in web[:2])
        for client in CLIENTS:
            becomes(here, client, web[0], True, 80)
    nothing_left(cluster, before)


def test_services_under_policies_by_manifest(cluster):
    """The same when Services are asked: policies speak of backends and their ports."""
    before = left(cluster)
    with applied(cluster, "nat", "nat-policy") as here:
        services = ready_to_serve(here)
        web, echo, itself = services["web"], services["echo"], services["itself"]
        with step(here, "policy", "nobody"):
            serve(here, (web, False), (echo, False), 7)
            with step(here, "policy", "clients"):
                serve(here, (web, True), (echo, True), 7)
                assert not any(passes(here, "itself", address, 80) for address in web[:2])
        with step(here, "policy", "to-echo"):
            serve(here, (web, False), (echo, True), 7)
        with step(here, "policy", "itself"):
            for family in (0, 1):
                becomes(here, "far", itself[family], False, 8080)
                # Through its Service it comes back to itself, which no policy forbids.
                assert passes(here, "itself", itself[family], 8080)
                assert not passes(here, "itself", web[family], 80)
    nothing_left(cluster, before)


def test_ports_by_name_lead_to_each_pods_own_number(cluster):
    before = left(cluster)
    with applied(cluster, "named-ports") as here:
        both = [pod(here, name) for name in ("blue", "green")]
        services = asked(here, "named")
        for port in (80, 60):
            known(cluster, services, port, both)
            for address in services:
                reaches(here, "client", address, port, ("blue", "green"))
        # The pods have no other ports than these.
        for at, numbers in enumerate(((8020, 8030), (8060, 8090))):
            assert [passes(here, "client", both[at][0], number) for number in (8020, 8030, 8060, 8090)] == [
                number in numbers for number in (8020, 8030, 8060, 8090)
            ]
    nothing_left(cluster, before)


def test_iperf_by_manifest(cluster, told):
    n1, n2 = cluster.nodes
    before = left(cluster)
    with applied(cluster, "iperf") as here:
        servers = here.control.get("pods", "-l", "app=iperf")["items"]
        both = [[entry["ip"] for entry in one["status"]["podIPs"]] for one in servers]
        services = asked(here, "iperf")
        ports = {one["port"]: one["nodePort"] for one in here.control.get("service", "iperf")["spec"]["ports"]}
        for port in ports:
            known(cluster, services, port, both)
        for client in CLIENTS:
            for family in (0, 1):
                for address in (both[0][family], services[family]):
                    tcp = iperf(here, client, address, 5001)
                    assert "connect failed" not in tcp and rate(tcp) > 0, tcp
                    udp = iperf(here, client, address, 5003, "-u", "-l", 1200, "-b", "10M")
                    # Without the server's own report nobody knows what has come.
                    assert "WARNING" not in udp and "Server Report" in udp, udp
                many = iperf(here, client, services[family], 5001, "-P", 4)
                assert "connect failed" not in many and len(re.findall(r"connected with", many)) == 4, many
                told(f"iperf, {client} through {services[family]}: {rate(tcp) / 1e9:.1f} Gbit/s")
            for node in (n1, n2):
                for address in node.addresses:
                    assert rate(iperf(here, client, address, ports[5001])) > 0
                    assert "Server Report" in iperf(here, client, address, ports[5003], "-u", "-l", 1200, "-b", "10M")
    nothing_left(cluster, before)


def iperf(cluster, client, address, port, *more):
    """What iperf says in a pod after a second, in bits."""
    words = "iperf", "-c", address, "-p", port, "-t", 1, "-f", "b", *(("-V",) if ":" in address else ()), *more
    done = cluster.control.exec(client, *words)
    return done.stdout + done.stderr


def rate(text):
    """Bits per second, by the last line that tells any."""
    told = re.findall(r"([\d.]+) bits/sec", text)
    assert told, text
    return float(told[-1])
