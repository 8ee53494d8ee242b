"""quiver-bench measures between pods: clusters of its own come up, packets pass, and all of it goes away. How fast isn't judged."""

import json
import pathlib
import re
import subprocess

import pytest
from lab.process import ROOT, run

# Exit status where a suite has no figure, and why one hasn't.
UNMEASURED, MOVED = 3, "moved the cores in every trial"
TUN, MEMIF = "128kb-1c-podtun-ethip4-ip4pods-{}-gso-iperf3-mrr", "64b-1c-podmemif-ethip4-ip4pods-{}-mrr"


def measured(device, *suites):
    """What quiver-bench says of each suite, by its name, after one short trial."""
    words = [ROOT / "bin/quiver-bench", "run", *suites, "--device", device, "--trials", 1, "--no-store", "--output", "json"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode in (0, UNMEASURED), done.stderr
    found = {one["suite"]: one for one in json.loads(done.stdout)}
    # How fast isn't what is asked here: a suite all of whose trials a host has spoilt by moving the cores has passed packets all the same.
    unfinished = {one["message"] for one in found.values() if one["result"]["type"] == "unknown"}
    assert all(MOVED in message for message in unfinished) and (done.returncode == 0) == (not unfinished), done.stderr
    return found


@pytest.mark.parametrize(
    ("device", "suites"),
    [
        ("k8s-quiver", (TUN.format("near"), TUN.format("far-svc-np"), MEMIF.format("near-np"), MEMIF.format("far-svc"))),
        ("k8s-kube-proxy", (TUN.format("near"), TUN.format("far-svc"))),
    ],
)
def test_paths_between_pods_are_measured(device, suites):
    before = namespaces()
    found = measured(device, *suites)
    # (A host that moves the cores about leaves a trial without a figure; that something has passed is in it all the same.)
    for suite in suites:
        (trial, *_) = found[suite]["trials"]
        assert (trial["rate_bps"] or 0) > 0, found[suite]
        assert suite.startswith("128kb") or 0 < trial["received"] <= trial["sent"], found[suite]
    # Others come and go meanwhile: whose maker is there is no leftover.
    left = {name for name in namespaces() - before if not pathlib.Path("/proc", re.sub(r"^\D*(\d+).*", r"\1", name)).exists()}
    assert not left, left


def namespaces():
    """Names of all networks of the machine; in each is the number of the process that made it."""
    return {line.split()[0] for line in run("ip", "netns", "list").stdout.splitlines()}
