"""What a DaemonSet does on a node besides moving packets: the runtime's files, readiness, and an end that leaves nothing."""

import json
import pathlib
import signal
import stat

from lab.process import eventually, run, tool
from node import ask


def test_a_runtime_can_use_what_was_installed(node):
    network = node.directory / "net.d/10-quiver.conflist"
    text = network.read_text()
    plugins, networks = node.directory / "plugins", node.directory / "networks"
    for directory in (plugins, networks):
        directory.mkdir()
    install = tool("quiver-agent"), "--install", "--cni-plugins", plugins, "--cni-networks", networks, "--plugin", tool("quiver-cni")
    run(*install, "--network", network)
    pod = node.pod("a")
    words = f"CNI_PATH={plugins}", f"NETCONFPATH={networks}"
    added = json.loads(run("env", *words, tool("cnitool"), "add", "quiver", f"/run/netns/{pod.name}").stdout)
    assert added["interfaces"][0]["name"] == "eth0" and (networks / "10-quiver.conflist").read_text() == text
    run("env", *words, tool("cnitool"), "del", "quiver", f"/run/netns/{pod.name}")
    # What a runtime couldn't read replaces nothing.
    network.write_text(text[:-1])
    refused = run(*install, "--network", network, check=False)
    assert refused.returncode != 0 and "10-quiver.conflist" in refused.stderr, refused
    assert (networks / "10-quiver.conflist").read_text() == text
    network.write_text(text)


def test_ready_is_who_forwards(host_node, host):
    ready = lambda: ask(host, "/readyz")
    eventually(lambda: ready() == (200, "forwarding\n"), ready, timeout=60)
    # It hangs: it neither answers nor forwards.
    host_node.daemon.process.signal(signal.SIGSTOP)
    # (Not before its threads have been told.)
    tasks = pathlib.Path(f"/proc/{host_node.daemon.process.pid}/task")
    eventually(lambda: all(") T " in (task / "stat").read_text() for task in tasks.iterdir()), "it is stopped")
    try:
        status, text = ready()
        assert status == 503 and "not forwarding" in text and "quiverd" in text, text
        assert ask(host, "/livez") == (200, "alive\n")
    finally:
        host_node.daemon.process.signal(signal.SIGCONT)
    eventually(lambda: ready()[0] == 200, ready, timeout=60)
    # It answers, but the host's packets don't get there.
    host.ip("link", "set", "quiver0", "down")
    status, text = ready()
    assert status == 503 and "ping 10.244.7.1" in text, text
    assert b"quiver_agent_reconciled 1" in ask(host, "/metrics")[1].encode()


def test_nothing_is_left_of_a_quiverd_that_has_ended_for_good(host_node, host):
    node, daemon = host_node, host_node.daemon
    eventually(lambda: "quiver0" in host.ip("link").stdout, "the host has its device")
    pod = node.pod("a")
    node.add(pod)
    # Of somebody else, but who shall have it now?
    daemon.apply(f'[[interface]]\nname = "other"\naddresses = ["10.3.0.1/24"]\ntap = {{ netns = "{pod.name}", host_name = "eth7" }}\n')
    plugins, networks = node.directory / "plugins", node.directory / "net.d"
    plugins.mkdir()
    run(tool("quiver-agent"), "--install", "--cni-plugins", plugins, "--cni-networks", networks, "--plugin", tool("quiver-cni"),
        "--network", networks / "10-quiver.conflist")  # fmt: skip
    program = node.directory / "last"
    program.write_text(f"#!/bin/sh\nexec {tool('quiverd')} --config {daemon.settings}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    options = "--start-quiverd", program, "--quiverd-state", daemon.state, "--cni-plugins", plugins, "--cni-networks", networks
    refused = node.uninstall(*options, check=False)
    assert refused.returncode != 0 and "still runs" in refused.stderr, refused
    daemon.stop()
    for device in ("eth0", "eth7"):
        assert device in pod.ip("link").stdout, "devices outlive quiverd"
    node.uninstall(*options)
    assert [line.split(":")[1].strip() for line in pod.ip("-o", "link").stdout.splitlines()] == ["lo"]
    assert "quiver0" not in host.ip("link").stdout
    left = {path.name for path in node.directory.iterdir()}
    assert left == {"net.d", "plugins", "last", "quiverd.toml"}, left
    assert not [*plugins.iterdir(), *networks.iterdir()]
    # Once more has nothing to do.
    node.uninstall(*options)
