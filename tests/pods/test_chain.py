"""CNI by the book, through libcni: versions, other plugins in the same chain, what they are told, and when one of them fails."""

import json
import stat

import pytest
from node import addresses

# A plugin of ours that takes down what it is told, gives the pod one more address in the result, and fails where a file says so.
SCRIBE = """#!/usr/bin/python3
import json, os, pathlib, sys
told, verb = json.load(sys.stdin), os.environ["CNI_COMMAND"]
if verb == "VERSION":
    print(json.dumps({"cniVersion": "1.1.0", "supportedVersions": ["0.4.0", "1.0.0", "1.1.0"]}))
    sys.exit()
here = pathlib.Path(__file__).parent
with (here / "told").open("a") as book:
    book.write(json.dumps({"verb": verb, **told}) + "\\n")
if (here / f"fail-{verb}").exists():
    print(json.dumps({"cniVersion": told["cniVersion"], "code": 150, "msg": "the scribe fails"}))
    sys.exit(1)
if verb == "ADD":
    result = told["prevResult"]
    result["ips"].append({"address": "192.0.2.7/32", "interface": 0})
    print(json.dumps(result))
"""


class Scribe:
    """The plugin, behind quiver-cni on a node."""

    def __init__(self, node):
        self.directory = node.directory / "scribe"
        self.directory.mkdir()
        program = self.directory / "scribe"
        program.write_text(SCRIBE)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        node.plugins.append(self.directory)
        node.configure(node.network, {"type": "scribe"})

    def told(self, verb):
        """What it was told with this verb, each time."""
        lines = map(json.loads, (self.directory / "told").read_text().splitlines())
        return [line for line in lines if line["verb"] == verb]

    def fail(self, verb):
        """Has it fail from now on."""
        (self.directory / f"fail-{verb}").touch()


def test_plugins_behind_it_are_given_its_result_and_nothing_is_left(node):
    scribe, pod = Scribe(node), node.pod("a")
    final = node.add(pod)
    (told,) = scribe.told("ADD")
    ours = told["prevResult"]
    assert [one["name"] for one in ours["interfaces"]] == ["eth0"] and len(addresses(ours)) == 2, ours
    # What the runtime has is ours and what others have added.
    assert addresses(final) == [*addresses(ours), "192.0.2.7"] and final["routes"] == ours["routes"], final
    # It isn't for us to judge what others have added.
    node.cni("check", pod)
    assert scribe.told("CHECK")[0]["prevResult"] == final
    node.cni("del", pod)
    assert scribe.told("DEL")[0]["prevResult"] == final
    assert node.attached() == [] and node.kept() == [] and "eth0" not in pod.ip("link").stdout


def test_a_plugin_behind_it_that_fails_leaves_no_half_pod(node):
    scribe, pod = Scribe(node), node.pod("a")
    scribe.fail("ADD")
    done = node.cni("add", pod, check=False)
    assert done.returncode != 0 and "the scribe fails" in done.stdout + done.stderr
    # A runtime deletes what it couldn't add, once and maybe again.
    for _ in range(2):
        node.cni("del", pod)
    assert node.attached() == [] and node.kept() == [] and "eth0" not in pod.ip("link").stdout


def test_it_is_the_first_of_its_chain_or_says_so(node):
    Scribe(node)
    pod, other = node.pod("a"), node.pod("b")
    before = node.add(other)
    node.configure({"type": "scribe"}, node.network)
    where = {"CONTAINERID": "c", "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
    status, answer = node.plugin("ADD", {"prevResult": before}, **where)
    assert status != 0 and answer["code"] == 7 and "put it first" in answer["details"], answer
    assert len(node.attached()) == len(node.kept()) == 1


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0"])
def test_results_are_of_the_version_that_is_asked_for(node, version):
    node.configure(node.network, version=version)
    pod = node.pod("a")
    result = node.add(pod, {"quiver.io/extraMemifPorts": "udp:80"})
    assert result["cniVersion"] == version and [one["name"] for one in result["interfaces"]] == ["eth0", "memif-eth0"]
    assert len(addresses(result)) == 2
    # What a version hasn't got isn't there.
    assert ("socketPath" in result["interfaces"][1]) == (version != "0.4.0"), result
    assert all((ip.get("version") in ("4", "6")) == (version == "0.4.0") for ip in result["ips"]), result
    node.cni("check", pod)
    node.cni("del", pod)
    assert node.kept() == []


def test_it_says_which_versions_it_knows_and_refuses_others(node):
    status, answer = node.plugin("VERSION", {})
    assert status == 0 and answer["supportedVersions"] == ["0.4.0", "1.0.0", "1.1.0"], answer
    pod = node.pod("a")
    where = {"CONTAINERID": "c", "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
    status, answer = node.plugin("ADD", {"cniVersion": "0.2.0"}, **where)
    assert status != 0 and answer["code"] == 1 and "0.2.0" in answer["details"], answer
    assert node.kept() == []


def test_check_says_what_is_amiss(node):
    pod = node.pod("a")
    result = node.add(pod)
    record = json.loads((node.directory / "pods/attachments" / node.kept()[0]).read_text())
    where = {"CONTAINERID": record["container"], "IFNAME": "eth0", "NETNS": f"/run/netns/{pod.name}"}
    check = lambda **text: node.plugin("CHECK", text, **where)
    assert check(prevResult=result) == (0, {})
    status, answer = check()
    assert status != 0 and answer["code"] == 7 and "prevResult is missing" in answer["msg"], answer
    # The runtime takes it for another pod's, or for one in another namespace.
    other = json.loads(json.dumps(result).replace("10.244.7.2/32", "10.244.7.9/32"))
    status, answer = check(prevResult=other)
    assert status != 0 and answer["code"] == 102 and "10.244.7.2, of which the runtime doesn't know" in answer["msg"], answer
    status, answer = check(prevResult=json.loads(json.dumps(result).replace(pod.name, "elsewhere")))
    assert status != 0 and answer["code"] == 102 and "no interface eth0" in answer["msg"], answer
    # Somebody has taken an address away in the pod, and then all of it.
    pod.ip("address", "del", "10.244.7.2/32", "dev", "eth0")
    status, answer = check(prevResult=result)
    assert status != 0 and answer["code"] == 102 and "lacks address 10.244.7.2" in answer["msg"], answer


def test_libcni_asks_how_it_is_and_clears_away(node):
    a, b = node.pod("a"), node.pod("b")
    node.cni("status", a)
    for pod in (a, b):
        node.add(pod)
    # (cnitool names no attachments that are valid.)
    node.cni("gc", a)
    assert node.attached() == [] and node.kept() == []
    assert not any("eth0" in pod.ip("link").stdout for pod in (a, b))
    node.kill_agent()
    # In this time it shall have answered.
    node.configure({**node.network, "timeoutSeconds": 1})
    done = node.cni("status", a, check=False)
    assert done.returncode != 0 and "quiver-agent at" in done.stdout + done.stderr and "doesn't answer" in done.stdout + done.stderr, done
    node.start_agent()
